"""Refused requests, counted: one event for each cause and client in each second, so that no client can fill a disk by
being refused. Sets no timer and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from muster.coordinator.groups.interface import Event

SECOND_MS: Final = 1_000
MOST_KINDS: Final = 100
"""Different refusals that are told of one second; what is beyond is counted together, without names."""

Facts = dict[str, Any]


class Refused:
    """The refusals of the present second."""

    __slots__ = ("_counts", "_others", "began_ms")

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, int, str, str, str | None], int] = {}
        self._others = 0
        self.began_ms: int | None = None
        """When the first of them came (wall ms); None: there is none."""

    def add(self, event: Event, wall_ms: int) -> None:
        """Count a REQUEST_REFUSED."""
        if self.began_ms is None:
            self.began_ms = wall_ms
        facts: Facts = event.facts
        kind = (event.group_id, facts["api"], facts["error"], facts["client_id"], facts["host"], facts["instance"])
        if kind in self._counts or len(self._counts) < MOST_KINDS:
            self._counts[kind] = self._counts.get(kind, 0) + 1
        else:
            self._others += 1

    def take(self) -> Iterator[tuple[str | None, Facts]]:
        """The group and the facts of each event to write; nothing is counted any more."""
        counts, others = self._counts, self._others
        self._counts, self._others, self.began_ms = {}, 0, None
        for (group_id, api, error, client_id, host, instance), count in counts.items():
            yield (
                group_id,
                {
                    "api": api,
                    "error_code": error,
                    "client_id": client_id,
                    "host": host,
                    "instance": instance,
                    "count": count,
                },
            )
        if others:
            yield None, {"api": None, "error_code": None, "client_id": None, "host": None, "instance": None,
                         "count": others}  # fmt: skip
