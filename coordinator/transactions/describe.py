"""DescribeTransactions and ListTransactions, for administrators. Changes nothing.

The caller of ListTransactions asks for some ids at a time, and checks the pattern itself: 100,000 ids take long.
"""

from __future__ import annotations

from muster.coordinator.transactions.commands import ListCommand, TransactionCommand
from muster.coordinator.transactions.state import Step
from muster.coordinator.transactions.transaction import STATES, Transaction
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from muster.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from muster.protocol.messages.list_transactions import TransactionState as ListedTransaction


def describe_transactions(step: Step, command: TransactionCommand, request: DescribeTransactionsRequest) -> None:
    """Answer a DescribeTransactions."""
    transactions = step.state.transactions
    rows = [
        _row(transactional_id, transactions.get(transactional_id)) for transactional_id in request.transactional_ids
    ]
    step.reply(command.respond, DescribeTransactionsResponse(0, rows))


def _row(transactional_id: str, one: Transaction | None) -> TransactionState:
    if not transactional_id:
        return TransactionState(ErrorCode.INVALID_REQUEST, transactional_id)
    if one is None:
        return TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    return TransactionState(
        ErrorCode.NONE,
        transactional_id,
        one.state,
        one.timeout_ms,
        one.start_ms,
        one.producer_id,
        one.producer_epoch,
        [TopicData(topic, list(ids)) for topic, ids in one.partitions.items()],
    )


def list_transactions(step: Step, command: ListCommand, request: ListTransactionsRequest) -> None:
    """Answer a ListTransactions. The answer names states that do not exist; no id has them."""
    asked = set(request.state_filters)
    states = asked.intersection(STATES)
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in states]
    producer_ids = frozenset(request.producer_id_filters)  # the handler's own list: no copy
    least_ms = request.duration_filter
    # As on Kafka, a transaction that has not begun yet counts as begun in 1970.
    newest_ms = step.now.wall_ms - least_ms
    rows = [
        ListedTransaction(one.transactional_id, one.producer_id, one.state)
        for one in map(step.state.transactions.get, command.among)
        if one is not None
        and (not producer_ids or one.producer_id in producer_ids)
        and (not asked or one.state in states)
        and (least_ms < 0 or one.start_ms < newest_ms)
    ]
    step.reply(command.respond, ListTransactionsResponse(0, ErrorCode.NONE, unknown, rows))
