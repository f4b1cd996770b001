"""The rebalance of a classic group: the parked requests, the join phase, and the sync phase with SyncGroup.

Kafka: prepareRebalance, completeClassicGroupJoin. From Empty the join phase lasts `group.initial.rebalance.delay.ms`,
longer while members join, at most the rebalance timeout (KIP-134). From any other state the phase ends when all members
have joined and no member id is pending (KIP-394). Each join phase ends at the latest after the rebalance timeout of the
slowest member. Members that have not joined by then are removed, except static members (KIP-345).

Kafka leaves two kinds of parked requests without an answer. The member has sent a new request instead, or a removed
member has sent a SyncGroup. The clients' connections stay blocked for ever. So Muster answers abandoned requests with
an error after a session timeout.
"""

from __future__ import annotations

from typing import Final

from muster.coordinator.groups.classic import history, records
from muster.coordinator.groups.classic.group import (
    ASSIGNED,
    COMPLETING,
    DESERTED,
    EMPTY,
    JOINED,
    PREPARING,
    REBALANCE,
    STABLE,
    TRANSITIONS,
    ClassicGroup,
)
from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Trigger
from muster.coordinator.groups.common.state import Step, is_too_large
from muster.coordinator.state_machine.deadlines import Deadline, Due
from muster.coordinator.state_machine.interface import Command, Reply, Respond
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

ABANDONED: Final = "abandoned"
"""The kind of the deadline at which an abandoned request is answered."""


def join_refusal(member_id: str, error: int) -> JoinGroupResponse:
    """A JoinGroup response with an error, without generation, leader and protocol."""
    return JoinGroupResponse(error_code=error, protocol_name=None, member_id=member_id)


def restart_session(step: Step, member: Member) -> None:
    """Begin the member's session again, because a request of the member has arrived."""
    step.state.deadlines.set(member, step.now.mono_ms + member.session_timeout_ms)


def answered(step: Step, member: Member) -> None:
    """Begin the member's session again, because a parked request of the member is being answered."""
    restart_session(step, member)
    member.restarted_ms = member.due_ms


def park_join(step: Step, group: ClassicGroup, member: Member, respond: Respond) -> None:
    """Park the member's JoinGroup until the end of the join phase. A JoinGroup parked before is abandoned."""
    has_joined(step, member)
    older = group.park_join(member, respond)
    if older is not None:
        _abandon(step, member, older, join_refusal(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))


def has_joined(step: Step, member: Member) -> None:
    """Note that a JoinGroup of the member has arrived."""
    member.joined_ms = step.state.shared.moment(step.now.wall_ms)
    member.restarted_ms = member.due_ms


