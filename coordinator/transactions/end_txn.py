"""EndTxn: the producer commits or aborts its transaction.

Two tables have the answers when no transaction is open. One is for clients that get a new epoch with each end (EndTxn
5, KIP-890), one for older clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from muster.coordinator.state_machine.interface import Reply
from muster.coordinator.transactions import end, events
from muster.coordinator.transactions.commands import TransactionCommand
from muster.coordinator.transactions.states import (
    ABORTED,
    ABORTED_NOTHING,
    COMMITTED,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ENDING,
    ONGOING,
)
from muster.coordinator.transactions.step import Step
from muster.coordinator.transactions.transaction import (
    LAST_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TV_0,
    TV_2,
    Transaction,
)
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

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
"""EndTxn 0-4 of the newest producer, by state and by the requested end."""

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
"""EndTxn 5 of the newest producer, by state, by the requested end, and by whether it is a retry.

A retry has the epoch that the end has just replaced.
"""


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
            markers, error = end.prepare(
                step, one, action, version, events.BY_CLIENT, command.take_spare, command.client
            )
        if is_new and not error:
            producer = end.producer_after(one)
    if error:
        step.refused(command, request.transactional_id, request.producer_id, request.producer_epoch, error)
    step.reply(command.respond, EndTxnResponse(0, error, *producer))
    if markers is not None:
        step.replies.append(markers)


def _decide_old(one: Transaction, request: EndTxnRequest) -> tuple[int, str]:
    """The error, or the decision."""
    if request.producer_id != one.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING, ""
    if request.producer_epoch != one.producer_epoch:
        return ErrorCode.PRODUCER_FENCED, ""
    if one.state in ENDING:
        return ErrorCode.CONCURRENT_TRANSACTIONS, ""
    return _said(OLD_CLIENT[one.state, bool(request.committed)])


def _decide_new(one: Transaction, request: EndTxnRequest) -> tuple[int, str]:
    """The error, or the decision."""
    if one.state in ENDING:
        return ErrorCode.CONCURRENT_TRANSACTIONS, ""
    epoch, present = request.producer_epoch, one.producer_epoch
    is_after_last = request.producer_id == one.previous_producer_id and epoch == LAST_EPOCH - 1 and present == 0
    # An end that an older client requested gave no epoch. The epoch before belongs to a fenced producer.
    gave_epoch = one.state in (COMPLETE_COMMIT, COMPLETE_ABORT) and one.version >= TV_2
    is_retry = gave_epoch and (is_after_last or present == epoch + 1)
    if request.producer_id != one.producer_id and not is_after_last:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING, ""
    if epoch != present and not is_retry:
        return ErrorCode.PRODUCER_FENCED, ""
    return _said(NEW_CLIENT[one.state, bool(request.committed), is_retry])


def _said(action: str) -> tuple[int, str]:
    return (ErrorCode.INVALID_TXN_STATE if action == REFUSED else ErrorCode.NONE), action
