"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: the coming, staying and going of a group's members.

Each asks for permission and hands the request to the shard of its group; what it means is decided there.
"""

from __future__ import annotations

from typing import Final

from muster.coordinator.api.context import GROUP, Operation, RequestContext, Resource, authorize
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.groups.interface import Command, JoinCommand
from muster.coordinator.refusals import refuse
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest
from muster.protocol.messages.leave_group import LeaveGroupRequest
from muster.protocol.messages.sync_group import SyncGroupRequest
from muster.protocol.shapes import capabilities

_READ: Final = Operation.READ


def handle_join_group(node: Node, context: RequestContext, request: JoinGroupRequest, respond: Respond) -> None:
    """A member wants in, or the next generation (key 11). Answered when the round is complete."""
    if not _may_read(context, request.group_id):
        respond(refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return
    version = context.api_version
    command = JoinCommand(
        request,
        respond,
        context.client,
        # only one who comes without an id can be given one
        "" if request.member_id else node.draw_uuid_text(),
        capabilities.join_requires_known_member_id(version),
        capabilities.join_supports_skip_assignment(version),
    )
    node.routing.shard(request.group_id).submit(command)


def handle_sync_group(node: Node, context: RequestContext, request: SyncGroupRequest, respond: Respond) -> None:
    """A member brings the assignment (the leader) or asks for its own (key 14). Answered when it is there."""
    unnamed = request.protocol_type is None or request.protocol_name is None
    if not _may_read(context, request.group_id):
        respond(refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    elif unnamed and capabilities.sync_names_protocol(context.api_version):
        # only the version tells this from an older client; Kafka looks before it looks at the group
        respond(refuse(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    else:
        node.routing.shard(request.group_id).submit(Command(request, respond, context.client))


def handle_heartbeat(
    node: Node, context: RequestContext, request: HeartbeatRequest, respond: Respond
) -> Message | None:
    """A member lives (key 12). The most frequent request of all: no call and no object more than it takes."""
    group_id = request.group_id
    if authorize(context, _READ, (GROUP, group_id)):
        return node.routing.shard(group_id).heartbeat(request, respond, context.client)
    return refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)


def handle_leave_group(node: Node, context: RequestContext, request: LeaveGroupRequest, respond: Respond) -> None:
    """Members go, by id or by instance id (key 13)."""
    if _may_read(context, request.group_id):
        node.routing.shard(request.group_id).submit(Command(request, respond, context.client))
    else:
        respond(refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))


def _may_read(context: RequestContext, group_id: str) -> bool:
    return authorize(context, Operation.READ, Resource(GROUP, group_id))
