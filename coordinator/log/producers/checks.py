"""Checks what a producer may append (Kafka: ProducerAppendInfo, UnifiedLog.analyzeAndValidateProducerState).

It changes nothing.
"""

from __future__ import annotations

from muster.coordinator.log.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from muster.coordinator.log.producers.state import (
    NO_COORDINATOR_EPOCH,
    NO_PRODUCER_EPOCH,
    Producer,
    SeenBatch,
)
from muster.coordinator.log.producers.verification import Verification
from muster.coordinator.log.records.headers import BatchHeader
from muster.coordinator.log.records.markers import EndMarker

MAX_EPOCH = 2**15 - 1


def earlier_append(producer: Producer | None, header: BatchHeader) -> SeenBatch | None:
    """Return the earlier append that a client's batch duplicates; None for a new batch."""
    if producer is not None and producer.epoch == header.producer_epoch:
        first, last = header.base_sequence, header.last_sequence
        for seen in producer.batches:
            if seen.first_sequence == first and seen.last_sequence == last:
                return seen
    return None


def check_epoch(producer: Producer | None, producer_id: int, epoch: int) -> None:
    """Raises InvalidProducerEpoch when the log has seen a newer epoch of the producer."""
    if producer is not None and epoch < producer.epoch:
        raise InvalidProducerEpoch(
            f"Epoch of producer {producer_id} is {epoch}, which is smaller than the last seen epoch {producer.epoch}"
        )


def is_in_transaction(producer: Producer | None, epoch: int) -> bool:
    """Whether the producer has an open transaction here under this epoch."""
    return producer is not None and producer.transaction_start is not None and producer.epoch == epoch


def check_sequence(producer: Producer | None, header: BatchHeader, verified: Verification | None) -> None:
    """Raises OutOfOrderSequence for a gap, or for a batch older than all remembered ones.

    A producer that is unknown here (new or expired) may begin with any sequence. `verified`: the batches whose
    verification it has requested.
    """
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
    """Raises InvalidTxnState for a batch of a transaction that is neither open here nor verified."""
    if not (is_verified or is_in_transaction(producer, epoch)):
        raise InvalidTxnState("Record was not part of an ongoing transaction")


def check_not_in_transaction(producer: Producer | None, header: BatchHeader) -> None:
    """Raises InvalidTxnState for a batch outside of transactions while its producer has an open transaction."""
    if producer is not None and producer.transaction_start is not None and not header.is_transactional:
        raise InvalidTxnState(f"Expected transactional write from producer {header.producer_id}")


def check_marker(producer: Producer | None, marker: EndMarker) -> None:
    """Raises InvalidProducerEpoch or TransactionCoordinatorFenced.

    With transaction version 2 the marker has a raised epoch. An equal epoch is right in two cases. The transaction has
    ended here already, so that the marker is a repetition; or the epoch cannot be raised.
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
