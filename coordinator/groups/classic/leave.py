"""LeaveGroup: one member or a batch (KIP-345), with one rebalance for all members that leave."""

from __future__ import annotations

from muster.coordinator.groups.classic import history
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.classic.parked_requests import drop_member
from muster.coordinator.groups.classic.rebalance import begin_or_complete
from muster.coordinator.groups.classic.states import EMPTY
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Trigger
from muster.coordinator.groups.common.step import Step
from muster.coordinator.state_machine.interface import Command
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)


def handle(step: Step, command: Command, request: LeaveGroupRequest, group: ClassicGroup | None) -> None:
    """Answer a LeaveGroup: one row for each member that leaves, in their order, each with its own error."""
    if not request.group_id:
        error: int = ErrorCode.INVALID_GROUP_ID
        step.reply(command.respond, LeaveGroupResponse(error_code=error))
        step.refused(command, request.group_id, error, "", None)
        return
    rows: list[MemberResponse] = []
    left: list[Trigger] = []
    for one in request.members:
        error = ErrorCode.UNKNOWN_MEMBER_ID if group is None else _leave(step, group, one, left)
        rows.append(MemberResponse(one.member_id, one.group_instance_id, error))
        if error:
            step.refused(command, request.group_id, error, one.member_id, one.group_instance_id)
    if left and group is not None and group.state != EMPTY:
        begin_or_complete(step, group, events.LEFT, left[0])
    # Last, as on Kafka: the requests that waited for this are answered earlier in the output.
    step.reply(command.respond, LeaveGroupResponse(members=rows))


def _leave(step: Step, group: ClassicGroup, one: MemberIdentity, left: list[Trigger]) -> int:
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
        left.append(history.trigger(member, one.reason))
        history.left(step, group, member, one.reason)
    drop_member(step, group, member_id)
    return 0
