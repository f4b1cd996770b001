"""Readers that wait for more records than there are (Fetch's min bytes and max wait): parked without a task.

A wait ends once: when enough bytes are there, when the partition is deleted, when the time is over, or when the client
has gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from muster.coordinator.log import LogError
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.partition import Partition

WATCHED_AT_ONCE: Final = 100
"""Partitions that a reader begins to wait for in one step."""


def do_at_once(job: Job[None]) -> None:
    """Do all of it."""
    for _ in job:
        pass


class FetchWait:
    """One parked reader. `ready` is called once: the reader then reads again and answers."""

    __slots__ = ("_available", "_behind", "_committed", "_min_bytes", "_ready", "_sizes", "_timer", "over")

    def __init__(
        self,
        clock: Clock,
        partitions: Iterable[Partition],
        min_bytes: int,
        available: int,
        wait_ms: int,
        committed: bool,
        ready: Callable[[], object],
        behind: Callable[[Job[None]], object] = do_at_once,
    ) -> None:
        """`available`: bytes that could be read when it parked; more must come until there are `min_bytes`. `behind`:
        does work that nobody waits for.
        """
        self._behind = behind
        self._min_bytes = min_bytes
        self._available = available
        self._committed = committed
        self._ready: Callable[[], object] | None = ready
        self.over = False
        self._sizes: dict[Partition, tuple[int, int]] = {}
        for partition in partitions:
            self._watch(partition)
        self._timer = clock.call_at(clock.now().mono_ms + wait_ms, self._finish)

    def _watch(self, partition: Partition) -> None:
        bound = self._bound(partition)
        self._sizes[partition] = (self._size(partition, bound), bound)
        partition.wait(self, self._grew)

    def watching(self, partitions: Iterable[Partition]) -> Job[None]:
        """Wait for these partitions too."""
        for partition in partitions:
            if self.over:
                return
            self._watch(partition)
            yield None

    def _bound(self, partition: Partition) -> int:
        return partition.last_stable_offset() if self._committed else partition.log.durable_offset

    def _size(self, partition: Partition, bound: int) -> int:
        """How many bytes there are up to what may be read. What an open transaction holds back is none of them: when it
        ends, all of it comes at once.
        """
        log = partition.log
        if self._committed and bound < log.durable_offset:
            with suppress(LogError):  # its reader will hear of it
                return log.size_up_to(bound)
        return log.size_bytes

    def _grew(self, partition: Partition) -> None:
        if self.over:
            return
        if partition.closed or (self._committed and not partition.log.knows_producers):
            self._finish()  # the log was opened anew: its reader looks again
            return
        size, bound = self._sizes[partition]
        now_bound = self._bound(partition)
        if now_bound > bound:
            now_size = self._size(partition, now_bound)
            self._available += max(now_size - size, 0)
            self._sizes[partition] = (now_size, now_bound)
            if self._available >= self._min_bytes:
                self._finish()

    def cancel(self) -> None:
        """Nobody waits any more; harmless when it is over."""
        if not self.over:
            self.over = True
            self._timer.cancel()
            # no circle stays of it
            sizes, self._sizes = self._sizes, {}
            self._ready = None
            if len(sizes) <= WATCHED_AT_ONCE:
                for partition in sizes:
                    partition.stop_waiting(self)
            else:
                self._behind(self._leaving(sizes))

    def _leaving(self, partitions: Iterable[Partition]) -> Job[None]:
        """Many such readers may go at once, and each may have very many partitions."""
        for partition in partitions:
            partition.stop_waiting(self)
            yield None

    def finish(self) -> None:
        """There may be more to read at once, for another reason than that the log grew; harmless when it is over."""
        self._finish()

    def _finish(self) -> None:
        ready = self._ready
        if ready is not None:
            self.cancel()
            ready()
