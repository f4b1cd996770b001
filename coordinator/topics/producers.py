"""What one partition remembers of its producers: their last batches, by which gaps and duplicates are found (KIP-98).

Pure: no clock, no log. The partition asks `check` before it appends and tells `appended` (or `marked`, for a control
batch) afterwards; a log that is read back is told the same way, so that replay gives the live state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from muster.coordinator.topics.errors import ApiError
from muster.protocol.errors import ErrorCode

KEPT_BATCHES = 5
"""Batches remembered per producer: as many as it may have in flight (ProducerStateEntry.NUM_BATCHES_TO_RETAIN)."""

NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
MAX_SEQUENCE = 2**31 - 1


class SeenBatch(NamedTuple):
    """One batch that a producer appended."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


class AbortedTransaction(NamedTuple):
    """A transaction that ended with ABORT (Kafka's AbortedTxn): readers of committed records skip its batches."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the marker."""
    last_stable_offset: int
    """The partition's last stable offset once this transaction was over."""


class Producer:
    """The state of one producer id in one partition (Kafka's ProducerStateEntry)."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp_ms", "producer_id", "transaction_start")

    def __init__(self, producer_id: int, epoch: int) -> None:
        """`transaction_start`: the first offset of its open transaction, or None."""
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: list[SeenBatch] = []
        self.coordinator_epoch = -1
        self.last_timestamp_ms = -1
        self.transaction_start: int | None = None

    @property
    def last_sequence(self) -> int:
        """The last sequence of the newest batch, or -1."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class Producers:
    """All producers of one partition, and its transactions: open ones and those that were aborted."""

    __slots__ = ("_by_id", "_open", "aborted")

    def __init__(self, producers: Iterable[Producer] = ()) -> None:
        self._by_id = {producer.producer_id: producer for producer in producers}
        self._open = {
            p.producer_id: p.transaction_start for p in self._by_id.values() if p.transaction_start is not None
        }
        self.aborted: list[AbortedTransaction] = []

    def __len__(self) -> int:
        return len(self._by_id)

    def all(self) -> list[Producer]:
        """Every producer, in the order in which they came (DescribeProducers)."""
        return list(self._by_id.values())

    def get(self, producer_id: int) -> Producer | None:
        """The state of one producer, if it has any here."""
        return self._by_id.get(producer_id)

    def check(self, producer_id: int, epoch: int, first_sequence: int, last_sequence: int) -> SeenBatch | None:
        """May this batch of a client be appended? Returns the earlier append when it is a duplicate of that.

        Raises `ApiError`: INVALID_PRODUCER_EPOCH (fenced), OUT_OF_ORDER_SEQUENCE_NUMBER (a gap, or older than all
        kept). A producer that is not known here (never was, or expired) may start with any sequence.
        """
        producer = self._by_id.get(producer_id)
        if producer is None:
            return None
        if epoch == producer.epoch:
            for seen in producer.batches:
                if seen.first_sequence == first_sequence and seen.last_sequence == last_sequence:
                    return seen
            expected = (producer.last_sequence + 1) & MAX_SEQUENCE
            if first_sequence != expected and producer.epoch != NO_PRODUCER_EPOCH:
                raise ApiError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Out of order sequence number for producer {producer_id}: {first_sequence} (incoming seq. "
                    f"number), {producer.last_sequence} (current end sequence number)",
                )
        elif epoch < producer.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {producer_id} is {epoch}, which is smaller than the last seen epoch "
                f"{producer.epoch}",
            )
        elif first_sequence != 0 and producer.epoch != NO_PRODUCER_EPOCH:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Invalid sequence number for new epoch of producer {producer_id}: {epoch} (request epoch), "
                f"{first_sequence} (seq. number), {producer.epoch} (current producer epoch)",
            )
        return None

    def appended(self, producer_id: int, epoch: int, batch: SeenBatch, transactional: bool) -> None:
        """A batch of this producer stands in the log."""
        producer = self._at_epoch(producer_id, epoch)
        producer.batches.append(batch)
        del producer.batches[:-KEPT_BATCHES]
        producer.last_timestamp_ms = batch.timestamp_ms
        if transactional and producer.transaction_start is None:
            producer.transaction_start = self._open[producer_id] = batch.base_offset

    def marked(
        self, producer_id: int, epoch: int, coordinator_epoch: int, offset: int, committed: bool, timestamp_ms: int
    ) -> None:
        """A transaction's end marker (a control batch) stands in the log at `offset`."""
        producer = self._at_epoch(producer_id, epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp_ms = timestamp_ms
        start = producer.transaction_start
        producer.transaction_start = None
        self._open.pop(producer_id, None)
        if start is not None and not committed:
            stable = min(self._open.values(), default=offset + 1)
            self.aborted.append(AbortedTransaction(producer_id, start, offset, stable))

    def _at_epoch(self, producer_id: int, epoch: int) -> Producer:
        producer = self._by_id.get(producer_id)
        if producer is None:
            producer = self._by_id[producer_id] = Producer(producer_id, epoch)
        elif producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
        return producer

    def first_open_offset(self) -> int | None:
        """Where the oldest open transaction begins (Kafka's first unstable offset), or None."""
        return min(self._open.values()) if self._open else None

    def aborted_between(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with records in [start, end) (TransactionIndex.collectAbortedTxns)."""
        found = []
        for transaction in self.aborted:
            if transaction.last_offset >= start and transaction.first_offset < end:
                found.append(transaction)
            if transaction.last_stable_offset >= end:
                break
        return found

    def expire(self, now_ms: int, after_ms: int) -> int:
        """Forget producers silent for `after_ms` that have no open transaction; how many went."""
        gone = [
            producer.producer_id
            for producer in self._by_id.values()
            if producer.transaction_start is None and now_ms - producer.last_timestamp_ms >= after_ms
        ]
        for producer_id in gone:
            del self._by_id[producer_id]
        return len(gone)

    def forget_before(self, offset: int) -> None:
        """The log now starts at `offset`: aborted transactions that ended before it can no longer be read."""
        self.aborted = [transaction for transaction in self.aborted if transaction.last_offset >= offset]
