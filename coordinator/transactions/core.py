"""TransactionCore: the entry to the core of transactions. `REQUESTS` and `DEADLINES` name the functions that decide.

This module answers DescribeTransactions and ListTransactions. The caller of ListTransactions asks for some ids at a
time, because 100,000 ids take long. The caller filters by the pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from typing import Any, Final

from muster.coordinator.state_machine.deadlines import NO_LATE_ANSWERS, ExpiryCheck, LateAnswers
from muster.coordinator.state_machine.interface import (
    NO_LIMIT,
    Decoded,
    EndTransaction,
    Now,
    Respond,
    TransactionalBatch,
)
from muster.coordinator.state_machine.output import Output
from muster.coordinator.transactions import add_partitions, end_txn, init_producer_id, timeouts
from muster.coordinator.transactions.commands import (
    ListCommand,
    MarkersWritten,
    PartitionsAsked,
    TransactionCommand,
    TransactionSettings,
)
from muster.coordinator.transactions.state import TIMEOUTS, State, Step, Timeouts
from muster.coordinator.transactions.timeouts import EXPIRY
from muster.coordinator.transactions.timeouts import on_expiry_deadline as on_expiry
from muster.coordinator.transactions.timeouts import on_timeouts_deadline as on_timeouts
from muster.coordinator.transactions.transaction import ENDING, STATES, Transaction
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from muster.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from muster.protocol.messages.end_txn import EndTxnRequest
from muster.protocol.messages.init_producer_id import InitProducerIdRequest
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
    """Answer a ListTransactions. The answer names requested states that do not exist."""
    asked = set(request.state_filters)
    states = asked.intersection(STATES)
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in states]
    producer_ids = frozenset(request.producer_id_filters)  # the handler gives the list away, so no copy is made
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


REQUESTS: Final[Mapping[type[Message], Callable[[Step, Any, Any], None]]] = {
    AddPartitionsToTxnRequest: add_partitions.handle,
    PartitionsAsked: add_partitions.handle_one,
    EndTxnRequest: end_txn.handle,
    InitProducerIdRequest: init_producer_id.handle,
    DescribeTransactionsRequest: describe_transactions,
    ListTransactionsRequest: list_transactions,
}
"""The functions by the type of the request: function(step, command, request)."""

DEADLINES: Final[Mapping[str, Callable[[Step, Any], None]]] = {TIMEOUTS: on_timeouts, EXPIRY: on_expiry}
"""The functions by the kind of the deadline: function(step, deadline)."""


class TransactionCore:
    """The transactional ids of one partition of `__transaction_state`, with the methods of `StateMachine`.

    When the end of a transaction is decided, the replies have a WriteTxnMarkersRequest for `send_markers(id)`.
    `MarkersWritten` is the answer, when each partition has its marker or is deleted. A load gives the
    WriteTxnMarkersRequest again for each transaction that was about to end.
    """

    __slots__ = ("_expiry", "_first_check_ms", "_state", "deadlines")

    def __init__(
        self,
        settings: TransactionSettings,
        send_markers: Callable[[str], Respond],
        *,
        first_check_ms: int | None = None,
        next_producer_id: Callable[[], int] = lambda: -1,
    ) -> None:
        """`first_check_ms`: the time from loading to the first check for expired ids; None: the usual interval.

        `next_producer_id`: returns a fresh, durable producer id, or -1. The core calls this function when the
        transaction of a producer without further epochs times out.
        """
        interval_ms = settings.transaction_remove_expired_transaction_cleanup_interval_ms
        self._expiry = ExpiryCheck(EXPIRY, interval_ms)
        self._first_check_ms = interval_ms if first_check_ms is None else first_check_ms
        self._state = State(settings, send_markers, Timeouts(next_producer_id))
        self.deadlines = self._state.deadlines

    @property
    def state(self) -> State:
        """The state of the core, for tests and tools to read."""
        return self._state

    @property
    def transactional_id_count(self) -> int:
        """The number of transactional ids."""
        return len(self._state.transactions)

    def producers_among(self, producer_ids: Collection[int]) -> set[int]:
        """Which of `producer_ids` a transactional id has, will have next, or had until their epochs were used up."""
        wanted, found = frozenset(producer_ids), set[int]()
        for one in self._state.transactions.values():
            if one.producer_id in wanted or one.previous_producer_id in wanted or one.next_producer_id in wanted:
                found |= wanted & {one.producer_id, one.previous_producer_id, one.next_producer_id}
        return found

    def handle(self, command: TransactionCommand | MarkersWritten, now: Now, max_bytes: int = NO_LIMIT) -> Output:
        """Handle a command. `max_bytes`: the present limit for a batch. Raises TypeError for an unknown request."""
        step = Step(self._state, now, max_bytes)
        if isinstance(command, MarkersWritten):
            end_txn.written(step, command)
            return step
        request: Any = command.request
        handle = REQUESTS.get(type(request))
        if handle is None:
            raise TypeError(f"the core does not answer {type(request).__name__}")
        handle(step, command, request)
        return step

    def advance(self, now: Now, waits: LateAnswers = NO_LATE_ANSWERS) -> Output:  # noqa: ARG002  # no client has to send signs of life
        """Handle the deadlines that are due by `now`."""
        step = Step(self._state, now)
        while (deadline := self.deadlines.pop_due(now.mono_ms)) is not None:
            # Each of the core's two deadlines does a part of its work, and is set again for the rest.
            DEADLINES[deadline.kind](step, deadline)
        return step

    def next_deadline_ms(self) -> int | None:
        """When `advance` is to be called; None if only a command can change that."""
        return self.deadlines.next_ms()

    def replay(self, records: Iterable[Decoded], now: Now) -> int:  # noqa: ARG002  # every entry point takes the time
        """Replay records in the order of the log. Returns the number of records."""
        return self._state.evolve_all(records)

    def replay_transactional(self, batch: TransactionalBatch, now: Now) -> int:
        """Replay records as `replay` does: a coordinator never writes its own records in a transaction."""
        return self.replay(batch.records, now)

    def end_transaction(self, end: EndTransaction, now: Now) -> Generator[None, None, Sequence[Any]]:  # noqa: ARG002  # see `replay_transactional`
        """Do nothing, since `replay_transactional` has replayed the records."""
        yield from ()
        return ()

    def loaded(self, now: Now) -> Output:
        """End the load: request the markers of ending transactions once more."""
        step = Step(self._state, now)
        timeouts.start_timeouts(step)
        self._expiry.start(self.deadlines, now, self._first_check_ms)
        for one in [one for one in self._state.transactions.values() if one.state in ENDING]:
            markers = end_txn.markers(step, one)
            if markers is not None:
                step.replies.append(markers)
        return step

    def resign(self, error_code: int) -> Output:  # noqa: ARG002  # no request waits here
        """Give up all ids. The core cannot be used afterwards."""
        self.deadlines.clear()
        return Output()
