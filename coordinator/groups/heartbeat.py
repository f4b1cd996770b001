"""Heartbeat: a sign of life, answered with whether the member must join again. The most frequent request by far."""

from __future__ import annotations

from typing import Final

from muster.coordinator.groups.classic import ClassicGroup
from muster.coordinator.groups.state import State
from muster.coordinator.groups.states import DEAD, EMPTY, PREPARING
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

WELL: Final = HeartbeatResponse(0, ErrorCode.NONE)
REJOIN: Final = HeartbeatResponse(0, ErrorCode.REBALANCE_IN_PROGRESS)
"""The usual answers, the same objects each time, never to be changed: who encodes them knows their bytes already."""


def answer(state: State, request: HeartbeatRequest, mono_ms: int) -> HeartbeatResponse:
    """Answer a Heartbeat. It moves the member's deadline and changes nothing else."""
    group = state.groups.get(request.group_id)
    if type(group) is ClassicGroup:
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
    return HeartbeatResponse(0, _refusal(state, request))


def known(state: State, request: HeartbeatRequest) -> HeartbeatRequest:
    """An equal request whose group and member are named by the same objects as in the state, when they are there."""
    group = state.classic(request.group_id)
    member = group.members.get(request.member_id) if group is not None else None
    if group is None or member is None:
        return request
    return HeartbeatRequest(group.group_id, request.generation_id, member.member_id, request.group_instance_id)


def _refusal(state: State, request: HeartbeatRequest) -> int:
    """Why a heartbeat is none of a member of this generation, in Kafka's order."""
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    group = state.classic(request.group_id)
    if group is None or group.state == EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state == DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return group.validate_member(request.member_id, request.group_instance_id) or ErrorCode.ILLEGAL_GENERATION
