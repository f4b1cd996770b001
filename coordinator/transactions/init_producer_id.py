"""InitProducerId with a transactional id: a producer gets its id and a new epoch, which fences all earlier producers.

An open transaction is aborted first.
"""

from __future__ import annotations

from typing import Final

from muster.coordinator.state_machine.interface import Reply
from muster.coordinator.transactions import end_txn, events
from muster.coordinator.transactions.commands import TransactionCommand, TransactionSettings
from muster.coordinator.transactions.state import Step
from muster.coordinator.transactions.transaction import (
    ENDING,
    INITIALIZED,
    NO_PARTITIONS,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ONGOING,
    Transaction,
    is_exhausted,
)
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_SPARE: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""The error without a spare producer id. Kafka has the same error while it waits for its next block of ids."""


def refusal(request: InitProducerIdRequest, settings: TransactionSettings) -> int:
    """The error of a request that is invalid whatever its transactional id; else NONE."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= settings.transaction_max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def handle(step: Step, command: TransactionCommand, request: InitProducerIdRequest) -> None:
    """Answer an InitProducerId that names a transactional id."""
    markers: Reply | None = None
    one, error = None, refusal(request, step.state.settings)
    if not error:
        one = step.state.transactions.get(request.transactional_id or "")
        if one is None:
            error = _new_id(step, command, request)
        elif not (error := _fenced(one, request)):
            if one.state == ONGOING:
                markers, error = end_txn.fence(step, one, events.NEW_PRODUCER, command.use_spare_id, command.client)
                error = error or ErrorCode.CONCURRENT_TRANSACTIONS
            else:
                error = _next_epoch(step, command, request, one)
    if error:
        transactional_id = request.transactional_id or ""
        step.refused(command, transactional_id, request.producer_id, request.producer_epoch, error)
        step.reply(command.respond, InitProducerIdResponse(0, error, NO_PRODUCER_ID, NO_PRODUCER_EPOCH))
    if markers is not None:
        step.replies.append(markers)


def _fenced(one: Transaction, request: InitProducerIdRequest) -> int:
    """The error if the id's transaction is ending, or if a producer that asks for its next epoch is fenced."""
    if one.state in ENDING:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    expected = request.producer_id
    # A request with the previous id may be a retry, whose first answer had the new id and was lost.
    if expected in (NO_PRODUCER_ID, one.producer_id) or (
        expected == one.previous_producer_id and is_exhausted(request.producer_epoch)
    ):
        return ErrorCode.NONE
    return ErrorCode.PRODUCER_FENCED


def _new_id(step: Step, command: TransactionCommand, request: InitProducerIdRequest) -> int:
    producer_id = command.use_spare_id()
    if producer_id == NO_PRODUCER_ID:
        return NO_SPARE
    one = Transaction(request.transactional_id or "")
    one.producer_id = producer_id  # as on Kafka, the first record also has this id as its previous id
    _give(step, command, request, one, (producer_id, 0, NO_PRODUCER_EPOCH), events.NEW_ID)
    return ErrorCode.NONE


def _next_epoch(step: Step, command: TransactionCommand, request: InitProducerIdRequest, one: Transaction) -> int:
    is_same = request.producer_id != NO_PRODUCER_ID
    expected, epoch = request.producer_epoch, one.producer_epoch
    cause = events.SAME_PRODUCER if is_same else events.NEW_PRODUCER
    if one.is_exhausted and (not is_same or expected == epoch):
        producer_id = command.use_spare_id()
        if producer_id == NO_PRODUCER_ID:
            return NO_SPARE
        following = producer_id, 0, epoch if is_same else NO_PRODUCER_EPOCH
    elif not is_same:
        following = one.producer_id, epoch + 1, NO_PRODUCER_EPOCH
    elif expected == epoch:
        following = one.producer_id, epoch + 1, epoch
    elif expected == one.last_producer_epoch:
        following = one.producer_id, epoch, expected
    else:
        return ErrorCode.PRODUCER_FENCED
    _give(step, command, request, one, following, cause)
    return ErrorCode.NONE


def _give(
    step: Step,
    command: TransactionCommand,
    request: InitProducerIdRequest,
    one: Transaction,
    following: tuple[int, int, int],
    cause: str,
) -> None:
    """Give the transactional id to a producer. `following`: id and epoch of the producer, and `last_producer_epoch`."""
    producer_id, producer_epoch, last_producer_epoch = following
    fenced = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
    if cause == events.NEW_PRODUCER:
        fenced = one.producer_id, one.producer_epoch
    step.change(
        one,
        INITIALIZED,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        last_producer_epoch=last_producer_epoch,
        timeout_ms=request.transaction_timeout_ms,
        partitions=NO_PARTITIONS,
        start_ms=-1,
    )
    step.event(
        events.INITIALIZED,
        step.state.transactions[one.transactional_id],
        cause=cause,
        timeout_ms=request.transaction_timeout_ms,
        client_id=command.client.client_id,
        host=command.client.host,
        fenced_producer_id=fenced[0],
        fenced_producer_epoch=fenced[1],
    )
    answer = InitProducerIdResponse(0, ErrorCode.NONE, producer_id, producer_epoch)
    step.reply(command.respond, answer)
