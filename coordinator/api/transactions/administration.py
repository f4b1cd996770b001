"""Requests of administrators about transactions: DescribeTransactions, ListTransactions, WriteTxnMarkers (KIP-664).

On Kafka, brokers send WriteTxnMarkers. In Muster only an administrator sends this request, to end a hanging transaction
(`kafka-transactions.sh abort`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.many_rows import ROWS_AT_ONCE, TOO_LARGE, AnswerSize, ask_each, distinct
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.runtime.transaction_coordinator.markers import MarkerWriter, end_marker
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.system.jobs import Job, PendingResult
from muster.coordinator.system.jobs.matching import Budget, matching
from muster.coordinator.transactions.commands import ListCommand, TransactionCommand
from muster.coordinator.transactions.transaction import STATES
from muster.protocol.errors import ErrorCode
from muster.protocol.messages import write_txn_markers
from muster.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from muster.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    from muster.coordinator.runtime.transaction_coordinator.shard import TransactionShard

IDS_AT_ONCE: Final = 500
"""The most ids of a shard that one step of ListTransactions checks, in half a millisecond."""
_ID: Final[Callable[[Any], str]] = attrgetter("transactional_id")
_TOPIC: Final[Callable[[Any], str]] = attrgetter("topic")
_ROW_BYTES: Final = 40
T = TypeVar("T")
_PASSED_OVER: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


@in_steps
def handle_describe_transactions(
    node: Node, context: RequestContext, request: DescribeTransactionsRequest
) -> Job[DescribeTransactionsResponse]:
    """Ask the shard of each id. The answer has only topics that the client may describe."""
    found: dict[str, TransactionState] = {}

    def allowed(transactional_id: str) -> bool:
        if node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            return True
        found[transactional_id] = TransactionState(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, transactional_id)
        return False

    def ask(transactional_id: str, token: PendingResult) -> None:
        if transactional_id:
            command = TransactionCommand(DescribeTransactionsRequest([transactional_id]), token, context.client)
            node.transactions.submit(transactional_id, command)
        else:
            token(DescribeTransactionsResponse(transaction_states=[TransactionState(ErrorCode.INVALID_REQUEST)]))

    def take(transactional_id: str, response: Any) -> None:
        (found[transactional_id],) = response.transaction_states

    # an id that is named several times is asked for once
    yield from ask_each(filter(allowed, distinct(request.transactional_ids)), ask, take)
    room = AnswerSize(node, context)
    rows = []
    for transactional_id in request.transactional_ids:
        row, size = found[transactional_id], _ROW_BYTES + len(transactional_id)
        row.topics = yield from _allowed(node, context, ResourceType.TOPIC, row.topics, _TOPIC)
        for start in range(0, len(row.topics), ROWS_AT_ONCE):
            some = row.topics[start : start + ROWS_AT_ONCE]
            size += sum(_ROW_BYTES + len(topic.topic) + 4 * len(topic.partitions) for topic in some)
            yield None
        rows.append(row if room.add(size) else TransactionState(TOO_LARGE, transactional_id))
        yield room.pause()
    return DescribeTransactionsResponse(transaction_states=rows)


@in_steps
def handle_list_transactions(
    node: Node, context: RequestContext, request: ListTransactionsRequest
) -> Job[ListTransactionsResponse]:
    """List ids that the client may describe, of all shards that are not offline. A loading shard fails the request."""
    filters, unknown = yield from _filters(request)
    response = ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=[])
    states: list[Any] = []
    failed: list[int] = []

    def portions() -> Iterator[tuple[TransactionShard, Sequence[str]]]:
        for shard in node.transactions.routing.shards:
            ids = [*shard.transactional_ids()]
            for start in range(0, max(len(ids), 1), IDS_AT_ONCE):
                yield shard, ids[start : start + IDS_AT_ONCE]

    def ask(portion: tuple[TransactionShard, Sequence[str]], token: PendingResult) -> None:
        shard, ids = portion
        shard.runtime.submit(ListCommand(filters, token, context.client, among=ids))

    def take(_: object, part: Any) -> None:
        if part.error_code == ErrorCode.NONE:
            states.extend(part.transaction_states)
        elif part.error_code not in _PASSED_OVER:
            failed.append(part.error_code)

    yield from ask_each(portions(), ask, take)
    if failed:
        return ListTransactionsResponse(error_code=failed[0])
    if request.transactional_id_pattern:
        try:
            states = yield from _matching(request.transactional_id_pattern, states)
        except ValueError:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    room = AnswerSize(node, context)
    response.transaction_states = yield from _allowed(node, context, ResourceType.TRANSACTIONAL_ID, states, _ID)
    for name in chain(unknown, map(_ID, response.transaction_states)):
        room.add(_ROW_BYTES + len(name))
        yield room.pause()  # one step for each row that is encoded
    return ListTransactionsResponse(error_code=TOO_LARGE) if room.is_used_up else response


def _filters(request: ListTransactionsRequest) -> Job[tuple[ListTransactionsRequest, list[str]]]:
    """The request to each shard, always with few filters, and the requested states that do not exist."""
    states: dict[str, None] = {}
    for name in request.state_filters:
        states[name] = None
        yield None
    unknown: list[str] = []
    for name in states:
        if name not in STATES:
            unknown.append(name)
        yield None
    known = [name for name in STATES if name in states]
    producer_ids: set[int] = set()
    for producer_id in request.producer_id_filters:
        producer_ids.add(producer_id)
        yield None
    # one unknown state stands for all unknown states: no id is in such a state
    asked = ListTransactionsRequest([*known, *unknown[:1]], (), request.duration_filter)
    asked.producer_id_filters = cast("Any", frozenset(producer_ids))
    return asked, unknown


def _matching(text: str, states: Sequence[Any]) -> Job[list[Any]]:
    """The rows whose ids match a pattern. Raises ValueError if the pattern is invalid, or takes too long."""
    # imported late: the module loads RE2, which few servers need
    from muster.coordinator.system.patterns import Pattern

    pattern = Pattern(text)
    yield None
    return (yield from matching(pattern, states, _ID, Budget()))


def _allowed(
    node: Node, context: RequestContext, kind: int, rows: Sequence[T], name: Callable[[T], str]
) -> Job[list[T]]:
    kept: list[T] = []
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[start : start + ROWS_AT_ONCE]
        allowed = node.authorizer.allowed(context, Operation.DESCRIBE, kind, [*map(name, part)], log_denied=False)
        kept += [row for row in part if name(row) in allowed]
        yield None
    return kept


AT_ONCE: Final = 500
"""How many markers are written before the first is awaited. A partition's markers are reported without a pause."""


