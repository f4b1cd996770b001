"""Start and end of the logs that other nodes lead, from the database: for lag on pages and in metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster.coordinator.system.clock import Clock
from muster.postgres.store import Store, StoreAway

KEPT_MS: Final = 2_000
"""How long the answer of the database is used again."""
Ends = Mapping[str, Mapping[int, tuple[int, int]]]


class KnownEnds:
    """See the module."""

    def __init__(self, store: Store, clock: Clock) -> None:
        """`store`: not the connection of database writes."""
        self._store = store
        self._clock = clock
        self._found: Ends = {}
        self._read_ms = -KEPT_MS

    async def ends(self) -> Ends:
        """Start and end by topic and partition. Empty: the database is away."""
        if self._clock.mono_ms() - self._read_ms >= KEPT_MS:
            try:
                rows = await self._store.ends()
            except StoreAway:
                return {}
            found: dict[str, dict[int, tuple[int, int]]] = {}
            for topic, partition, start, end in rows:
                found.setdefault(topic, {})[partition] = start, end
            self._found, self._read_ms = found, self._clock.mono_ms()
        return self._found
