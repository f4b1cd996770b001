"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: members join a group, stay in it and leave it.

Each handler checks permissions, and gives the request to the shard of the group, which decides.
"""

from __future__ import annotations

from typing import Final

from muster.coordinator.api.context import (
    RequestContext,
    join_requires_known_member_id,
    join_supports_skip_assignment,
    sync_names_protocol,
)
from muster.coordinator.api.many_rows import ROWS_AT_ONCE
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.groups.classic.join import JoinCommand
from muster.coordinator.runtime.group_coordinator.error_responses import refuse
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.state_machine.interface import Command
from muster.coordinator.system.jobs import Job, PendingResult
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest
from muster.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from muster.protocol.messages.sync_group import SyncGroupRequest

MAX_PROTOCOLS: Final = 1_000
"""The most protocols of a JoinGroup. Clients have a handful, and each protocol is checked for each member."""
MANY_PROTOCOLS: Final = 50
"""A job gives a JoinGroup with more protocols to the group, because many members may join at the same time."""
_READ: Final = Operation.READ
_GROUP: Final = ResourceType.GROUP


def handle_join_group(node: Node, context: RequestContext, request: JoinGroupRequest, respond: Respond) -> None:
    """Let a member join the group or its next generation (key 11). The answer leaves at the end of the join phase."""
    if not _may_read(node, context, request.group_id):
        respond(refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return
    if len(request.protocols) > MAX_PROTOCOLS:
        respond(refuse(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    version = context.api_version
    command = JoinCommand(
        request,
        respond,
        context.client,
        # only a client without member id can get a new id
        "" if request.member_id else node.draw_uuid_text(),
        join_requires_known_member_id(version),
        join_supports_skip_assignment(version),
    )
    if len(request.protocols) > MANY_PROTOCOLS:
        node.job_queue.run(_joining(node, request.group_id, command), answered_by_the_group, context.channel)
    else:
        node.routing.shard(request.group_id).runtime.submit(command)


def _joining(node: Node, group_id: str, command: JoinCommand) -> Job[None]:
    """Give a JoinGroup with many protocols to its group, when the job queue has time for large work."""
    yield None
    node.routing.shard(group_id).runtime.submit(command)


def answered_by_the_group(_: None) -> None:
    """Do nothing: the group answers at the end of the join phase."""


def handle_sync_group(node: Node, context: RequestContext, request: SyncGroupRequest, respond: Respond) -> None:
    """Take the leader's assignment, or a member's request for its part (key 14). Answers wait for the assignment."""
    unnamed = request.protocol_type is None or request.protocol_name is None
    if not _may_read(node, context, request.group_id):
        respond(refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    elif unnamed and sync_names_protocol(context.api_version):
        # from this version on, both names are required; Kafka checks this before it looks for the group
        respond(refuse(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    else:
        node.routing.shard(request.group_id).runtime.submit(Command(request, respond, context.client))


def handle_heartbeat(
    node: Node, context: RequestContext, request: HeartbeatRequest, respond: Respond
) -> Message | None:
    """Answer a heartbeat of a member (key 12), the most frequent request, with few calls and objects."""
    group_id = request.group_id
    if node.authorizer.allows(context, _READ, _GROUP, group_id):
        return node.routing.shard(group_id).heartbeat(request, respond, context.client)
    return refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)


def handle_leave_group(node: Node, context: RequestContext, request: LeaveGroupRequest, respond: Respond) -> None:
    """Remove members that leave, by member id or by instance id (key 13)."""
    if not _may_read(node, context, request.group_id):
        respond(refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    elif len(request.members) > ROWS_AT_ONCE:
        node.run(context, respond, _leave_in_steps(node, context, request))
    else:
        node.routing.shard(request.group_id).runtime.submit(Command(request, respond, context.client))


def _leave_in_steps(node: Node, context: RequestContext, request: LeaveGroupRequest) -> Job[LeaveGroupResponse]:
    """Remove very many members, some in each step. An error of the whole group ends the request."""
    rows: list[MemberResponse] = []
    for start in range(0, len(request.members), ROWS_AT_ONCE):
        later = PendingResult()
        piece = LeaveGroupRequest(request.group_id, members=request.members[start : start + ROWS_AT_ONCE])
        node.routing.shard(request.group_id).runtime.submit(Command(piece, later, context.client))
        response: LeaveGroupResponse = yield later
        if response.error_code:
            return response
        for row in response.members:
            rows.append(row)
            yield None
    return LeaveGroupResponse(members=rows)


def _may_read(node: Node, context: RequestContext, group_id: str) -> bool:
    return node.authorizer.allows(context, Operation.READ, ResourceType.GROUP, group_id)
