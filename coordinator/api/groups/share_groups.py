"""ShareGroupHeartbeat (key 76) and ShareGroupDescribe (77): share groups (KIP-932)."""

from __future__ import annotations

from functools import partial
from typing import Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.groups.describing import (
    DescribeApi,
    described,
    hidden,
    may_describe,
    may_describe_topics,
    snapshots_of,
    with_members,
)
from muster.coordinator.api.groups.membership import answered_by_the_group
from muster.coordinator.api.many_rows import AnswerSize
from muster.coordinator.api.node import Node, Respond, in_steps
from muster.coordinator.groups.consumer.checks import MAX_NAMES, ascending_names
from muster.coordinator.groups.share.describe import DescribeCommand, Snapshot, member_row
from muster.coordinator.groups.share.heartbeat import is_valid_member_id
from muster.coordinator.runtime.group_coordinator.error_responses import refuse
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.state_machine.interface import Command
from muster.coordinator.system.jobs import Job, OffloadedWork
from muster.coordinator.topics.features import SHARE, level_of
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from muster.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

_DESCRIBE: Final = DescribeApi(ShareGroupDescribeRequest, ShareGroupDescribeResponse, DescribedGroup, DescribeCommand)
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
    if (yield from may_describe(node, context, names)):
        _submit(node, context, request, respond)
    else:
        respond(refuse(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED))


@in_steps
def handle_share_group_describe(
    node: Node, context: RequestContext, request: ShareGroupDescribeRequest
) -> Job[ShareGroupDescribeResponse]:
    """Describe share groups: see `described`."""
    answer_size = AnswerSize(node, context)

    def filled(row: DescribedGroup) -> Job[DescribedGroup]:
        snapshots: list[Snapshot] = snapshots_of(row)
        if not (yield from may_describe_topics(node, context, snapshots, lambda one: (one.position.assigned,))):
            return hidden(row)
        return (yield from with_members(row, snapshots, member_row, _DESCRIBE, answer_size))

    return described(node, context, request, _DESCRIBE, answer_size, filled, is_served=is_served(node))
