"""ShareGroupHeartbeat (key 76) and ShareGroupDescribe (77): share groups (KIP-932)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.groups.membership import answered_by_the_group
from muster.coordinator.api.many_rows import (
    ROWS_AT_ONCE,
    TOO_LARGE,
    TOO_LARGE_TEXT,
    AnswerSize,
    ask_each,
    by_coordinator,
    distinct,
)
from muster.coordinator.api.node import Node, Respond, in_steps
from muster.coordinator.groups.consumer.checks import MAX_NAMES, ascending_names
from muster.coordinator.groups.share.describe import DescribeCommand, Snapshot, member_row
from muster.coordinator.groups.share.heartbeat import is_valid_member_id
from muster.coordinator.runtime.group_coordinator.error_responses import refuse
from muster.coordinator.security.authorizer import Operation, ResourceType, authorized_operations
from muster.coordinator.state_machine.interface import Command
from muster.coordinator.system.jobs import Job, OffloadedWork, PendingResult
from muster.coordinator.topics.features import SHARE, level_of
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from muster.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

_ROW_BYTES: Final = 40
FEW_NAMES: Final = 500
"""The most names of a heartbeat that are checked in one step."""
_READ: Final = Operation.READ
_GROUP: Final = ResourceType.GROUP


def is_served(node: Node) -> bool:
    """Whether `share.version` enables share groups."""
    return level_of(node.topics.state.features, SHARE) > 0


def handle_share_group_heartbeat(
    node: Node, context: RequestContext, request: ShareGroupHeartbeatRequest, respond: Respond
) -> None:
    """Let a member join, send a heartbeat, or leave. The client must be allowed to describe the topics it names."""
    if not is_served(node):
        respond(refuse(request, ErrorCode.UNSUPPORTED_VERSION))
    elif not node.authorizer.allows(context, _READ, _GROUP, request.group_id):
        respond(refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    elif request.subscribed_topic_names and is_valid_member_id(request.member_id):
        job = _submit_if_allowed(node, context, request, respond)
        node.job_queue.run(job, answered_by_the_group, context.channel)
    else:
        _submit(node, context, request, respond)


def _submit(node: Node, context: RequestContext, request: ShareGroupHeartbeatRequest, respond: Respond) -> None:
    node.routing.shard(request.group_id).runtime.submit(Command(request, respond, context.client))


def _submit_if_allowed(
    node: Node, context: RequestContext, request: ShareGroupHeartbeatRequest, respond: Respond
) -> Job[None]:
    names = request.subscribed_topic_names or ()
    if len(names) > FEW_NAMES:
        names = yield OffloadedWork(partial(ascending_names, names))
        if len(names) > MAX_NAMES:
            respond(refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        request.subscribed_topic_names = names
    if (yield from _may_describe(node, context, names)):
        _submit(node, context, request, respond)
    else:
        respond(refuse(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED))


def _may_describe(node: Node, context: RequestContext, names: Sequence[str]) -> Job[bool]:
    """Whether the client may describe all these topics."""
    for start in range(0, len(names), FEW_NAMES):
        part = names[start : start + FEW_NAMES]
        allowed = node.authorizer.allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, part)
        if not all(name in allowed for name in part):
            return False
        if len(names) > FEW_NAMES:
            yield None
    return True


@in_steps
def handle_share_group_describe(
    node: Node, context: RequestContext, request: ShareGroupDescribeRequest
) -> Job[ShareGroupDescribeResponse]:
    """Let the shards describe these groups. In Kafka's order: refused groups, "", the groups of each coordinator."""
    if not is_served(node):
        return ShareGroupDescribeResponse(
            groups=[DescribedGroup(ErrorCode.UNSUPPORTED_VERSION, None, group_id) for group_id in request.group_ids]
        )
    found: dict[str, DescribedGroup] = {}
    answer_size = AnswerSize(node, context)

    def ask(group_id: str, token: PendingResult) -> None:
        if answer_size.is_used_up:
            token(ShareGroupDescribeResponse(groups=[_too_large(group_id)]))  # the answer has no part of this group
            return
        command = DescribeCommand(ShareGroupDescribeRequest([group_id]), token, context.client)
        node.routing.shard(group_id).runtime.submit(command)

    def collect(group_id: str, response: Any) -> None:
        (row,) = response.groups
        if not row.error_code and request.include_authorized_operations:
            row.authorized_operations = authorized_operations(node.authorizer, context, _GROUP, group_id)
        size = _ROW_BYTES + len(group_id) + len(row.error_message or "")
        found[group_id] = row if answer_size.add(size) else _too_large(group_id)

    refused: list[DescribedGroup] = []
    rows: list[DescribedGroup] = []
    asked: list[str] = []
    for group_id in distinct(request.group_ids):
        if not node.authorizer.allows(context, Operation.DESCRIBE, _GROUP, group_id):
            refused.append(DescribedGroup(ErrorCode.GROUP_AUTHORIZATION_FAILED, None, group_id))
        elif not group_id:
            rows.append(DescribedGroup(ErrorCode.INVALID_GROUP_ID, None, group_id))
        else:
            asked.append(group_id)
        yield None
    yield from ask_each(asked, ask, collect, answer_size.pause)
    for group_id in (yield from by_coordinator(asked, node.routing.partition)):
        row = yield from _filled(node, context, found[group_id], answer_size)
        rows.append(row)
    return ShareGroupDescribeResponse(groups=refused + rows)


def _filled(node: Node, context: RequestContext, row: DescribedGroup, answer_size: AnswerSize) -> Job[DescribedGroup]:
    """The row of a group with its members, in place of their snapshots."""
    snapshots: list[Snapshot] = row.members  # type: ignore[assignment]  # as `DescribeCommand` has them
    row.members = []
    if not (yield from _may_describe_topics(node, context, snapshots)):
        row.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        row.error_message = "The group has described topic(s) that the client is not authorized to describe."
        return row
    if not answer_size.add(sum([one.size() for one in snapshots])):
        return _too_large(row.group_id)
    yield answer_size.pause()
    for one in snapshots:
        row.members.append(member_row(one))
        yield None
    return row


def _too_large(group_id: str) -> DescribedGroup:
    return DescribedGroup(TOO_LARGE, TOO_LARGE_TEXT, group_id)


def _may_describe_topics(node: Node, context: RequestContext, members: Sequence[Snapshot]) -> Job[bool]:
    """Whether the client may describe all topics of these members. If false, the group is shown without members."""
    seen: set[int] = set()
    for one in members:
        by_id, names = one.image.by_id, one.description.topics
        if id(names) not in seen:
            seen.add(id(names))
            if not (yield from _may_describe(node, context, names)):
                return False
        rows = one.position.assigned
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = [by_id[row[0]].name for row in rows[start : start + ROWS_AT_ONCE] if row[0] in by_id]
            if not (yield from _may_describe(node, context, some)):
                return False
        yield None
    return True
