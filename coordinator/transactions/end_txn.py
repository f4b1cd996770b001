"""The end of a transaction: EndTxn, the decision, the markers, the record of completion.

The decision cannot be reversed once it is in the log. Then each partition gets a marker. The last record says that all
markers are written, and the id is free for the next transaction. EndTxn has two tables. `NEW_CLIENT` is for clients
that get a new epoch with each end (EndTxn 5, KIP-890), `OLD_CLIENT` for older clients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from muster.coordinator.state_machine.interface import Client, Reply
from muster.coordinator.transactions import events
from muster.coordinator.transactions.commands import MarkersWritten, TransactionCommand
from muster.coordinator.transactions.state import Ending, Step
from muster.coordinator.transactions.transaction import (
    ABORTED,
    ABORTED_NOTHING,
    COMMITTED,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ENDING,
    FENCE_ABORTED,
    FENCED,
    LAST_EPOCH,
    MARKED,
    NO_PARTITIONS,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ONGOING,
    PREPARE_COMMIT,
    TV_0,
    TV_2,
    Transaction,
    after,
)
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from muster.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

NO_CLIENT = Client("", "")


def fence(
    step: Step, one: Transaction, cause: str, use_spare_id: Callable[[], int], client: Client = NO_CLIENT
) -> tuple[Reply | None, int]:
    """Abort an open transaction with the next epoch, which fences its producer. Returns what `prepare` returns."""
    fencing = after(one.transactional_id, one.state, FENCED)
    return prepare(step, one, FENCE_ABORTED, TV_2, cause, use_spare_id, client, state=fencing)


def prepare(
    step: Step,
    one: Transaction,
    event: str,
    version: int,
    cause: str,
    use_spare_id: Callable[[], int],
    client: Client,
    *,
    state: str | None = None,
) -> tuple[Reply | None, int]:
    """Decide how a transaction ends. Returns the request for the markers, if they are to be written, and the error.

    With `version` 2 each end gives the producer its next epoch. If no epoch is left, the next transaction has another
    producer id, which `use_spare_id` returns.
    """
    producer_epoch, last_producer_epoch = one.producer_epoch, one.last_producer_epoch
    next_producer_id, start_ms = NO_PRODUCER_ID, one.start_ms
    if version >= TV_2:
        if one.is_exhausted:
            next_producer_id = use_spare_id()
            if next_producer_id == NO_PRODUCER_ID:
                return None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        last_producer_epoch = producer_epoch
        producer_epoch = min(producer_epoch + 1, LAST_EPOCH)
    if event == ABORTED_NOTHING:
        start_ms = step.now.wall_ms
    else:
        step.event(
            events.ENDING,
            one,
            is_committed=event == COMMITTED,
            cause=cause,
            start_ms=start_ms,
            open_ms=max(step.now.wall_ms - start_ms, 0),
            partitions=one.partition_count,
            version=version,
            client_id=client.client_id,
            host=client.host,
        )
    step.change(
        one,
        event,
        state=state,
        next_producer_id=next_producer_id,
        producer_epoch=producer_epoch,
        last_producer_epoch=last_producer_epoch,
        start_ms=start_ms,
        version=version,
    )
    if event == ABORTED_NOTHING:
        _change_to_complete(step, one)
        return None, ErrorCode.NONE
    step.state.endings[one.transactional_id] = Ending(cause, step.now.wall_ms)
    return markers(step, one), ErrorCode.NONE


def markers(step: Step, one: Transaction) -> Reply | None:
    """Request the markers, after a durable decision. Without partitions the transaction is complete at once."""
    if not one.partitions:
        _complete(step, one)
        return None
    topics = [WritableTxnMarkerTopic(topic, list(ids)) for topic, ids in one.partitions.items()]
    is_committed = one.state == PREPARE_COMMIT
    marker = WritableTxnMarker(one.producer_id, one.producer_epoch, is_committed, topics, 0, one.version)
    return step.state.send_markers(one.transactional_id), WriteTxnMarkersRequest([marker])


def written(step: Step, done: MarkersWritten) -> None:
    """Complete a transaction whose markers are all written. A notice about an earlier transaction is ignored."""
    one = step.state.transactions.get(done.transactional_id)
    if (
        one is not None
        and one.state in ENDING
        and (one.producer_id, one.producer_epoch) == (done.producer_id, done.producer_epoch)
    ):
        _complete(step, one)


def producer_after(one: Transaction) -> tuple[int, int]:
    """Producer id and epoch of the next transaction, when the end of the present one is decided, but not complete."""
    if one.version >= TV_2 and one.next_producer_id != NO_PRODUCER_ID:
        return one.next_producer_id, 0
    return one.producer_id, one.producer_epoch


def _complete(step: Step, one: Transaction) -> None:
    is_committed = one.state == PREPARE_COMMIT
    ending = step.state.endings.pop(one.transactional_id, None)
    next_producer_id, next_producer_epoch = producer_after(one)
    wall_ms = step.now.wall_ms
    # The records of the transaction have the earlier epoch: the end gave the producer the next epoch.
    epoch = max(one.producer_epoch - 1, 0) if one.version >= TV_2 else one.producer_epoch
    step.event(
        events.COMMITTED if is_committed else events.ABORTED,
        one,
        producer_epoch=epoch,
        cause=None if ending is None else ending.cause,
        start_ms=one.start_ms,
        took_ms=max(wall_ms - one.start_ms, 0),
        markers_ms=max(wall_ms - (one.updated_ms if ending is None else ending.since_ms), 0),
        topics=one.partitions,
        version=one.version,
        next_producer_id=next_producer_id,
        next_producer_epoch=next_producer_epoch,
    )
    _change_to_complete(step, one)


def _change_to_complete(step: Step, one: Transaction) -> None:
    producer_id, producer_epoch = producer_after(one)
    step.change(
        one,
        MARKED,
        producer_id=producer_id,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=producer_epoch,
        partitions=NO_PARTITIONS,
    )


COMMIT: Final = True
ABORT: Final = False
DONE_ALREADY: Final = "answered as before: nothing changes"
REFUSED: Final = "INVALID_TXN_STATE"

OLD_CLIENT: Final[Mapping[tuple[str, bool], str]] = MappingProxyType(
    {
        (ONGOING, COMMIT): COMMITTED,
        (ONGOING, ABORT): ABORTED,
        (COMPLETE_COMMIT, COMMIT): DONE_ALREADY,
        (COMPLETE_COMMIT, ABORT): REFUSED,
        (COMPLETE_ABORT, ABORT): DONE_ALREADY,
        (COMPLETE_ABORT, COMMIT): REFUSED,
        (EMPTY, COMMIT): REFUSED,
        (EMPTY, ABORT): REFUSED,
    }
)
"""What EndTxn 0-4 of the newest producer does, by state and by the requested end."""

NEW_CLIENT: Final[Mapping[tuple[str, bool, bool], str]] = MappingProxyType(
    {
        (ONGOING, COMMIT, False): COMMITTED,
        (ONGOING, ABORT, False): ABORTED,
        (EMPTY, COMMIT, False): REFUSED,
        (EMPTY, ABORT, False): ABORTED_NOTHING,
        (COMPLETE_COMMIT, COMMIT, False): REFUSED,
        (COMPLETE_COMMIT, COMMIT, True): DONE_ALREADY,
        (COMPLETE_COMMIT, ABORT, False): ABORTED_NOTHING,
        (COMPLETE_COMMIT, ABORT, True): REFUSED,
        (COMPLETE_ABORT, COMMIT, False): REFUSED,
        (COMPLETE_ABORT, COMMIT, True): REFUSED,
        (COMPLETE_ABORT, ABORT, False): ABORTED_NOTHING,
        (COMPLETE_ABORT, ABORT, True): DONE_ALREADY,
    }
)
"""What EndTxn 5 does, by state, by requested end, and by whether it is a retry (with the previous epoch)."""


def handle(step: Step, command: TransactionCommand, request: EndTxnRequest) -> None:
    """Answer an EndTxn."""
    one, is_new = None, command.client_transaction_version >= TV_2
    markers: Reply | None = None
    action = ""
    if not request.transactional_id:
        error: int = ErrorCode.INVALID_REQUEST
    elif (one := step.state.transactions.get(request.transactional_id)) is None:
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    else:
        error, action = _decide_new(one, request) if is_new else _decide_old(one, request)
    producer = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
    if one is not None and not error:
        if action != DONE_ALREADY:
            version = TV_2 if is_new else TV_0
            markers, error = prepare(step, one, action, version, events.BY_CLIENT, command.use_spare_id, command.client)
        if is_new and not error:
            producer = producer_after(one)
    if error:
        step.refused(command, request.transactional_id, request.producer_id, request.producer_epoch, error)
    step.reply(command.respond, EndTxnResponse(0, error, *producer))
    if markers is not None:
        step.replies.append(markers)


def _decide_old(one: Transaction, request: EndTxnRequest) -> tuple[int, str]:
    if request.producer_id != one.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING, ""
    if request.producer_epoch != one.producer_epoch:
        return ErrorCode.PRODUCER_FENCED, ""
    if one.state in ENDING:
        return ErrorCode.CONCURRENT_TRANSACTIONS, ""
    return _said(OLD_CLIENT[one.state, bool(request.committed)])


def _decide_new(one: Transaction, request: EndTxnRequest) -> tuple[int, str]:
    if one.state in ENDING:
        return ErrorCode.CONCURRENT_TRANSACTIONS, ""
    epoch, present = request.producer_epoch, one.producer_epoch
    is_after_last = request.producer_id == one.previous_producer_id and epoch == LAST_EPOCH - 1 and present == 0
    # An EndTxn of an older client gave no new epoch. The previous epoch then belongs to a fenced producer.
    gave_epoch = one.state in (COMPLETE_COMMIT, COMPLETE_ABORT) and one.version >= TV_2
    is_retry = gave_epoch and (is_after_last or present == epoch + 1)
    if request.producer_id != one.producer_id and not is_after_last:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING, ""
    if epoch != present and not is_retry:
        return ErrorCode.PRODUCER_FENCED, ""
    return _said(NEW_CLIENT[one.state, bool(request.committed), is_retry])


def _said(action: str) -> tuple[int, str]:
    return (ErrorCode.INVALID_TXN_STATE if action == REFUSED else ErrorCode.NONE), action
