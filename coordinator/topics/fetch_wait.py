"""Readers that wait for more records (Fetch's min bytes and max wait) are parked without a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from muster.coordinator.log import LogError
from muster.coordinator.log.segments.reading import size_up_to
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job, at_once
from muster.coordinator.topics.partition import Partition

WATCHED_AT_ONCE: Final = 100
"""How many partitions of a waiting Fetch are watched in one step."""


class FetchWait:
    """One parked reader. `ready` is called once: the reader then reads again and answers."""

    __slots__ = ("_available", "_committed", "_min_bytes", "_ready", "_run_job", "_sizes", "_timer", "over")

    def __init__(
        self,
        clock: Clock,
        partitions: Iterable[Partition],
        min_bytes: int,
        available: int,
        wait_ms: int,
        committed: bool,
        ready: Callable[[], object],
        run_job: Callable[[Job[None]], object] = at_once,
    ) -> None:
        """`available`: bytes that were readable when the reader parked; the reader waits for `min_bytes`.

        `run_job`: runs jobs for which no client waits.
        """
        self._run_job = run_job
        self._min_bytes = min_bytes
        self._available = available
        self._committed = committed
        self._ready: Callable[[], object] | None = ready
        self.over = False
        self._sizes: dict[Partition, tuple[int, int]] = {}
        for partition in partitions:
            self._watch(partition)
        self._timer = clock.call_at(clock.now().mono_ms + wait_ms, self.finish)

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
        """Return how many bytes are readable up to `bound`, without those that an open transaction holds back."""
        log = partition.log
        if self._committed and bound < log.durable_offset:
            with suppress(LogError):  # the reader gets this error when it reads
                return size_up_to(log.segments, bound)
        return log.size_bytes

    def _grew(self, partition: Partition) -> None:
        if self.over:
            return
        if partition.closed or (self._committed and not partition.log.knows_producers):
            self.finish()  # the log was opened again: its reader reads again
            return
        size, bound = self._sizes[partition]
        now_bound = self._bound(partition)
        if now_bound > bound:
            now_size = self._size(partition, now_bound)
            self._available += max(now_size - size, 0)
            self._sizes[partition] = (now_size, now_bound)
            if self._available >= self._min_bytes:
                self.finish()

    def cancel(self) -> None:
        """Stop: the client no longer waits. The call has no effect when the wait is over."""
        if not self.over:
            self.over = True
            self._timer.cancel()
            # no reference cycle stays
            sizes, self._sizes = self._sizes, {}
            self._ready = None
            if len(sizes) <= WATCHED_AT_ONCE:
                for partition in sizes:
                    partition.stop_waiting(self)
            else:
                self._run_job(self._leaving(sizes))

    def _leaving(self, partitions: Iterable[Partition]) -> Job[None]:
        """A job that stops watching: many readers may stop at once, each with very many partitions."""
        for partition in partitions:
            partition.stop_waiting(self)
            yield None

    def finish(self) -> None:
        """Let the reader read again at once. The call has no effect when the wait is over."""
        ready = self._ready
        if ready is not None:
            self.cancel()
            ready()
