"""Parked JoinGroup and SyncGroup requests: parking them and answering them, each exactly once.

Kafka never answers a request that the same member has sent again, nor the SyncGroup of a removed member. These are
abandoned requests. No client waits for such an answer, but its connection would stay blocked for ever. So Muster
answers it with an error after a session timeout.
"""

from __future__ import annotations

from typing import Final

from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.common.state import Step
from muster.coordinator.state_machine.deadlines import Deadline, Due
from muster.coordinator.state_machine.interface import Reply, Respond
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.join_group import JoinGroupResponse
from muster.protocol.messages.sync_group import SyncGroupResponse

ABANDONED: Final = "orphan"
"""Kind of the deadline at which an abandoned request is answered."""


def join_refusal(member_id: str, error: int) -> JoinGroupResponse:
    """JoinGroup's answer with an error: no generation, no leader, no protocol."""
    return JoinGroupResponse(error_code=error, protocol_name=None, member_id=member_id)


def restart_session(step: Step, member: Member) -> None:
    """A request of the member has arrived: its session begins anew."""
    step.state.deadlines.set(member, step.now.mono_ms + member.session_timeout_ms)


def answered(step: Step, member: Member) -> None:
    """The coordinator answers a parked request: the member's session begins anew, though the member sent nothing."""
    restart_session(step, member)
    member.restarted_ms = member.due_ms


def park_join(step: Step, group: ClassicGroup, member: Member, respond: Respond) -> None:
    """Park the member's JoinGroup until the end of the join phase, in place of an older one."""
    has_joined(step, member)
    older = group.park_join(member, respond)
    if older is not None:
        _abandon(step, member, older, join_refusal(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))


def has_joined(step: Step, member: Member) -> None:
    """A JoinGroup of the member has arrived."""
    member.joined_ms = step.state.shared.moment(step.now.wall_ms)
    member.restarted_ms = member.due_ms


def park_sync(step: Step, member: Member, respond: Respond) -> None:
    """Park the member's SyncGroup until the leader's assignment arrives, in place of an older one."""
    older, member.parked_sync = member.parked_sync, respond
    if older is not None:
        _abandon(step, member, older, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


def answer_join(step: Step, group: ClassicGroup, member: Member, response: JoinGroupResponse) -> None:
    """Answer the member's parked JoinGroup, if any."""
    respond = group.unpark_join(member)
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
    """Remove a member or a pending id. Its deadline is cancelled, and its parked requests are answered.

    Returns None for an id without a member.
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
            _abandon(step, member, member.parked_sync, response)
            member.parked_sync = None
    return group.remove(member_id)


def on_abandoned_deadline(step: Step, _: object, deadline: Due) -> None:
    """Answer an abandoned request."""
    step.reply(*step.state.abandoned.pop(deadline))


def unload(group: ClassicGroup, error: int) -> list[Reply]:
    """The core is given up (Kafka's onUnloaded). Returns the answers to the group's parked requests."""
    replies: list[Reply] = []
    for member in group.members.values():
        respond = group.unpark_join(member)
        if respond is not None:
            replies.append((respond, join_refusal(member.member_id, error)))
        if member.parked_sync is not None:
            replies.append((member.parked_sync, SyncGroupResponse(error_code=error)))
            member.parked_sync = None
    return replies


def _abandon(step: Step, member: Member, respond: Respond, response: Message) -> None:
    deadline = Deadline(ABANDONED, "", member.member_id)
    step.state.abandoned[deadline] = (respond, response)
    step.state.deadlines.set(deadline, step.now.mono_ms + member.session_timeout_ms)
