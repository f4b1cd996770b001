"""The decided records that a shard has yet to append, in batches that gather the records of many commands.

This module appends nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from muster.coordinator.state_machine.interface import Producer, Reply
from muster.coordinator.system.clock import Clock

BATCH_BYTES: Final = 64 * 1024
"""Bytes that are gathered into one batch. The records of one command may be more."""


class Batch:
    """The records that were decided since `began_ms` (monotonic), in the transaction of `producer` or outside of any.

    The batch also has the events to report and the replies to send once it is appended.
    """

    __slots__ = ("began_ms", "events", "producer", "replies", "rows", "size")

    def __init__(self, began_ms: int, producer: Producer | None) -> None:
        self.began_ms = began_ms
        self.producer = producer
        self.rows: list[Any] = []
        self.size = 0
        self.replies: list[Reply] = []
        self.events: list[Any] = []


class AppendQueue:
    """The batches to be appended, in their order.

    The queue calls `flush` when it is time to append them. With `at_once` the queue does not call `flush`: the caller
    appends each addition at once. Only `flush_within` lets an addition wait.
    """

    __slots__ = ("_clock", "_flush", "_is_timed", "_linger_ms", "at_once", "batches")

    def __init__(self, clock: Clock, linger_ms: int, flush: Callable[[], object]) -> None:
        """`linger_ms`: how long records are gathered.

        0: not at all. -1: until all requests of the same iteration of the event loop are handled.
        """
        self._clock = clock
        self._linger_ms = linger_ms
        self._flush = flush
        self._is_timed = False
        self.at_once = linger_ms == 0
        self.batches: list[Batch] = []

    def batch_for(self, size: int, producer: Producer | None) -> Batch:
        """The batch for the records of one command, which have `size` bytes.

        It is the newest batch. It is a new one when the newest is full or belongs to another producer.
        """
        batch = self.batches[-1] if self.batches else None
        if batch is None or batch.size + size > BATCH_BYTES or batch.producer != producer:
            if batch is None and self._linger_ms < 0:
                self._clock.call_soon(self._flush)
            elif batch is None and self._linger_ms > 0:
                self._clock.machine.call_at(self._clock.machine.mono_ms() + self._linger_ms, self._flush)
            batch = Batch(self._clock.moment().mono_ms, producer)
            self.batches.append(batch)
        batch.size += size
        return batch

    def flush_within(self, ms: int) -> None:
        """What was added may wait this long for more records. Other records may cause an earlier flush."""
        if self.at_once and not self._is_timed:
            self._is_timed = True
            self._clock.machine.call_at(self._clock.machine.mono_ms() + ms, self._flush_now)

    def _flush_now(self) -> None:
        self._is_timed = False
        self._flush()

    def take_all(self) -> list[Batch]:
        """Remove and return all batches. They will not be appended."""
        batches, self.batches = self.batches, []
        return batches
