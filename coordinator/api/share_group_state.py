"""The APIs by which brokers keep the states of share partitions (KIP-932): keys 83 to 87.

Nodes of Muster ask each other in another way (`runtime/share_coordinator/share_states.py: StatePeers`). These APIs are
for tools, and for tests beside Kafka. A request without a group, or without partitions, has an empty answer, as on
Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, TypeVar

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.many_rows import ask_each
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.runtime.share_coordinator.error_responses import refuse
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.share.in_flight import Row
from muster.coordinator.share_state.persister import (
    DeleteState,
    InitializeState,
    ReadState,
    ReadSummary,
    StateKey,
    StateRequest,
    WriteState,
)
from muster.coordinator.share_state.requests import MAX_ROWS
from muster.coordinator.system.jobs import Job, PendingResult
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)

R = TypeVar("R")
T = TypeVar("T")
_CHECKED: Final = 500
"""How many topics are checked in one step."""


@in_steps(changes=True)
def handle_initialize_share_group_state(node: Node, context: RequestContext, request: Any) -> Job[Message]:
    """Create states."""
    of = initialize_share_group_state
    results = yield from _results(
        node,
        context,
        request,
        lambda key, row: InitializeState(key, row.state_epoch, row.start_offset),
        _with_error(of.PartitionResult),
        of.InitializeStateResult,
        needs_partitions=False,
    )
    return of.InitializeShareGroupStateResponse(results)


@in_steps(changes=True)
def handle_read_share_group_state(node: Node, context: RequestContext, request: Any) -> Job[Message]:
    """Read states for the leaders of partitions."""
    of = read_share_group_state

    def result(partition: int, answer: Any) -> read_share_group_state.PartitionResult:
        if answer.error_code:
            return of.PartitionResult(partition, answer.error_code, answer.error_message)
        batches = [of.StateBatch(*row) for row in answer.rows]
        return of.PartitionResult(partition, 0, None, answer.state_epoch, answer.start_offset, batches)

    results = yield from _results(
        node, context, request, lambda key, row: ReadState(key, row.leader_epoch), result, of.ReadStateResult
    )
    return of.ReadShareGroupStateResponse(results)


@in_steps(changes=True)
def handle_write_share_group_state(node: Node, context: RequestContext, request: Any) -> Job[Message]:
    """Change states."""
    of = write_share_group_state

    def question(key: StateKey, row: Any) -> StateRequest:
        batches = islice(row.state_batches, MAX_ROWS + 1)  # the core refuses more
        rows = [Row(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in batches]
        return WriteState(key, row.state_epoch, row.leader_epoch, row.start_offset, row.delivery_complete_count, rows)

    results = yield from _results(
        node, context, request, question, _with_error(of.PartitionResult), of.WriteStateResult
    )
    return of.WriteShareGroupStateResponse(results)


@in_steps(changes=True)
def handle_delete_share_group_state(node: Node, context: RequestContext, request: Any) -> Job[Message]:
    """Delete states."""
    of = delete_share_group_state
    results = yield from _results(
        node, context, request, lambda key, _: DeleteState(key), _with_error(of.PartitionResult), of.DeleteStateResult
    )
    return of.DeleteShareGroupStateResponse(results)


@in_steps
def handle_read_share_group_state_summary(node: Node, context: RequestContext, request: Any) -> Job[Message]:
    """Read summaries of states."""
    of = read_share_group_state_summary

    def result(partition: int, answer: Any) -> read_share_group_state_summary.PartitionResult:
        if answer.error_code:
            return of.PartitionResult(partition, answer.error_code, answer.error_message)
        return of.PartitionResult(
            partition, 0, None, answer.state_epoch, answer.leader_epoch, answer.start_offset, answer.done_count
        )

    results = yield from _results(
        node, context, request, lambda key, _: ReadSummary(key), result, of.ReadStateSummaryResult
    )
    return of.ReadShareGroupStateSummaryResponse(results)


def _with_error(kind: Callable[[int, int, str | None], R]) -> Callable[[int, Any], R]:
    return lambda partition, answer: kind(partition, answer.error_code, answer.error_message)


def _results(
    node: Node,
    context: RequestContext,
    request: Any,
    question: Callable[[StateKey, Any], StateRequest],
    result: Callable[[int, Any], R],
    topic_result: Callable[[bytes, list[R]], T],
    *,
    needs_partitions: bool = True,
) -> Job[list[T]]:
    """Ask the share coordinator for each partition. A partition that is named twice has the last answer.

    `question(key, row)` is the question for a row of the request. `result(partition, answer)` is the row of the answer.
    `needs_partitions`: whether a topic without partitions makes the answer empty.
    """
    may = node.authorizer.allows(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    if may and not (yield from _is_whole(request, needs_partitions=needs_partitions)):
        return []
    found: dict[bytes, dict[int, R]] = {}

    def rows() -> Iterator[tuple[bytes, Any]]:
        for topic in request.topics:
            found.setdefault(topic.topic_id, {})
            for row in topic.partitions:
                yield topic.topic_id, row

    def ask(row: tuple[bytes, Any], token: PendingResult) -> None:
        asked = question(StateKey(request.group_id, row[0], row[1].partition), row[1])
        if may:
            node.persister.submit(asked, token)
        else:
            token(refuse(asked, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))

    def take(row: tuple[bytes, Any], answer: Any) -> None:
        found[row[0]][row[1].partition] = result(row[1].partition, answer)

    yield from ask_each(rows(), ask, take)
    return [topic_result(topic_id, [*partitions.values()]) for topic_id, partitions in found.items()]


def _is_whole(request: Any, *, needs_partitions: bool) -> Job[bool]:
    for place, topic in enumerate(request.topics):
        if needs_partitions and not topic.partitions:
            return False
        if not place % _CHECKED:
            yield None
    return bool(request.group_id and request.topics)
