"""ConsumerGroupHeartbeat (key 68) and ConsumerGroupDescribe (69): groups of KIP-848."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.groups.describing import (
    DescribeApi,
    described,
    hidden,
    may_describe,
    may_describe_topics,
    snapshots_of,
)
from muster.coordinator.api.groups.membership import answered_by_the_group
from muster.coordinator.api.groups.protocols import is_served
from muster.coordinator.api.many_rows import MAX_ANSWER_BYTES, AnswerSize, pattern_error
from muster.coordinator.api.node import Node, Respond, in_steps
from muster.coordinator.groups.consumer.checks import MAX_NAMES, ascending_names, distinct_names
from muster.coordinator.groups.consumer.commands import ConsumerHeartbeatCommand
from muster.coordinator.groups.consumer.describe import DescribeCommand, Snapshot, member_row
from muster.coordinator.groups.consumer.member import bare_id
from muster.coordinator.runtime.group_coordinator.error_responses import refuse
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.system.jobs import Job, OffloadedWork
from muster.coordinator.system.uuids import as_text
from muster.coordinator.topics.features import GROUP
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

CONSUMER: Final = "consumer"
MAX_GROUP_BYTES: Final = 3 * MAX_ANSWER_BYTES
"""The most bytes of a group in an answer, even if it is the only group."""
_DESCRIBE: Final = DescribeApi(
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribedGroup, DescribeCommand
)
FEW_NAMES: Final = 500
"""The most names of a heartbeat that are checked in one step."""


def handle_consumer_group_heartbeat(
    node: Node, context: RequestContext, request: ConsumerGroupHeartbeatRequest, respond: Respond
) -> None:
    """Let a member join, send a heartbeat, or leave. The client must be allowed to describe the topics it names."""
    if not _is_served(node):
        respond(refuse(request, ErrorCode.UNSUPPORTED_VERSION))
        return
    names = request.subscribed_topic_names
    if request.subscribed_topic_regex or (names is not None and len(names) > FEW_NAMES):
        node.job_queue.run(_submit_in_steps(node, context, request, respond), answered_by_the_group, context.channel)
    else:
        _submit(node, context, request, respond, _refusal(node, context, request))


def _submit(
    node: Node,
    context: RequestContext,
    request: ConsumerGroupHeartbeatRequest,
    respond: Respond,
    refusal: int,
    pattern_error: str | None = None,
) -> None:
    if refusal:
        respond(refuse(request, refusal))
        return
    command = ConsumerHeartbeatCommand(
        request,
        respond,
        context.client,
        drawn_id="" if request.member_id else bare_id(as_text(node.draw_uuid())),
        pattern_error=pattern_error,
        version=context.api_version,
    )
    node.routing.shard(request.group_id).runtime.submit(command)


def _submit_in_steps(
    node: Node, context: RequestContext, request: ConsumerGroupHeartbeatRequest, respond: Respond
) -> Job[None]:
    refusal, pattern_error = yield from _check_in_steps(node, context, request)
    _submit(node, context, request, respond, refusal, pattern_error)


def _check_in_steps(
    node: Node, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Job[tuple[int, str | None]]:
    """The error of a client without permission (or 0), and why its pattern is invalid. In the request, the list of
    topic names is sorted, and duplicates are removed. If there are too many names, the limit plus one remain.
    """
    names, request.subscribed_topic_names = request.subscribed_topic_names, None
    refusal = _refusal(node, context, request)
    if names is not None:
        request.subscribed_topic_names = yield OffloadedWork(partial(ascending_names, names))
        is_checked = not refusal and len(request.subscribed_topic_names) <= MAX_NAMES
        if is_checked and not (yield from may_describe(node, context, request.subscribed_topic_names)):
            refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if refusal or not request.subscribed_topic_regex:
        return refusal, None
    yield None  # one pattern takes up to 10 ms, so many requests need several iterations of the event loop
    return 0, pattern_error(request.subscribed_topic_regex)


def may_send_heartbeat(
    node: Node, context: RequestContext, request: ConsumerGroupHeartbeatRequest, *, log_denied: bool
) -> bool:
    """Whether the protocol is served, and the client may be a member with the topics that it names."""
    return _is_served(node) and not _refusal(node, context, request, log_denied=log_denied)


def _refusal(
    node: Node, context: RequestContext, request: ConsumerGroupHeartbeatRequest, *, log_denied: bool = True
) -> int:
    authorizer, names = node.authorizer, request.subscribed_topic_names
    if not authorizer.allows(context, Operation.READ, ResourceType.GROUP, request.group_id, log_denied=log_denied):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if names:
        distinct = distinct_names(names)
        if distinct is None:
            return 0  # the group refuses so many topics, whatever their names
        allowed = authorizer.allowed(
            context, Operation.DESCRIBE, ResourceType.TOPIC, [*distinct], log_denied=log_denied
        )
        if not all(name in allowed for name in distinct):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return 0


def _is_served(node: Node) -> bool:
    """Whether the configuration and `group.version` enable this protocol."""
    return is_served(node, CONSUMER, GROUP)


@in_steps
def handle_consumer_group_describe(
    node: Node, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Job[ConsumerGroupDescribeResponse]:
    """Describe consumer groups: see `described`. The first group may be larger than the others."""
    answer_size = AnswerSize(node, context)
    is_first = True

    def filled(row: Any) -> Job[Any]:
        nonlocal is_first
        snapshots: list[Snapshot] = snapshots_of(row)
        if not (yield from may_describe_topics(node, context, snapshots, _assignments)):
            return hidden(row)
        size = yield from _size(snapshots)
        if is_first and snapshots and size <= MAX_GROUP_BYTES:
            is_first, answer_size.left = False, max(answer_size.left, size)
        if not answer_size.add(size):
            return _DESCRIBE.too_large(row.group_id)
        yield answer_size.pause()
        for one in snapshots:
            row.members.append((yield from member_row(one)))
        yield None
        return row

    return described(node, context, request, _DESCRIBE, answer_size, filled, is_served=_is_served(node))


def _assignments(one: Snapshot) -> Sequence[Sequence[tuple[Any, ...]]]:
    return one.position.assigned, one.position.revoking, one.target


def _size(members: Sequence[Snapshot]) -> Job[int]:
    size = 0
    for one in members:
        size += one.size()
        yield None
    return size
