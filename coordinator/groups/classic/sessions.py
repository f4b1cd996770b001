"""Heartbeat and LeaveGroup of a classic group. `rebalance.py` ends the session of a silent member.

A LeaveGroup names one member or several (KIP-345), and causes one rebalance for all members that leave.
"""

from __future__ import annotations

from typing import Final

from muster.coordinator.groups.classic import history
from muster.coordinator.groups.classic.group import EMPTY, PREPARING, ClassicGroup, classic_group
from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.classic.rebalance import begin_or_complete, drop_member
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Trigger
from muster.coordinator.groups.common.state import State, Step
from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.state_machine.interface import Command
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

SUCCESS: Final = HeartbeatResponse(0, ErrorCode.NONE)
REBALANCE_IN_PROGRESS: Final = HeartbeatResponse(0, ErrorCode.REBALANCE_IN_PROGRESS)
"""The usual answers to a Heartbeat. These answers never change, so their bytes are encoded only once."""


def heartbeat(state: State, request: HeartbeatRequest, mono_ms: int, group: ClassicGroup | None) -> HeartbeatResponse:
    """Answer a Heartbeat. The member's deadline moves, and nothing else changes."""
    if group is not None:
        member = group.members.get(request.member_id)
        if (
            member is not None
            and request.generation_id == group.generation
            and (request.group_instance_id is None or request.group_instance_id == member.instance_id)
        ):
            member.due_ms = due_ms = mono_ms + member.session_timeout_ms
            if due_ms < member.queued_ms:
                state.deadlines.set(member, due_ms)
            return REBALANCE_IN_PROGRESS if group.state == PREPARING else SUCCESS
    return HeartbeatResponse(0, _heartbeat_error(group, request))


class GenerationMember:
    """Answers heartbeats of one member in one generation without look-ups, cheaper than the function `heartbeat`."""

    __slots__ = ("_generation", "_group", "_member", "_member_id")

    def __init__(self, group: ClassicGroup, member: Member) -> None:
        self._group, self._member = group, member
        self._generation, self._member_id = group.generation, member.member_id

    def heartbeat(self, mono_ms: int) -> bool:
        """Whether the function `heartbeat` would return SUCCESS. If true, the deadline moves; else nothing changes."""
        member, group = self._member, self._group
        if (
            member.due_ms == NEVER
            or member.member_id is not self._member_id
            or group.generation != self._generation
            or group.state == PREPARING
        ):
            return False
        due_ms = mono_ms + member.session_timeout_ms
        if due_ms < member.queued_ms:
            return False
        member.due_ms = due_ms
        return True


def prepare_heartbeat(state: State, request: HeartbeatRequest) -> GenerationMember | None:
    """The `GenerationMember` for equal heartbeats. None when this heartbeat is not a current member's."""
    group = classic_group(state, request.group_id)
    member = group.members.get(request.member_id) if group is not None else None
    if group is None or member is None or group.validate_member(request.member_id, request.group_instance_id):
        return None
    return GenerationMember(group, member) if request.generation_id == group.generation else None


def _heartbeat_error(group: ClassicGroup | None, request: HeartbeatRequest) -> int:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None or group.state == EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return group.validate_member(request.member_id, request.group_instance_id) or ErrorCode.ILLEGAL_GENERATION


def leave_group(step: Step, command: Command, request: LeaveGroupRequest, group: ClassicGroup | None) -> None:
    """Answer a LeaveGroup. The answer has a row for each named member, in the request's order, with its own error."""
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
    # As on Kafka, this answer follows the answers to the requests that waited for these members.
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
    if member is None:  # a pending id
        left.append(Trigger(member_id, None, "", "", one.reason))
    else:
        left.append(history.trigger(member, one.reason))
        history.left(step, group, member, one.reason)
    drop_member(step, group, member_id)
    return 0
