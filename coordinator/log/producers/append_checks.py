"""Checks what a producer may append (Kafka: ProducerAppendInfo, UnifiedLog.analyzeAndValidateProducerState). Pure.

The coordinator of a transaction has to confirm its first batch (KIP-890; Kafka: VerificationGuard). The caller gets a
guard, asks the coordinator, and appends with the guard. A marker in between makes the guard invalid.
"""

from __future__ import annotations

from typing import Final

from muster.coordinator.log.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from muster.coordinator.log.producers.state import NO_COORDINATOR_EPOCH, NO_PRODUCER_EPOCH, Producer, SeenBatch
from muster.coordinator.log.records.headers import BatchHeader
from muster.coordinator.log.records.markers import EndMarker


class VerificationGuard:
    """Stands for one requested verification. Only this very object permits the append."""

    __slots__ = ()


NOT_NEEDED: Final = VerificationGuard()
"""The guard for batches without verification: `transaction.partition.verification.enable` is off."""


class VerificationState:
    """The verification of the transaction that one producer is about to begin in one log."""

    __slots__ = ("began_ms", "epoch", "guard", "lowest_sequence", "supports_epoch_bump")

    def __init__(self, began_ms: int, sequence: int, epoch: int, supports_epoch_bump: bool) -> None:
        self.began_ms = began_ms
        self.guard = VerificationGuard()
        self.lowest_sequence = sequence
        """The lowest sequence to verify: no later sequence may be appended before it."""
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump
        """Whether each end of a transaction raises the client's epoch, as from Produce 12 and TxnOffsetCommit 5 on."""

    def add_batch(self, sequence: int, epoch: int) -> None:
        """Add another batch of the same producer."""
        if epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)
        elif epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence


