"""Parked JoinGroup and SyncGroup requests: parking them and answering them, each exactly once.

Two of them Kafka never answers: a request that the same member has sent anew, and the SyncGroup of a member that was
removed. Nobody awaits such an answer, but a connection could wait for it for ever; so it is given, late: after a
session timeout.
"""

from __future__ import annotations

from typing import Final

from muster.coordinator.core.deadlines import Deadline, Due
from muster.coordinator.core.interface import Reply, Respond
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.common.state import State
from muster.coordinator.groups.common.step import Step
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.join_group import JoinGroupResponse
from muster.protocol.messages.sync_group import SyncGroupResponse

ORPHAN: Final = "orphan"
"""Kind of the deadline at which a request that nobody waits for is answered."""


def join_refusal(member_id: str, error: int) -> JoinGroupResponse:
    """JoinGroup's answer with an error: no generation, no leader, no protocol."""
    return JoinGroupResponse(error_code=error, protocol_name=None, member_id=member_id)


def restart_session(step: Step, member: Member) -> None:
    """A sign of life: the member's session begins anew."""
    step.state.deadlines.set(member, step.now.mono_ms + member.session_timeout_ms)


def answered(step: Step, member: Member) -> None:
    """It is the coordinator who speaks: the member's session begins anew, but nothing was heard of it."""
    restart_session(step, member)
    member.restarted_ms = member.due_ms


def park_join(step: Step, group: ClassicGroup, member: Member, respond: Respond) -> None:
    """The member awaits the end of the join phase with this request, not with an older one."""
    has_joined(step, member)
    older = group.park_join(member, respond)
    if older is not None:
        _leave_behind(step, member, older, join_refusal(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))


def has_joined(step: Step, member: Member) -> None:
    """A JoinGroup of it has come."""
    member.joined_ms = step.state.shared.moment(step.now.wall_ms)
    member.restarted_ms = member.due_ms


def park_sync(step: Step, member: Member, respond: Respond) -> None:
    """The member awaits the leader's assignment with this request, not with an older one."""
    older, member.parked_sync = member.parked_sync, respond
    if older is not None:
        _leave_behind(step, member, older, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


def answer_join(step: Step, group: ClassicGroup, member: Member, response: JoinGroupResponse) -> None:
    """Answer the member's parked JoinGroup, if there is one."""
    respond = group.take_join(member)
    if respond is not None:
        step.reply(respond, response)


def answer_syncs(step: Step, group: ClassicGroup, error: int) -> None:
    """Answer every parked SyncGroup: with the member's assignment, or with an error. Each session begins anew."""
    for member in group.members.values():
        respond = member.parked_sync
        if respond is None:
            continue
        member.parked_sync = None
        if error:
            step.reply(respond, SyncGroupResponse(error_code=error))
        else:
            step.reply(respond, SyncGroupResponse(0, 0, group.protocol_type, group.protocol_name, member.assignment))
        answered(step, member)


def drop_member(step: Step, group: ClassicGroup, member_id: str) -> Member | None:
    """Let a member or a pending id go: its deadline is off, its parked requests are answered. None when it is no
    member.
    """
    pending = group.pending.get(member_id)
    if pending is not None:
        step.state.deadlines.cancel(pending)
    member = group.members.get(member_id)
    if member is not None:
        answer_join(step, group, member, join_refusal("", ErrorCode.UNKNOWN_MEMBER_ID))
        step.state.deadlines.cancel(member)
        if member.parked_sync is not None:
            response = SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
            _leave_behind(step, member, member.parked_sync, response)
            member.parked_sync = None
    return group.remove(member_id)


def answer_orphan(step: Step, deadline: Due) -> None:
    """The time has come to answer a request that nobody waits for."""
    respond, response = step.state.orphans.pop(deadline)
    step.reply(respond, response)


def answer_all(state: State, error: int) -> list[Reply]:
    """The answers to everything that is parked, when this core is given up (Kafka's onUnloaded). No request stays
    parked.
    """
    replies: list[Reply] = []
    for group in state.groups.values():
        if isinstance(group, ClassicGroup):
            for member in group.members.values():
                respond = group.take_join(member)
                if respond is not None:
                    replies.append((respond, join_refusal(member.member_id, error)))
                if member.parked_sync is not None:
                    replies.append((member.parked_sync, SyncGroupResponse(error_code=error)))
                    member.parked_sync = None
    replies.extend(state.orphans.values())
    state.orphans.clear()
    return replies


def _leave_behind(step: Step, member: Member, respond: Respond, response: Message) -> None:
    deadline = Deadline(ORPHAN, "", member.member_id)
    step.state.orphans[deadline] = (respond, response)
    step.state.deadlines.set(deadline, step.now.mono_ms + member.session_timeout_ms)