def park_sync(step: Step, member: Member, respond: Respond) -> None:
    """Park the member's SyncGroup until the leader's assignment arrives. A SyncGroup parked before is abandoned."""
    older, member.parked_sync = member.parked_sync, respond
    if older is not None:
        _abandon(step, member, older, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


def answer_join(step: Step, group: ClassicGroup, member: Member, response: JoinGroupResponse) -> None:
    """Answer the member's JoinGroup, if one is parked."""
    respond = group.unpark_join(member)
    if respond is not None:
        step.reply(respond, response)


def answer_syncs(step: Step, group: ClassicGroup, error: int) -> None:
    """Answer every parked SyncGroup with the member's assignment or with an error, and begin the sessions again."""
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
    """Remove a member or a pending id, and its deadline. Answer the member's parked requests. Returns the member."""
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
    """Give up the group with its core (Kafka's onUnloaded). Returns the answers to the group's parked requests."""
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


def begin_or_complete(step: Step, group: ClassicGroup, cause: str, trigger: Trigger | None) -> None:
    """Begin a rebalance. In a join phase, end the phase instead if all members have joined."""
    if (group.state, REBALANCE) in TRANSITIONS:
        begin(step, group, cause, trigger)
    else:
        complete_if_joined(step, group)


def begin(step: Step, group: ClassicGroup, cause: str, trigger: Trigger | None = None) -> None:
    """Begin a rebalance because of `cause`; the member `trigger` has caused the rebalance."""
    history.rebalance_started(step, group, cause, trigger)
    if group.state == COMPLETING:
        for member in group.members.values():
            member.assignment = b""
        answer_syncs(step, group, ErrorCode.REBALANCE_IN_PROGRESS)
    state, now = step.state, step.now
    state.deadlines.cancel(group.sync_deadline)
    group.initial = group.state == EMPTY
    group.transition(REBALANCE, now.wall_ms)
    if group.initial:
        group.newcomer = False
        group.delay_ms = state.settings.group_initial_rebalance_delay_ms
        group.remaining_ms = max(group.rebalance_timeout_ms - group.delay_ms, 0)
        state.deadlines.set(group.join_deadline, now.mono_ms + group.delay_ms)
    elif group.has_everyone:
        complete(step, group)
    else:
        state.deadlines.set(group.join_deadline, now.mono_ms + group.rebalance_timeout_ms)


def complete_if_joined(step: Step, group: ClassicGroup, *, cut_delay: bool = False) -> None:
    """End the join phase if all members have joined. `cut_delay`: even before the end of the initial delay."""
    if group.state == PREPARING and group.has_everyone and (cut_delay or not group.initial):
        complete(step, group)


def on_join_deadline(step: Step, group: ClassicGroup, deadline: Deadline) -> None:
    """End the join phase at its deadline, or prolong the initial delay if a member was added during the delay."""
    if group.initial and group.newcomer and group.remaining_ms:
        group.newcomer = False
        delay_ms = min(step.state.settings.group_initial_rebalance_delay_ms, group.remaining_ms)
        group.remaining_ms = max(group.remaining_ms - group.delay_ms, 0)
        group.delay_ms = delay_ms
        step.state.deadlines.set(group.join_deadline, step.now.mono_ms + delay_ms)
    elif group.parked_joins == len(group.members) or not _put_off_phase(step, group, deadline):
        complete(step, group)


def complete(step: Step, group: ClassicGroup) -> None:
    """End the join phase: the joined members begin a new generation. Without members the group becomes Empty."""
    deadlines, now = step.state.deadlines, step.now
    deadlines.cancel(group.join_deadline)
    if group.parked_joins < len(group.members):
        for member in [one for one in group.members.values() if one.parked_join is None and one.instance_id is None]:
            remove_member(step, group, member, events.JOIN_TIMEOUT)
    if not group.keep_or_elect_leader() and group.members:
        # All members are static, and none of them has joined. So the phase continues until the members' sessions end. A
        # deadline in 0 ms would be an endless loop.
        deadlines.set(group.join_deadline, now.mono_ms + max(group.rebalance_timeout_ms, 1))
        return
    group.initial = group.newcomer = False
    group.begin_generation()
    if not group.members:
        group.transition(DESERTED, now.wall_ms)
        step.record(records.group_metadata(group))
        history.emptied(step, group)
        return
    group.transition(JOINED, now.wall_ms)
    history.joined(step, group)
    _answer_joins(step, group)
    deadlines.set(group.sync_deadline, now.mono_ms + group.rebalance_timeout_ms)


def loaded(step: Step, group: ClassicGroup) -> None:
    """End the load: a group with members is Stable, with fresh sessions. A group with too many members rebalances."""
    group.state = STABLE if group.members else EMPTY
    group.note_subscriptions()
    for member in group.members.values():
        answered(step, member)
    if len(group.members) > step.state.settings.group_max_size:
        begin(step, group, events.OVER_CAPACITY)


def present(group: ClassicGroup, member: Member, *, full: bool) -> JoinGroupResponse:
    """JoinGroup's answer to a member of this generation. `full`: with the list of members, for the leader."""
    name = group.protocol_name
    members = [
        JoinGroupResponseMember(one.member_id, one.instance_id, one.metadata(name))
        for one in (group.members.values() if full else ())
    ]
    leader = group.leader_id or ""
    # As on Kafka, an empty protocol name is sent as null.
    return JoinGroupResponse(
        0, 0, group.generation, group.protocol_type, name or None, leader, False, member.member_id, members
    )


def remove_member(step: Step, group: ClassicGroup, member: Member, cause: str) -> None:
    """Remove a member that has not sent LeaveGroup."""
    history.removed(step, group, member, cause)
    drop_member(step, group, member.member_id)


def on_session_deadline(step: Step, group: ClassicGroup, member: Member) -> None:
    """Remove a member that has sent nothing within its session timeout (a new member: within five minutes)."""
    if member.is_alive:
        return  # the session begins again when the member's parked request is answered
    if not member.is_new and _put_off_session(step, member):
        return
    remove_member(step, group, member, events.SESSION_EXPIRED)
    if group.state == PREPARING:
        complete_if_joined(step, group, cut_delay=True)
    else:
        begin(step, group, events.SESSION_EXPIRED, history.trigger(member))


def on_sync_deadline(step: Step, group: ClassicGroup, deadline: Deadline) -> None:
    """Remove the members that have not sent SyncGroup within the rebalance timeout, also static members."""
    if _put_off_phase(step, group, deadline):
        return
    late = [group.members[member_id] for member_id in group.pending_sync]
    for member in late:
        remove_member(step, group, member, events.SYNC_TIMEOUT)
    begin(step, group, events.SYNC_TIMEOUT, history.trigger(late[0]))


def _put_off_session(step: Step, member: Member) -> bool:
    asked_ms, timeout_ms = member.asked_ms(step.state.deadlines.rang_ms), member.session_timeout_ms
    if not step.put_off(member, asked_ms - timeout_ms, timeout_ms):
        return False
    member.put_off = member.due_ms, asked_ms
    return True


def _put_off_phase(step: Step, group: ClassicGroup, deadline: Deadline) -> bool:
    """Move the phase's deadline to a later time if answers were late by a large part of the phase."""
    timeout_ms = group.rebalance_timeout_ms
    return step.put_off(deadline, step.state.deadlines.rang_ms - timeout_ms, timeout_ms, is_own=False)


def _answer_joins(step: Step, group: ClassicGroup) -> None:
    for member in group.members.values():
        respond = group.unpark_join(member)
        if respond is not None:
            step.reply(respond, present(group, member, full=member.member_id == group.leader_id))
        member.is_new = False
        member.synced_ms = 0
        answered(step, member)
        group.pending_sync[member.member_id] = None


def sync_group(step: Step, command: Command, request: SyncGroupRequest, group: ClassicGroup | None) -> None:
    """Answer a SyncGroup, or park it until the leader's SyncGroup. The API handler has checked the fields of v5+."""
    error = _sync_error(group, request)
    if error or group is None:
        step.reply(command.respond, SyncGroupResponse(error_code=error))
        if error != ErrorCode.REBALANCE_IN_PROGRESS:
            step.refused(command, request.group_id, error, request.member_id, request.group_instance_id)
        return
    member = group.members[request.member_id]
    _has_synced(step, group, member)
    if group.state == COMPLETING:
        park_sync(step, member, command.respond)
        if group.leader_id == request.member_id:
            _assign(step, group, command, {one.member_id: one.assignment for one in request.assignments})
    else:
        response = SyncGroupResponse(0, 0, group.protocol_type, group.protocol_name, member.assignment)
        step.reply(command.respond, response)


def _sync_error(group: ClassicGroup | None, request: SyncGroupRequest) -> int:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None or group.state == EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state == PREPARING else 0


def _differs(asked: str | None, own: str | None) -> bool:
    return asked is not None and own is not None and asked != own


def _has_synced(step: Step, group: ClassicGroup, member: Member) -> None:
    if member.member_id in group.pending_sync:
        del group.pending_sync[member.member_id]
        history.synced(step, group, member)
    if not group.pending_sync:
        group.pending_sync.clear()  # frees the emptied table
        step.state.deadlines.cancel(group.sync_deadline)


def _assign(step: Step, group: ClassicGroup, command: Command, assignments: dict[str, bytes]) -> None:
    record = records.group_metadata(group, assignments)
    texts = records.texts(group) + sum(map(len, assignments.values()))
    if is_too_large(step, [record], texts, least=records.least_bytes(record)):
        leader = group.members[group.leader_id or ""]
        error = ErrorCode.UNKNOWN_SERVER_ERROR
        step.refused(command, group.group_id, error, leader.member_id, leader.instance_id)
        answer_syncs(step, group, error)
        begin(step, group, events.ASSIGNMENT_TOO_LARGE, history.trigger(leader))
        return
    step.record(record)
    group.transition(ASSIGNED, step.now.wall_ms)
    history.completed(step, group)
    answer_syncs(step, group, 0)


PENDING: Final = "pending"
"""The kind of the deadline at which a pending id is forgotten."""


def hand_out(step: Step, group: ClassicGroup, member_id: str, session_timeout_ms: int) -> None:
    """Add a pending member id. The id may be used within the session timeout that its JoinGroup asked for."""
    deadline = Deadline(PENDING, group.group_id, member_id)
    group.pending[member_id] = deadline
    step.state.deadlines.set(deadline, step.now.mono_ms + session_timeout_ms)


def on_pending_deadline(step: Step, group: ClassicGroup, deadline: Deadline) -> None:
    """Forget a pending id. A join phase that waits only for this id ends, even during the initial delay."""
    group.remove(deadline.subject)
    complete_if_joined(step, group, cut_delay=True)
