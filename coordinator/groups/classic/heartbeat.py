"""Heartbeat: it renews the session. The answer says whether the member must join again. The most frequent request by
far.
"""

from __future__ import annotations

from typing import Final

from muster.coordinator.groups.classic.group import ClassicGroup, classic_group
from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.classic.states import EMPTY, PREPARING
from muster.coordinator.groups.common.state import State
from muster.coordinator.state_machine.deadlines import NEVER
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

WELL: Final = HeartbeatResponse(0, ErrorCode.NONE)
REJOIN: Final = HeartbeatResponse(0, ErrorCode.REBALANCE_IN_PROGRESS)
"""The usual answers, the same objects each time, never to be changed: their bytes are encoded only once."""


def answer(state: State, request: HeartbeatRequest, mono_ms: int, group: ClassicGroup | None) -> HeartbeatResponse:
    """Answer a Heartbeat. It moves the member's deadline and changes nothing else."""
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
            return REJOIN if group.state == PREPARING else WELL
    return HeartbeatResponse(0, _error_of(group, request))


class GenerationMember:
    """One member of one generation, for repeated heartbeats: a part of `answer` without look-ups.

    They are not one function, for a call costs as much as the shared part. A test compares both (test_properties). A
    member's session runs while it is in its group and its core is active.
    """

    __slots__ = ("_generation", "_group", "_member", "_member_id")

    def __init__(self, group: ClassicGroup, member: Member) -> None:
        self._group, self._member = group, member
        self._generation, self._member_id = group.generation, member.member_id

    def heartbeat(self, mono_ms: int) -> bool:
        """Whether `answer` would be WELL and only move the deadline. If True, the deadline is moved.

        If False, nothing was done.
        """
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


def prepare(state: State, request: HeartbeatRequest) -> GenerationMember | None:
    """The sender of such heartbeats. None when no member can be prepared now."""
    group = classic_group(state, request.group_id)
    member = group.members.get(request.member_id) if group is not None else None
    if group is None or member is None or group.validate_member(request.member_id, request.group_instance_id):
        return None
    return GenerationMember(group, member) if request.generation_id == group.generation else None


def _error_of(group: ClassicGroup | None, request: HeartbeatRequest) -> int:
    """The error of a heartbeat that is not from a member of this generation, in Kafka's order."""
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None or group.state == EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return group.validate_member(request.member_id, request.group_instance_id) or ErrorCode.ILLEGAL_GENERATION
