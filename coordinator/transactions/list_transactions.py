"""ListTransactions: the transactional ids that pass the filters. Changes nothing.

The caller asks each core for some ids at a time, and checks the pattern itself. Both take long with 100,000 ids.
"""

from __future__ import annotations

from muster.coordinator.transactions.commands import ListCommand
from muster.coordinator.transactions.states import STATES
from muster.coordinator.transactions.step import Step
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)


def handle(step: Step, command: ListCommand, request: ListTransactionsRequest) -> None:
    """Answer a ListTransactions. The answer names states that do not exist; no id has them."""
    asked = set(request.state_filters)
    states = asked.intersection(STATES)
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in states]
    producer_ids = frozenset(request.producer_id_filters)  # the handler's own list: no copy
    least_ms = request.duration_filter
    # As on Kafka, a transaction that has not begun yet counts as begun in 1970.
    newest_ms = step.now.wall_ms - least_ms
    rows = [
        TransactionState(one.transactional_id, one.producer_id, one.state)
        for one in map(step.state.transactions.get, command.among)
        if one is not None
        and (not producer_ids or one.producer_id in producer_ids)
        and (not asked or one.state in states)
        and (least_ms < 0 or one.start_ms < newest_ms)
    ]
    step.reply(command.respond, ListTransactionsResponse(0, ErrorCode.NONE, unknown, rows))
