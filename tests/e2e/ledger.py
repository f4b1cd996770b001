"""Who processed which record: lost and doubled records are found by it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable

PATIENCE_S = 120.0


class Ledger:
    """Counts the records that the members of one group processed. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: defaultdict[tuple[str, int, int], list[str]] = defaultdict(list)

    def add(self, who: str, topic: str, partition: int, offset: int) -> None:
        """`who` processed the record."""
        with self._lock:
            self._seen[topic, partition, offset].append(who)

    def __len__(self) -> int:
        with self._lock:
            return len(self._seen)

    def by(self, who: str) -> set[tuple[str, int, int]]:
        """The records that `who` processed."""
        with self._lock:
            return {record for record, members in self._seen.items() if who in members}

    @property
    def twice(self) -> dict[tuple[str, int, int], list[str]]:
        """The records that were processed more than once, and by whom."""
        with self._lock:
            return {record: members for record, members in self._seen.items() if len(members) > 1}

    def offsets(self, topic: str) -> dict[int, list[int]]:
        """The offsets that were processed, by partition, sorted."""
        found: defaultdict[int, list[int]] = defaultdict(list)
        with self._lock:
            for seen_topic, partition, offset in sorted(self._seen):
                if seen_topic == topic:
                    found[partition].append(offset)
        return dict(found)


async def eventually(condition: Callable[[], object], what: str = "", patience_s: float = PATIENCE_S) -> None:
    """Wait until `condition()` holds. Fail with `what` when it does not hold after `patience_s`."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"still waiting for {what or condition}"
        await asyncio.sleep(0.01)


def eventually_sync(condition: Callable[[], object], what: str = "", patience_s: float = PATIENCE_S) -> None:
    """`eventually` for tests without an event loop."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"still waiting for {what or condition}"
        time.sleep(0.01)
