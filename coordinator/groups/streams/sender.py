"""The sender of a StreamsGroupHeartbeat: its group, which member it is, and how it describes itself."""

from __future__ import annotations

from sys import intern
from typing import NamedTuple

from muster.coordinator.groups.common.group import Group
from muster.coordinator.groups.common.refusal import Refused
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.streams import checks, leave
from muster.coordinator.groups.streams.group import StreamsGroup
from muster.coordinator.groups.streams.member import NOBODY, START, Description, Position, StreamsMember
from muster.coordinator.state_machine.interface import Client
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest


class Sender(NamedTuple):
    """The sender of a heartbeat: a member (None if it is new), and the static member that the sender replaces."""

    member_id: str
    member: StreamsMember | None
    replaced: StreamsMember | None

    @property
    def before(self) -> Description:
        """The description before this request, or that of the replaced member."""
        one = self.member or self.replaced
        return NOBODY if one is None else one.description

    @property
    def position(self) -> Position:
        """The position before this request. A member that replaces another begins at epoch 0 with its tasks."""
        if self.replaced is not None:
            return self.replaced.position._replace(epoch=0, previous_epoch=0)
        return START if self.member is None else self.member.position


def find_group(present: Group | None, request: StreamsGroupHeartbeatRequest) -> StreamsGroup:
    """The group of a heartbeat. A member that joins makes a new one. Raises Refused."""
    if isinstance(present, StreamsGroup):
        return present
    is_joining, group_id = request.member_epoch == 0, request.group_id
    if present is None and not is_joining:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
    if present is not None and not (is_joining and present.kind == "classic" and not present.deletion_error()):
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
    return StreamsGroup(intern(group_id))


def find_sender(step: Step, group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> Sender:
    """Who sends a heartbeat. Raises Refused if this member may not send it."""
    member_id, instance_id = request.member_id, request.instance_id
    static = None if instance_id is None else group.static_member(instance_id)
    if request.member_epoch == 0:
        most = step.state.settings.group_streams_max_size
        if static is None and len(group.members) >= most and member_id not in group.members:
            message = f"The streams group has reached its maximum capacity of {most} members."
            raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
        if static is None:
            return Sender(member_id, group.members.get(member_id), None)
        checks.check_released(static, request)
        return Sender(member_id, None, static)
    if instance_id is None:
        member = leave.known_member(group, member_id)
    else:
        member = checks.check_static(static, request)
    checks.check_epoch(member.position, request)
    return Sender(member_id, member, None)


def describe(before: Description, request: StreamsGroupHeartbeatRequest, client: Client) -> Description:
    """The member's description after this request, `before` if nothing changes. Fields that are not sent stay."""
    endpoint, tags = before.endpoint, before.client_tags
    if request.user_endpoint is not None:
        endpoint = request.user_endpoint.host, request.user_endpoint.port
    elif request.member_epoch == 0:
        endpoint = None
    if request.client_tags is not None:
        tags = tuple(sorted({one.key: one.value for one in request.client_tags}.items()))
        if len(tags) < len(request.client_tags):
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    description = Description(
        before.instance_id if request.instance_id is None else request.instance_id,
        before.rack_id if request.rack_id is None else request.rack_id,
        client.client_id,
        client.host,
        before.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        before.topology_epoch if request.topology is None else request.topology.epoch,
        before.process_id if request.process_id is None else request.process_id,
        endpoint,
        tags,
    )
    return before if description == before else description


def differ(before: Description, now: Description) -> bool:
    """Whether a static member has changed in a way that changes the assignment."""
    return (before.topology_epoch, before.rack_id, before.client_tags, before.process_id) != (
        now.topology_epoch, now.rack_id, now.client_tags, now.process_id,
    )  # fmt: skip
