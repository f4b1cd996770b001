"""ConsumerGroupHeartbeat (key 68) and ConsumerGroupDescribe (69): groups of KIP-848."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any, Final

from muster.coordinator.api.answer_size import TOO_LARGE, TOO_LARGE_TEXT, AnswerSize
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.gather import ask_each, distinct
from muster.coordinator.api.hash_order import by_coordinator
from muster.coordinator.api.node import Node, Respond, in_slices
from muster.coordinator.core.interface import Command
from muster.coordinator.group_coordinator.error_responses import refuse
from muster.coordinator.groups.consumer.commands import ConsumerHeartbeatCommand
from muster.coordinator.groups.consumer.heartbeat import distinct_names
from muster.coordinator.groups.consumer.member import bare_id
from muster.coordinator.security.authorizer import Operation, ResourceType, authorized_operations
from muster.coordinator.slices import Job, Later
from muster.coordinator.uuids import as_text
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

PROTOCOLS: Final = "group.coordinator.rebalance.protocols"
CONSUMER: Final = "consumer"
_ROW_BYTES: Final = 40
"""Of a group in an answer, of a member, and of a topic in an assignment, besides their texts."""
_NAME_BYTES: Final = 3
"""Of a text in an answer, besides its characters."""


def handle_consumer_group_heartbeat(
    node: Node, context: RequestContext, request: ConsumerGroupHeartbeatRequest, respond: Respond
) -> None:
    """A member joins, lives, or goes; who names topics must be allowed to describe them."""
    if not _is_served(node):
        respond(refuse(request, ErrorCode.UNSUPPORTED_VERSION))
        return
    refusal = _refusal(node, context, request)
    if refusal:
        respond(refuse(request, refusal))
        return
    command = ConsumerHeartbeatCommand(
        request,
        respond,
        context.client,
        drawn_id="" if request.member_id else bare_id(as_text(node.draw_uuid())),
        version=context.api_version,
    )
    if request.subscribed_topic_regex:
        # to read a pattern takes up to 10 ms: many requests need several turns of the event loop
        node.slices.run(_reading(request.subscribed_topic_regex), partial(_submit, node, command), context.channel)
    else:
        _submit(node, command)


def _submit(node: Node, command: ConsumerHeartbeatCommand, pattern_error: str | None = None) -> None:
    command.pattern_error = pattern_error
    node.routing.shard(command.request.group_id).submit(command)  # type: ignore[attr-defined]  # it is a heartbeat


def may_beat(
    node: Node, context: RequestContext, request: ConsumerGroupHeartbeatRequest, *, log_denied: bool = True
) -> bool:
    """May the client be a member of the group with the topics that it names?"""
    return not _refusal(node, context, request, log_denied=log_denied)


def _refusal(
    node: Node, context: RequestContext, request: ConsumerGroupHeartbeatRequest, *, log_denied: bool = True
) -> int:
    """The error of a client that may not; 0: it may."""
    authorizer, names = node.authorizer, request.subscribed_topic_names
    if not authorizer.allows(context, Operation.READ, ResourceType.GROUP, request.group_id, log_denied=log_denied):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if names:
        distinct = distinct_names(names)
        if distinct is None:
            return 0  # the group refuses so many, whoever names them
        allowed = authorizer.allowed(
            context, Operation.DESCRIBE, ResourceType.TOPIC, [*distinct], log_denied=log_denied
        )
        if not all(name in allowed for name in distinct):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return 0


def _is_served(node: Node) -> bool:
    """Whether the broker was not told to leave this protocol alone (deprecated since Kafka 4.3)."""
    served = node.serves_consumer_groups
    if served is None:  # it cannot change while the broker runs
        protocols = node.config.value(PROTOCOLS)
        served = node.serves_consumer_groups = isinstance(protocols, tuple) and CONSUMER in protocols
    return served


def _reading(pattern: str) -> Job[str | None]:
    """What is wrong with a pattern; None when nothing is."""
    yield None
    return _error_of(pattern)


def _error_of(pattern: str) -> str | None:
    # imported here: it loads the library of patterns, which hardly anybody needs
    patterns = import_module("muster.coordinator.patterns")
    try:
        patterns.Pattern(pattern)
    except patterns.BadPattern as error:
        description: str = error.description
        return description
    return None


@in_slices
def handle_consumer_group_describe(
    node: Node, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Job[ConsumerGroupDescribeResponse]:
    """Each group is asked at its shard. Those that the client may not describe come first, as on Kafka. Then comes "",
    which is no group id here, then the groups of each coordinator.
    """
    if not _is_served(node):
        return ConsumerGroupDescribeResponse(
            groups=[DescribedGroup(ErrorCode.UNSUPPORTED_VERSION, None, group_id) for group_id in request.group_ids]
        )
    found: dict[str, DescribedGroup] = {}
    room = AnswerSize(node, context)

    def ask(group_id: str, token: Later) -> None:
        if room.is_used_up:
            token(ConsumerGroupDescribeResponse(groups=[_too_large(group_id)]))  # nothing of it would be in the answer
            return
        command = Command(ConsumerGroupDescribeRequest([group_id]), token, context.client)
        node.routing.shard(group_id).submit(command)

    def take(group_id: str, response: Any) -> None:
        (row,) = response.groups
        if not row.error_code:
            _hide_topics(node, context, row)
            if request.include_authorized_operations:
                group = ResourceType.GROUP
                row.authorized_operations = authorized_operations(node.authorizer, context, group, group_id)
        found[group_id] = row if room.take(_size(row)) else _too_large(group_id)

    def allowed(group_id: str) -> bool:
        return node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.GROUP, group_id)

    refused: list[DescribedGroup] = []
    rows: list[DescribedGroup] = []
    asked: list[str] = []
    for group_id in distinct(request.group_ids):
        if not allowed(group_id):
            refused.append(DescribedGroup(ErrorCode.GROUP_AUTHORIZATION_FAILED, None, group_id))
        elif not group_id:
            rows.append(DescribedGroup(ErrorCode.INVALID_GROUP_ID, None, group_id))
        else:
            asked.append(group_id)
        yield None
    yield from ask_each(asked, ask, take, room.pause)
    for group_id in (yield from by_coordinator(asked, node.routing.partition)):
        rows.append(found[group_id])
        yield None
    return ConsumerGroupDescribeResponse(groups=refused + rows)


def _too_large(group_id: str) -> DescribedGroup:
    return DescribedGroup(TOO_LARGE, TOO_LARGE_TEXT, group_id)


def _size(row: DescribedGroup) -> int:
    """About how many bytes it takes in an answer."""
    size = _ROW_BYTES + len(row.group_id) + len(row.error_message or "")
    for member in row.members:
        size += _ROW_BYTES + len(member.member_id) + len(member.client_id) + len(member.client_host)
        size += len(member.instance_id or "") + len(member.rack_id or "") + len(member.subscribed_topic_regex or "")
        size += sum([_NAME_BYTES + len(name) for name in member.subscribed_topic_names])
        for assignment in (member.assignment, member.target_assignment):
            assert isinstance(assignment, Assignment)
            for topic in assignment.topic_partitions:
                size += _ROW_BYTES + len(topic.topic_name) + 4 * len(topic.partitions)
    return size


def _hide_topics(node: Node, context: RequestContext, row: DescribedGroup) -> None:
    """A group with a topic that the client may not describe is shown without its members, as on Kafka."""
    names: dict[str, None] = {}
    for member in row.members:
        names.update(dict.fromkeys(member.subscribed_topic_names))
        for assignment in (member.assignment, member.target_assignment):
            assert isinstance(assignment, Assignment)
            names.update(dict.fromkeys(topic.topic_name for topic in assignment.topic_partitions))
    allowed = node.authorizer.allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, [*names])
    if not all(name in allowed for name in names):
        row.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        row.error_message = "The group has described topic(s) that the client is not authorized to describe."
        row.members = []
