"""JoinGroup: its checks in Kafka's order, then a decision by who asks and the state of the group, as data.

Sources: KIP-345 (static members), KIP-389 (group.max.size), KIP-394 (member id required), KIP-814 (skip assignment).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from muster.coordinator.core.interface import JoinCommand
from muster.coordinator.groups.classic import history, pending_members, rejoin_cause, static_members
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.classic.member import NEW_MEMBER_JOIN_TIMEOUT_MS, Member, Protocols
from muster.coordinator.groups.classic.parked_requests import drop_member, join_refusal, park_join
from muster.coordinator.groups.classic.rebalance import begin_or_complete, present
from muster.coordinator.groups.classic.states import COMPLETING, EMPTY, PREPARING, STABLE
from muster.coordinator.groups.common import events, records
from muster.coordinator.groups.common.batch_size import is_too_large
from muster.coordinator.groups.common.step import Step
from muster.coordinator.groups.foreign import ForeignGroup
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.join_group import JoinGroupRequest

# ---- who asks (the first that fits)
NEEDS_ID: Final = "no member id, not static, v4+"
NEW: Final = "no member id, and not known"
STATIC_BACK: Final = "no member id, instance id known"
PENDING: Final = "an id that was handed out"
PENDING_STATIC: Final = "an id that was handed out, with an instance id"
FENCED: Final = "instance id of another member"
UNKNOWN: Final = "a member id nobody has"
LEADER: Final = "the leader, same protocols"
FOLLOWER: Final = "a follower, same protocols"
CHANGED: Final = "a member, changed protocols"
WHO: Final = (NEEDS_ID, NEW, STATIC_BACK, PENDING, PENDING_STATIC, FENCED, UNKNOWN, LEADER, FOLLOWER, CHANGED)

# ---- what is done ("rebalance" begins one, or goes on with the one that is on)
HAND_OUT_ID: Final = "answer MEMBER_ID_REQUIRED with a new id"
ADD: Final = "add, park, rebalance"
REPLACE: Final = "replace the old incarnation, park, rebalance"
REPLACE_QUIETLY: Final = "replace the old incarnation; rebalance only if that turns the vote"
REJOIN: Final = "update, park, rebalance"
REPEAT: Final = "answer with the present generation"
REFUSE_UNKNOWN: Final = "UNKNOWN_MEMBER_ID"
REFUSE_FENCED: Final = "FENCED_INSTANCE_ID"
REFUSE_ODD: Final = "UNKNOWN_SERVER_ERROR"
IMPOSSIBLE: Final = "cannot be: an Empty group has no members"

_STATES: Final = (EMPTY, PREPARING, COMPLETING, STABLE)
_GRID: Final = (
    #                 Empty           PreparingRebalance CompletingRebalance Stable
    (NEEDS_ID, HAND_OUT_ID, HAND_OUT_ID, HAND_OUT_ID, HAND_OUT_ID),
    (NEW, ADD, ADD, ADD, ADD),
    (STATIC_BACK, IMPOSSIBLE, REPLACE, REPLACE, REPLACE_QUIETLY),
    (PENDING, ADD, ADD, ADD, ADD),
    (PENDING_STATIC, REFUSE_ODD, REFUSE_ODD, REFUSE_ODD, REFUSE_ODD),
    (FENCED, IMPOSSIBLE, REFUSE_FENCED, REFUSE_FENCED, REFUSE_FENCED),
    (UNKNOWN, REFUSE_UNKNOWN, REFUSE_UNKNOWN, REFUSE_UNKNOWN, REFUSE_UNKNOWN),
    (LEADER, IMPOSSIBLE, REJOIN, REPEAT, REJOIN),
    (FOLLOWER, IMPOSSIBLE, REJOIN, REPEAT, REPEAT),
    (CHANGED, IMPOSSIBLE, REJOIN, REJOIN, REJOIN),
)
DECISIONS: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {(who, state): what for who, *row in _GRID for state, what in zip(_STATES, row, strict=True)}
)
"""(who asks, state of the group) -> what is done."""


class Asking:
    """One JoinGroup that has passed the checks."""

    __slots__ = ("command", "protocols", "request")

    def __init__(self, command: JoinCommand, request: JoinGroupRequest, protocols: Protocols) -> None:
        self.command = command
        self.request = request
        self.protocols = protocols

    @property
    def new_id(self) -> str:
        """The member id for who has none: it begins with the instance id, or else with the client id."""
        instance_id = self.request.group_instance_id
        first = self.command.client.client_id if instance_id is None else instance_id
        return f"{first}-{self.command.drawn_id}"


def handle(step: Step, command: JoinCommand, request: JoinGroupRequest) -> None:
    """Answer a JoinGroup, or park it."""
    settings, member_id = step.state.settings, request.member_id
    timeout_ms = request.session_timeout_ms
    error = 0
    if not request.group_id:
        error = ErrorCode.INVALID_GROUP_ID
    elif not settings.group_min_session_timeout_ms <= timeout_ms <= settings.group_max_session_timeout_ms:
        error = ErrorCode.INVALID_SESSION_TIMEOUT
    group = step.state.classic(request.group_id)
    if not error and group is None:
        other = step.state.groups.get(request.group_id)
        if isinstance(other, ForeignGroup) and not other.may_become_classic:
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        elif member_id:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        elif is_too_large(step.state, [records.new_group(request.group_id, 0)], len(request.group_id)):
            _refuse_new_group(step, command, request)
            return
        else:
            group = _create(step, request.group_id)
    if error or group is None:
        _refuse(step, command, request, error, member_id)
        return
    if not _has_room(group, member_id, settings.group_max_size):
        _refuse(step, command, request, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        refused = group.members.get(member_id)
        if refused is not None:
            history.removed(step, group, refused, events.GROUP_FULL)
        drop_member(step, group, member_id)
        return
    protocols = step.state.shared.protocols((one.name, one.metadata) for one in request.protocols)
    if not group.supports(request.protocol_type, protocols):
        _refuse(step, command, request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        return
    asking = Asking(command, request, protocols)
    who = who_asks(group, asking)
    _ACTIONS[DECISIONS[who, group.state]](step, group, asking)


def who_asks(group: ClassicGroup, asking: Asking) -> str:
    """Which row of the table a JoinGroup belongs to."""
    member_id, instance_id = asking.request.member_id, asking.request.group_instance_id
    if not member_id:
        if instance_id is None:
            return NEEDS_ID if asking.command.requires_known_member_id else NEW
        return STATIC_BACK if instance_id in group.static_ids else NEW
    if member_id in group.pending:
        return PENDING if instance_id is None else PENDING_STATIC
    error = group.validate_member(member_id, instance_id)
    if error:
        return FENCED if error == ErrorCode.FENCED_INSTANCE_ID else UNKNOWN
    if group.members[member_id].protocols != asking.protocols:
        return CHANGED
    return LEADER if member_id == group.leader_id else FOLLOWER


def _refuse_new_group(step: Step, command: JoinCommand, request: JoinGroupRequest) -> None:
    """The group's name is too long to be written. As on Kafka, who needs an id gets one all the same, which nobody
    knows.
    """
    if command.requires_known_member_id and request.group_instance_id is None:
        new_id = f"{command.client.client_id}-{command.drawn_id}"
        step.reply(command.respond, join_refusal(new_id, ErrorCode.MEMBER_ID_REQUIRED))
    else:
        _refuse(step, command, request, ErrorCode.UNKNOWN_SERVER_ERROR, "")


def _create(step: Step, group_id: str) -> ClassicGroup | None:
    # an Empty group of another type gives way; its offsets stay
    other = step.state.groups.get(group_id)
    for record in () if other is None else records.tombstones(other):
        step.record(record)
    # written even when nobody gets in: the group is there from now on, as on Kafka
    step.record(records.new_group(group_id, step.now.wall_ms))
    step.event(events.GROUP_CREATED, group_id)
    return step.state.classic(group_id)


def _has_room(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    """Kafka's acceptJoiningMember: in the join phase only those count who have joined, so that they are in first."""
    if group.state == EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state == PREPARING:
        return group.parked_joins < max_size or (member is not None and member.parked_join is not None)
    return member is not None or len(group.members) < max_size


