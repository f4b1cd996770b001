"""ListTransactions: the transactional ids that pass all filters. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable

from muster.coordinator.transactions.commands import TransactionCommand
from muster.coordinator.transactions.states import STATES
from muster.coordinator.transactions.step import Step
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

Matches = Callable[[str], object]
"""Whether a text as a whole is what a pattern says."""
CompilePattern = Callable[[str], Matches]
"""Reads a pattern (RE2, as on Kafka); raises ValueError. Its time must be linear: clients choose pattern and texts."""


def handle(step: Step, command: TransactionCommand, request: ListTransactionsRequest) -> None:
    """Answer a ListTransactions. Unknown states are named in the answer, and nothing has them."""
    asked = set(request.state_filters)
    states = asked.intersection(STATES)
    unknown = [name for name in request.state_filters if name not in states]
    matches: Matches | None = None
    if request.transactional_id_pattern:
        try:
            matches = step.state.compile_pattern(request.transactional_id_pattern)
        except ValueError:
            step.reply(command.respond, ListTransactionsResponse(0, ErrorCode.INVALID_REGULAR_EXPRESSION))
            return
    producer_ids = set(request.producer_id_filters)
    least_ms = request.duration_filter
    # as on Kafka, one that has not begun yet counts as begun in 1970
    newest_ms = step.now.wall_ms - least_ms
    rows = [
        TransactionState(one.transactional_id, one.producer_id, one.state)
        for one in step.state.transactions.values()
        if (not producer_ids or one.producer_id in producer_ids)
        and (not asked or one.state in states)
        and (least_ms < 0 or one.start_ms < newest_ms)
        and (matches is None or matches(one.transactional_id))
    ]
    step.reply(command.respond, ListTransactionsResponse(0, ErrorCode.NONE, unknown, rows))
