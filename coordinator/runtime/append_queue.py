"""What a shard has decided and is yet to append: batches that gather the records of many commands. Appends nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from muster.coordinator.state_machine.interface import Producer, Reply
from muster.coordinator.system.clock import Clock

BATCH_BYTES: Final = 64 * 1024
"""How much is gathered into one batch; the records of one command may be more."""


class Batch:
    """What was decided since `began_ms` (monotonic), in the transaction of `producer` or outside of any; what is told
    and answered once it is appended.
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
    """The batches to be appended, in their order. `flush` is called when it is time to append them; not with `at_once`,
    when each addition is to be appended at once, unless `flush_within` says how long it may wait.
    """

    __slots__ = ("_clock", "_flush", "_is_timed", "_linger_ms", "at_once", "batches")

    def __init__(self, clock: Clock, linger_ms: int, flush: Callable[[], object]) -> None:
        """`linger_ms`: how long is gathered. 0: not at all; -1: until all requests are looked at that have come in the
        same turn of the loop.
        """
        self._clock = clock
        self._linger_ms = linger_ms
        self._flush = flush
        self._is_timed = False
        self.at_once = linger_ms == 0
        self.batches: list[Batch] = []

    def batch_for(self, size: int, producer: Producer | None) -> Batch:
        """The batch that takes the records of one command, of `size` bytes: the newest one; or a new one when that is
        full, or is of another producer.
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
        """What was added may wait for more, for so long at most. (Others may come to be flushed together with it.)"""
        if self.at_once and not self._is_timed:
            self._is_timed = True
            self._clock.machine.call_at(self._clock.machine.mono_ms() + ms, self._flush_now)

    def _flush_now(self) -> None:
        self._is_timed = False
        self._flush()

    def take_all(self) -> list[Batch]:
        """The batches, which will not be appended."""
        batches, self.batches = self.batches, []
        return batches