# ---- actions


def _hand_out_id(step: Step, group: ClassicGroup, asking: Asking) -> None:
    member_id = asking.new_id
    pending_members.hand_out(step, group, member_id, asking.request.session_timeout_ms)
    step.reply(asking.command.respond, join_refusal(member_id, ErrorCode.MEMBER_ID_REQUIRED))


def _add(step: Step, group: ClassicGroup, asking: Asking) -> None:
    request, client, shared = asking.request, asking.command.client, step.state.shared.of
    member = Member(
        group.group_id,
        request.member_id or asking.new_id,
        request.group_instance_id,
        shared(client.client_id),
        shared(client.host),
        shared(request.rebalance_timeout_ms),
        shared(request.session_timeout_ms),
        asking.protocols,
    )
    member.is_new = True
    if not group.members:
        group.protocol_type = request.protocol_type
    used_id = group.pending.get(member.member_id)
    if used_id is not None:
        step.state.deadlines.cancel(used_id)
    group.newcomer = group.newcomer or group.state == PREPARING
    group.add(member)
    park_join(step, group, member, asking.command.respond)
    step.state.deadlines.set(member, step.now.mono_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
    step.event(
        events.MEMBER_JOINED,
        group.group_id,
        member=events.of_member(member, step.now),
        protocol_type=group.protocol_type,
        reason=request.reason,
    )
    begin_or_complete(step, group, events.NEW_MEMBER, events.trigger(member, request.reason))


def _rejoin(step: Step, group: ClassicGroup, asking: Asking) -> None:
    request = asking.request
    member = group.members[request.member_id]
    # while members are awaited this is what was asked for, not the cause of anything
    cause = (
        "" if group.state == PREPARING else rejoin_cause.of_rejoin(group, member, asking.protocols, step.state.image)
    )
    group.update(member, asking.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
    park_join(step, group, member, asking.command.respond)
    begin_or_complete(step, group, cause, events.trigger(member, request.reason))


def _repeat(step: Step, group: ClassicGroup, asking: Asking) -> None:
    # The answer was probably lost: a follower needs no rebalance for that, and a leader none before it has assigned.
    member = group.members[asking.request.member_id]
    full = group.state == COMPLETING and member.member_id == group.leader_id
    step.reply(asking.command.respond, present(group, member, full=full))


def _replace(step: Step, group: ClassicGroup, asking: Asking) -> None:
    request = asking.request
    member = static_members.replace(step, group, request, asking.new_id, asking.protocols)
    park_join(step, group, member, asking.command.respond)
    begin_or_complete(step, group, events.STATIC_MEMBER_BACK, events.trigger(member, request.reason))


def _replace_quietly(step: Step, group: ClassicGroup, asking: Asking) -> None:
    request = asking.request
    old_leader = group.leader_id or ""
    if static_members.is_too_large(step, group, request, asking.new_id, asking.protocols):
        _refuse(step, asking.command, request, ErrorCode.UNKNOWN_SERVER_ERROR, "")
        return
    member = static_members.replace(step, group, request, asking.new_id, asking.protocols)
    if group.vote() == group.protocol_name:
        static_members.answer_in_place(step, group, asking.command, member, old_leader)
        return
    park_join(step, group, member, asking.command.respond)
    begin_or_complete(step, group, events.STATIC_MEMBER_BACK, events.trigger(member, request.reason))


def _refuse(step: Step, command: JoinCommand, request: JoinGroupRequest, error: int, member_id: str) -> None:
    step.reply(command.respond, join_refusal(member_id, error))
    step.refused(command, request.group_id, error, request.member_id, request.group_instance_id)


def _refusing(error: int) -> Callable[[Step, ClassicGroup, Asking], None]:
    def refuse(step: Step, _: ClassicGroup, asking: Asking) -> None:
        _refuse(step, asking.command, asking.request, error, asking.request.member_id)

    return refuse


def _refuse_odd(step: Step, _: ClassicGroup, asking: Asking) -> None:
    # such an id was asked for without an instance id; Kafka trips over it and answers so, without the member id
    _refuse(step, asking.command, asking.request, ErrorCode.UNKNOWN_SERVER_ERROR, "")


_ACTIONS: Final = {
    HAND_OUT_ID: _hand_out_id,
    ADD: _add,
    REPLACE: _replace,
    REPLACE_QUIETLY: _replace_quietly,
    REJOIN: _rejoin,
    REPEAT: _repeat,
    REFUSE_UNKNOWN: _refusing(ErrorCode.UNKNOWN_MEMBER_ID),
    REFUSE_FENCED: _refusing(ErrorCode.FENCED_INSTANCE_ID),
    REFUSE_ODD: _refuse_odd,
}