@in_steps(changes=True)
def handle_write_txn_markers(
    node: Node, context: RequestContext, request: write_txn_markers.WriteTxnMarkersRequest
) -> Job[write_txn_markers.WriteTxnMarkersResponse]:
    """Write markers. Each partition has its own result, which is known when its marker is durable."""
    may = any(
        node.authorizer.allows(context, operation, ResourceType.CLUSTER, CLUSTER_NAME)
        for operation in (Operation.ALTER, Operation.CLUSTER_ACTION)
    )
    refusal = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if not may else ErrorCode.NONE
    if may and (yield from _some_cannot_be_written(node, request)):
        refusal = ErrorCode.UNKNOWN_SERVER_ERROR
    writer = MarkerWriter(node.topics.open, node.routing.shards, node.clock)
    under_way = _UnderWay()
    results: list[write_txn_markers.WritableTxnMarkerResult] = []
    for marker in request.markers:
        end = end_marker(marker, marker.coordinator_epoch)
        topics: list[write_txn_markers.WritableTxnMarkerTopicResult] = []
        results.append(write_txn_markers.WritableTxnMarkerResult(marker.producer_id, topics))
        yield None
        for topic in marker.topics:
            rows: list[write_txn_markers.WritableTxnMarkerPartitionResult] = []
            topics.append(write_txn_markers.WritableTxnMarkerTopicResult(topic.name, rows))
            yield None
            for index in topic.partition_indexes:
                row = write_txn_markers.WritableTxnMarkerPartitionResult(index, refusal)
                rows.append(row)
                if refusal == ErrorCode.NONE and node.cluster.is_led_elsewhere(topic.name, index):
                    row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif refusal == ErrorCode.NONE:
                    yield from writer.writing(end, topic.name, index, under_way.noting(row))
                    if under_way.count >= AT_ONCE:
                        yield from under_way.finished()
                yield None
    yield from under_way.finished()
    return write_txn_markers.WriteTxnMarkersResponse(markers=results)


class _UnderWay:
    """Markers that are written, but not durable yet."""

    def __init__(self) -> None:
        self.count = 0
        self._ended: PendingResult | None = None

    def noting(self, row: write_txn_markers.WritableTxnMarkerPartitionResult) -> Callable[[int], object]:
        """Count one more marker. The returned function takes the error for the marker's row."""
        self.count += 1

        def note(error_code: int) -> None:
            row.error_code = error_code
            self.count -= 1
            if not self.count and self._ended is not None:
                self._ended(None)

        return note

    def finished(self) -> Job[None]:
        if self.count:
            self._ended = PendingResult()
            yield self._ended
            self._ended = None


def _some_cannot_be_written(node: Node, request: write_txn_markers.WriteTxnMarkersRequest) -> Job[bool]:
    """Whether a marker of an existing partition has a negative producer id or epoch. Then no marker is written."""
    known = node.topics.image.by_name
    for marker in request.markers:
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            for topic in marker.topics:
                count = known[topic.name].partitions if topic.name in known else 0
                for index in topic.partition_indexes:
                    if 0 <= index < count:
                        return True
                    yield None
                yield None
        yield None
    return False
