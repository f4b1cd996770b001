"""What one log remembers of its producers: their last batches, by which gaps and duplicates are found, and the
transactions that are open (KIP-98; Kafka: ProducerStateManager, ProducerStateEntry).

Pure: no clock, no file. What may be appended is decided in `checks`; the log tells `appended` and `marked` what was. A
log that is read back is told the same way, so that replay gives the live state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from muster.coordinator.log.records.markers import EndMarker
from muster.coordinator.log.segments.transaction_index import AbortedTransaction
from muster.coordinator.system.jobs import Job, at_once

KEPT_BATCHES = 5
"""Batches remembered per producer: as many as it may have in flight (ProducerStateEntry.NUM_BATCHES_TO_RETAIN)."""

LOOKED_AT_ONCE: Final = 500
"""Producers that are looked at in one step, whether they have expired."""
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_COORDINATOR_EPOCH = -1
MAX_SEQUENCE = 2**31 - 1


class SeenBatch(NamedTuple):
    """One batch that a producer appended."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


class LastRecord(NamedTuple):
    """What a log ends with of a producer; compaction must keep that."""

    data_offset: int | None
    """Of its newest batch of data; None: there is none of its newest epoch, only a marker."""
    epoch: int


class Producer:
    """The state of one producer id in one log (Kafka's ProducerStateEntry)."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp_ms", "next_sequence", "producer_id",
                 "transaction_start")  # fmt: skip

    def __init__(self, producer_id: int, epoch: int) -> None:
        """`transaction_start`: the first offset of its open transaction, or None."""
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: list[SeenBatch] = []
        self.next_sequence = 0
        """That of a batch which follows the newest one."""
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_timestamp_ms = -1
        self.transaction_start: int | None = None

    @property
    def last_sequence(self) -> int:
        """The last sequence of the newest batch, or -1."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class Producers:
    """All producers of one log, and its transactions that are open or ended just now."""

    __slots__ = ("_by_id", "_ended", "_open", "before_change")

    def __init__(self) -> None:
        self._by_id: dict[int, Producer] = {}
        self._open: dict[int, int] = {}
        """First offset of each open transaction -> its producer; they begin in this order."""
        self._ended: list[tuple[int, int]] = []
        """First and last offset of transactions whose marker was not durable when it was appended."""
        self.before_change: Callable[[Producer], object] | None = None
        """Is shown a producer that is about to change."""

    def __len__(self) -> int:
        return len(self._by_id)

    def restore(self, producers: Iterable[Producer]) -> None:
        """These were known when a snapshot was made; one may come several times, with one batch each. `restored` must
        follow the last of them.
        """
        for producer in producers:
            earlier = self._by_id.get(producer.producer_id)
            if earlier is not None:
                producer.batches = (earlier.batches + producer.batches)[-KEPT_BATCHES:]
            self._by_id[producer.producer_id] = producer
            if producer.transaction_start is not None:
                self._open[producer.transaction_start] = producer.producer_id

    def restored(self) -> None:
        """All are there."""
        self._open = dict(sorted(self._open.items()))

    def all(self) -> list[Producer]:
        """Every producer, in the order in which they came (DescribeProducers)."""
        return list(self._by_id.values())

    def get(self, producer_id: int) -> Producer | None:
        """The state of one producer, if it has any here."""
        return self._by_id.get(producer_id)

    def last_record(self, producer_id: int) -> LastRecord | None:
        """What there is of a producer at the end; None: it is not known. In any thread."""
        producer = self._by_id.get(producer_id)
        if producer is None:
            return None
        newest = producer.batches[-1:]
        return LastRecord(newest[0].last_offset if newest else None, producer.epoch)

    def appended(self, producer_id: int, epoch: int, batch: SeenBatch, transactional: bool) -> None:
        """A batch of this producer stands in the log."""
        producer = self._at_epoch(producer_id, epoch)
        batches = producer.batches
        batches.append(batch)
        if len(batches) > KEPT_BATCHES:
            del batches[0]
        producer.next_sequence = (batch.last_sequence + 1) & MAX_SEQUENCE
        producer.last_timestamp_ms = batch.timestamp_ms
        if transactional and producer.transaction_start is None:
            producer.transaction_start = batch.base_offset
            self._open[batch.base_offset] = producer_id

    def marked(self, marker: EndMarker, offset: int, timestamp_ms: int) -> AbortedTransaction | None:
        """A transaction's end marker (a control batch) stands in the log at `offset`; what is to be noted of it."""
        producer = self._at_epoch(marker.producer_id, marker.producer_epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp_ms = timestamp_ms
        start, producer.transaction_start = producer.transaction_start, None
        if start is None:
            return None
        self._open.pop(start, None)
        self._ended.append((start, offset))
        if marker.is_committed:
            return None
        return AbortedTransaction(marker.producer_id, start, offset, next(iter(self._open), offset + 1))

    def _at_epoch(self, producer_id: int, epoch: int) -> Producer:
        producer = self._by_id.get(producer_id)
        if producer is None:
            producer = self._by_id[producer_id] = Producer(producer_id, epoch)
            return producer
        if self.before_change is not None:
            self.before_change(producer)
        if producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
            producer.next_sequence = 0
        return producer

    @property
    def is_stable(self) -> bool:
        """No transaction is open, and none has ended just now."""
        return not (self._open or self._ended)

    def first_open_offset(self) -> int | None:
        """Where the oldest open transaction begins (Kafka's first undecided offset), or None."""
        return next(iter(self._open), None)

    def first_unstable_offset(self, durable_offset: int) -> int | None:
        """Where the oldest transaction begins that is open, or whose marker is not durable yet; None: there is none."""
        if self._ended:
            self.forget_ended(durable_offset)
        first = next(iter(self._open), None)
        if not self._ended:
            return first
        waiting = min(self._ended)[0]
        return waiting if first is None else min(first, waiting)

    @property
    def ended_count(self) -> int:
        """How many transactions are remembered that have ended just now."""
        return len(self._ended)

    def forget_ended(self, durable_offset: int) -> None:
        """The markers before `durable_offset` are durable."""
        self._ended = [(start, last) for start, last in self._ended if last >= durable_offset]

    def expire(self, now_ms: int, after_ms: int) -> int:
        """`expiring`, without a pause."""
        return at_once(self.expiring(now_ms, after_ms))

    def expiring(self, now_ms: int, after_ms: int) -> Job[int]:
        """Forget producers silent for `after_ms` that have no open transaction; how many went."""
        known, gone = self._by_id, 0
        for number, producer_id in enumerate(list(known), 1):
            producer = known.get(producer_id)
            is_idle = producer is not None and producer.transaction_start is None
            if producer is not None and is_idle and now_ms - producer.last_timestamp_ms >= after_ms:
                del known[producer_id]
                gone += 1
            if not number % LOOKED_AT_ONCE:
                yield None
        return gone
