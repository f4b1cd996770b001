"""The producers of one log (KIP-98; Kafka: ProducerStateManager): last batches, open transactions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from muster.coordinator.log.records.markers import EndMarker
from muster.coordinator.log.segments.transaction_index import AbortedTransaction
from muster.coordinator.system.jobs import Job

KEPT_BATCHES = 5
"""How many batches of a producer are remembered: as many as may be in flight (NUM_BATCHES_TO_RETAIN)."""

CHECKED_AT_ONCE: Final = 500
"""How many producers are looked at in one step."""
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_COORDINATOR_EPOCH = -1
MAX_SEQUENCE = 2**31 - 1
"""The largest sequence number; the next one is 0."""


class SeenBatch(NamedTuple):
    """One batch that a producer appended."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


class LastRecord(NamedTuple):
    """The last batch and epoch of a producer in a log, which compaction must keep."""

    data_offset: int | None
    """The offset of the producer's newest batch of data; None when its newest epoch has only a marker."""
    epoch: int


class Producer:
    """The state of one producer id in one log (Kafka's ProducerStateEntry)."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp_ms", "next_sequence", "producer_id",
                 "transaction_start")  # fmt: skip

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: list[SeenBatch] = []
        self.next_sequence = 0
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_timestamp_ms = -1
        self.transaction_start: int | None = None

    @property
    def last_sequence(self) -> int:
        """The last sequence of the newest batch, or -1."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class Producers:
    """All producers of one log, and its transactions that are open or have just ended."""

    __slots__ = ("_by_id", "_ended", "_open", "before_change")

    def __init__(self) -> None:
        self._by_id: dict[int, Producer] = {}
        self._open: dict[int, int] = {}
        """First offset of each open transaction -> its producer, in the order of the offsets."""
        self._ended: list[tuple[int, int]] = []
        """First and last offset of transactions that ended lately: their markers may not be durable yet."""
        self.before_change: Callable[[Producer], object] | None = None

    def __len__(self) -> int:
        return len(self._by_id)

    def restore(self, producers: Iterable[Producer]) -> None:
        """Add producers of a snapshot, which may have several entries with one batch each. Then call `restored`."""
        for producer in producers:
            earlier = self._by_id.get(producer.producer_id)
            if earlier is not None:
                producer.batches = (earlier.batches + producer.batches)[-KEPT_BATCHES:]
            self._by_id[producer.producer_id] = producer
            if producer.transaction_start is not None:
                self._open[producer.transaction_start] = producer.producer_id

    def restored(self) -> None:
        """Note that all producers of the snapshot were added."""
        self._open = dict(sorted(self._open.items()))

    def all(self) -> list[Producer]:
        """Return every producer, in the order of their first appends (DescribeProducers)."""
        return list(self._by_id.values())

    def get(self, producer_id: int) -> Producer | None:
        """The state of one producer; None when the log does not know it."""
        return self._by_id.get(producer_id)

    def last_record(self, producer_id: int) -> LastRecord | None:
        """Return the last record of a producer; None when it is unknown. Any thread may call this."""
        producer = self._by_id.get(producer_id)
        if producer is None:
            return None
        newest = producer.batches[-1:]
        return LastRecord(newest[0].last_offset if newest else None, producer.epoch)

    def appended(self, producer_id: int, epoch: int, batch: SeenBatch, transactional: bool) -> None:
        """Note that a batch of this producer was appended."""
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
        """Note that an end marker was appended at `offset`. Returns the entry for the transaction index, or None."""
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
        """Whether no transaction is open, and none has just ended."""
        return not (self._open or self._ended)

    def first_unstable_offset(self, durable_offset: int) -> int | None:
        """The first offset of the oldest transaction that is open, or whose marker is not durable yet; else None."""
        if self._ended:
            self.forget_ended(durable_offset)
        first = next(iter(self._open), None)
        if not self._ended:
            return first
        waiting = min(self._ended)[0]
        return waiting if first is None else min(first, waiting)

    @property
    def ended_count(self) -> int:
        """How many transactions that have just ended are remembered."""
        return len(self._ended)

    def forget_ended(self, durable_offset: int) -> None:
        """Forget ended transactions whose markers are before `durable_offset`."""
        self._ended = [(start, last) for start, last in self._ended if last >= durable_offset]

    def expiring(self, now_ms: int, after_ms: int) -> Job[int]:
        """Forget producers without an open transaction that wrote nothing for `after_ms`; return how many."""
        known, gone = self._by_id, 0
        for number, producer_id in enumerate(list(known), 1):
            producer = known.get(producer_id)
            is_idle = producer is not None and producer.transaction_start is None
            if producer is not None and is_idle and now_ms - producer.last_timestamp_ms >= after_ms:
                del known[producer_id]
                gone += 1
            if not number % CHECKED_AT_ONCE:
                yield None
        return gone
