"""LeaveGroup: one member or a batch (KIP-345), with one rebalance for all that leave."""

from __future__ import annotations

from muster.coordinator.groups import events, telling
from muster.coordinator.groups.classic import ClassicGroup
from muster.coordinator.groups.events import Trigger
from muster.coordinator.groups.interface import Command
from muster.coordinator.groups.parked import drop_member
from muster.coordinator.groups.rebalance import begin_or_complete
from muster.coordinator.groups.states import EMPTY
from muster.coordinator.groups.turn import Turn
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)


def handle(turn: Turn, command: Command, request: LeaveGroupRequest) -> None:
    """Answer a LeaveGroup: one row for each that leaves, in their order, each with its own error."""
    if not request.group_id:
        error: int = ErrorCode.INVALID_GROUP_ID
        turn.reply(command.token, LeaveGroupResponse(error_code=error))
        telling.refused(turn, command, request.group_id, error, "", None)
        return
    group = turn.state.classic(request.group_id)
    rows: list[MemberResponse] = []
    left: list[Trigger] = []
    for one in request.members:
        error = ErrorCode.UNKNOWN_MEMBER_ID if group is None else _leave(turn, group, one, left)
        rows.append(MemberResponse(one.member_id, one.group_instance_id, error))
        if error:
            telling.refused(turn, command, request.group_id, error, one.member_id, one.group_instance_id)
    if left and group is not None and group.state != EMPTY:
        begin_or_complete(turn, group, events.LEFT, left[0])
    # Last, as on Kafka: who waited for the leaver is told before the leaver, by position in the output.
    turn.reply(command.token, LeaveGroupResponse(members=rows))


def _leave(turn: Turn, group: ClassicGroup, one: MemberIdentity, left: list[Trigger]) -> int:
    member_id: str | None = one.member_id
    if not member_id:
        member_id = group.static_ids.get(one.group_instance_id) if one.group_instance_id is not None else None
        if member_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
    elif member_id not in group.pending:
        error = group.validate_member(member_id, one.group_instance_id)
        if error:
            return error
    member = group.members.get(member_id)
    if member is None:  # an id that was only handed out
        left.append(Trigger(member_id, None, "", "", one.reason))
    else:
        left.append(events.trigger(member, one.reason))
        telling.left(turn, group, member, one.reason)
    drop_member(turn, group, member_id)
    return 0