class Verifications:
    """All running verifications of one log, by producer id."""

    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        self._by_id: dict[int, VerificationState] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def begin(
        self, producer_id: int, epoch: int, sequence: int, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationState:
        """Return the verification of a producer, after creating it if the producer has none."""
        known = self._by_id.get(producer_id)
        if known is None:
            known = self._by_id[producer_id] = VerificationState(now_ms, sequence, epoch, supports_epoch_bump)
        known.add_batch(sequence, epoch)
        return known

    def get(self, producer_id: int) -> VerificationState | None:
        """Return the verification of a producer, if it has one."""
        return self._by_id.get(producer_id)

    def opens(self, producer_id: int, guard: VerificationGuard | None) -> bool:
        """Whether `guard` is the guard of this producer's verification, so that no marker made it invalid."""
        known = self._by_id.get(producer_id)
        return known is not None and known.guard is guard

    def appended(self, producer_id: int) -> None:
        """Note that a batch of the transaction was appended: the transaction is open and needs no guard."""
        self._by_id.pop(producer_id, None)

    def marked(self, producer_id: int, epoch: int) -> None:
        """Note a marker: the producer's guard is invalid, unless the marker ends an earlier transaction."""
        known = self._by_id.get(producer_id)
        if known is not None and not (known.supports_epoch_bump and known.epoch == epoch):
            del self._by_id[producer_id]

    def expire(self, now_ms: int, after_ms: int) -> None:
        """Forget verifications that began `after_ms` ago or earlier."""
        for producer_id in [p for p, known in self._by_id.items() if now_ms - known.began_ms >= after_ms]:
            del self._by_id[producer_id]


MAX_EPOCH = 2**15 - 1
"""The last epoch of a producer id."""


def earlier_append(producer: Producer | None, header: BatchHeader) -> SeenBatch | None:
    """Return the earlier append that a client's batch duplicates; None for a new batch."""
    if producer is not None and producer.epoch == header.producer_epoch:
        first, last = header.base_sequence, header.last_sequence
        for seen in producer.batches:
            if seen.first_sequence == first and seen.last_sequence == last:
                return seen
    return None


def check_epoch(producer: Producer | None, producer_id: int, epoch: int) -> None:
    """Raise InvalidProducerEpoch when the log has seen a newer epoch of the producer."""
    if producer is not None and epoch < producer.epoch:
        raise InvalidProducerEpoch(
            f"Epoch of producer {producer_id} is {epoch}, which is smaller than the last seen epoch {producer.epoch}"
        )


def is_in_transaction(producer: Producer | None, epoch: int) -> bool:
    """Whether the producer has an open transaction in this log under this epoch."""
    return producer is not None and producer.transaction_start is not None and producer.epoch == epoch


def check_sequence(producer: Producer | None, header: BatchHeader, verified: VerificationState | None) -> None:
    """Raises OutOfOrderSequence for a gap, or for an old batch. `verified`: the producer's verification."""
    producer_id, sequence = header.producer_id, header.base_sequence
    if verified is not None:
        if verified.supports_epoch_bump and sequence != 0 and (producer is None or not producer.batches):
            raise OutOfOrderSequence(
                f"Invalid sequence number for producer {producer_id}: {sequence} (incoming seq. number). Expected "
                "sequence 0 for transactions v2 idempotent producer with no existing state."
            )
        if sequence > verified.lowest_sequence:
            raise OutOfOrderSequence(
                f"Out of order sequence number for producer {producer_id}: {sequence} (incoming seq. number), "
                f"{verified.lowest_sequence} (earliest seen sequence)"
            )
    if producer is None or producer.epoch == NO_PRODUCER_EPOCH:
        return
    if header.producer_epoch != producer.epoch:
        if sequence != 0:
            raise OutOfOrderSequence(
                f"Invalid sequence number for new epoch of producer {producer_id}: {header.producer_epoch} (request "
                f"epoch), {sequence} (seq. number), {producer.epoch} (current producer epoch)"
            )
    elif sequence != producer.next_sequence:
        raise OutOfOrderSequence(
            f"Out of order sequence number for producer {producer_id}: {sequence} (incoming seq. number), "
            f"{producer.last_sequence} (current end sequence number)"
        )


def check_verified(producer: Producer | None, epoch: int, is_verified: bool) -> None:
    """Raises InvalidTxnState for a batch of a transaction that is neither open in this log nor verified."""
    if not (is_verified or is_in_transaction(producer, epoch)):
        raise InvalidTxnState("Record was not part of an ongoing transaction")


def check_not_in_transaction(producer: Producer | None, header: BatchHeader) -> None:
    """Raises InvalidTxnState for a batch outside of transactions while its producer has an open transaction."""
    if producer is not None and producer.transaction_start is not None and not header.is_transactional:
        raise InvalidTxnState(f"Expected transactional write from producer {header.producer_id}")


def check_end_marker(producer: Producer | None, marker: EndMarker) -> None:
    """Raises InvalidProducerEpoch or TransactionCoordinatorFenced.

    With transaction version 2 an equal epoch is right for a repeated marker, or if the epoch cannot be raised.
    """
    known = NO_PRODUCER_EPOCH if producer is None else producer.epoch
    epoch, version = marker.producer_epoch, marker.transaction_version
    if version >= 2 and epoch == known:
        is_late = producer is not None and producer.transaction_start is not None and epoch != MAX_EPOCH
    else:
        is_late = epoch < known
    if is_late:
        relation = "<=" if version >= 2 else "<"
        raise InvalidProducerEpoch(
            f"Epoch of producer {marker.producer_id} is {epoch}, which is {relation} the last seen epoch {known} "
            f"(TV{version})"
        )
    seen = NO_COORDINATOR_EPOCH if producer is None else producer.coordinator_epoch
    if seen > marker.coordinator_epoch:
        raise TransactionCoordinatorFenced(
            f"Invalid coordinator epoch for producerId {marker.producer_id}: {marker.coordinator_epoch} (zombie), "
            f"{seen} (current)"
        )
