"""DescribeTransactions: the present or last transaction of each requested id. Changes nothing."""

from __future__ import annotations

from muster.coordinator.transactions.commands import TransactionCommand
from muster.coordinator.transactions.step import Step
from muster.coordinator.transactions.transaction import Transaction
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def handle(step: Step, command: TransactionCommand, request: DescribeTransactionsRequest) -> None:
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
