"""JoinGroup: checks in Kafka's order, then a table that decides by the request's sender and the group's state.

Sources: KIP-345 (static members), KIP-389 (group.max.size), KIP-394 (member id required), KIP-814 (skip assignment).
When a static member returns, its old incarnation is fenced. The stored assignment, the leadership, and client id and
host of the old connection stay, as on Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from muster.coordinator.groups.classic import history, rebalance, records
from muster.coordinator.groups.classic.group import COMPLETING, EMPTY, PREPARING, STABLE, ClassicGroup, classic_group
from muster.coordinator.groups.classic.member import NEW_MEMBER_JOIN_TIMEOUT_MS, Member, longest
from muster.coordinator.groups.classic.rebalance import (
    answer_join,
    begin_or_complete,
    drop_member,
    has_joined,
    join_refusal,
    park_join,
    present,
    restart_session,
)
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.group import Group, Protocols
from muster.coordinator.groups.common.state import Step, is_too_large, tombstones
from muster.coordinator.state_machine.interface import Command
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.group_records.group_metadata import GroupMetadataValue
from muster.protocol.messages.join_group import JoinGroupRequest
from muster.protocol.messages.sync_group import SyncGroupResponse


@dataclass(slots=True, eq=False, repr=False)
class JoinCommand(Command):
    """A JoinGroup request, and what its version supports."""

    drawn_id: str
    """A fresh UUID as text, for a new member id."""
    requires_known_member_id: bool
    """True for JoinGroup v4+ (KIP-394)."""
    supports_skip_assignment: bool
    """True for JoinGroup v9+ (KIP-814)."""


MAX_METADATA_BYTES: Final = 32 * 1024 * 1024
"""The limit for the sum of each member's longest metadata: the leader's answer has all metadata."""

# ---- kinds of senders (the first kind that fits counts)
NEEDS_ID: Final = "no member id, not static, v4+"
NEW: Final = "no member id, and no known instance id"
STATIC_BACK: Final = "no member id, instance id known"
PENDING: Final = "an id that was handed out"
PENDING_STATIC: Final = "an id that was handed out, with an instance id"
FENCED: Final = "instance id of another member"
UNKNOWN: Final = "a member id that no member has"
LEADER: Final = "the leader, same protocols"
FOLLOWER: Final = "a follower, same protocols"
CHANGED: Final = "a member, changed protocols"
SENDERS: Final = (NEEDS_ID, NEW, STATIC_BACK, PENDING, PENDING_STATIC, FENCED, UNKNOWN, LEADER, FOLLOWER, CHANGED)

# ---- decisions ("rebalance" begins a rebalance, or continues the present one)
HAND_OUT_ID: Final = "answer MEMBER_ID_REQUIRED with a new id"
ADD: Final = "add, park, rebalance"
REPLACE: Final = "replace the old incarnation, park, rebalance"
REPLACE_IN_PLACE: Final = "replace the old incarnation; rebalance only if this changes the chosen protocol"
REJOIN: Final = "update, park, rebalance"
REPEAT: Final = "answer with the present generation"
REFUSE_UNKNOWN: Final = "UNKNOWN_MEMBER_ID"
REFUSE_FENCED: Final = "FENCED_INSTANCE_ID"
FAIL: Final = "UNKNOWN_SERVER_ERROR"
IMPOSSIBLE: Final = "impossible: an Empty group has no members"

_STATES: Final = (EMPTY, PREPARING, COMPLETING, STABLE)
_GRID: Final = (
    # (sender, in Empty, in PreparingRebalance, in CompletingRebalance, in Stable)
    (NEEDS_ID, HAND_OUT_ID, HAND_OUT_ID, HAND_OUT_ID, HAND_OUT_ID),
    (NEW, ADD, ADD, ADD, ADD),
    (STATIC_BACK, IMPOSSIBLE, REPLACE, REPLACE, REPLACE_IN_PLACE),
    (PENDING, ADD, ADD, ADD, ADD),
    (PENDING_STATIC, FAIL, FAIL, FAIL, FAIL),
    (FENCED, IMPOSSIBLE, REFUSE_FENCED, REFUSE_FENCED, REFUSE_FENCED),
    (UNKNOWN, REFUSE_UNKNOWN, REFUSE_UNKNOWN, REFUSE_UNKNOWN, REFUSE_UNKNOWN),
    (LEADER, IMPOSSIBLE, REJOIN, REPEAT, REJOIN),
    (FOLLOWER, IMPOSSIBLE, REJOIN, REPEAT, REPEAT),
    (CHANGED, IMPOSSIBLE, REJOIN, REJOIN, REJOIN),
)
DECISIONS: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {(sender, state): what for sender, *row in _GRID for state, what in zip(_STATES, row, strict=True)}
)
"""The decisions, by kind of sender and state of the group."""


class CheckedJoin(NamedTuple):
    """One JoinGroup that has passed the checks."""

    command: JoinCommand
    request: JoinGroupRequest
    protocols: Protocols

    @property
    def new_id(self) -> str:
        """The id for a new member: it begins with the instance id, or else with the client id."""
        instance_id = self.request.group_instance_id
        first = self.command.client.client_id if instance_id is None else instance_id
        return f"{first}-{self.command.drawn_id}"


def handle(step: Step, command: JoinCommand, request: JoinGroupRequest, group: ClassicGroup) -> None:
    """Answer a JoinGroup to a classic group, or park it."""
    error = request_error(step, request)
    if error:
        _refuse(step, command, request, error, request.member_id)
    else:
        _join(step, command, request, group)


def create_group(step: Step, command: JoinCommand, request: JoinGroupRequest, other: Group | None) -> None:
    """Answer a JoinGroup to a group that does not exist, or is not classic. If allowed, create a classic group."""
    error = request_error(step, request)
    if not error and other is not None and other.deletion_error():
        _refuse(step, command, request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
        return
    if not error and request.member_id:
        error = ErrorCode.UNKNOWN_MEMBER_ID
    if error:
        _refuse(step, command, request, error, request.member_id)
    elif is_too_large(step, [records.new_group(request.group_id, 0)], len(request.group_id)):
        _refuse_new_group(step, command, request)
    else:
        _join(step, command, request, _create(step, request.group_id, other))


def refuse_share_group(step: Step, command: JoinCommand, request: JoinGroupRequest, _: Group | None) -> None:
    """Answer a JoinGroup to a share group, which never becomes classic."""
    error = request_error(step, request) or ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    _refuse(step, command, request, error, "")


def request_error(step: Step, request: JoinGroupRequest) -> int:
    """The error code of a JoinGroup that is invalid for every group, else 0."""
    settings = step.state.settings
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    least_ms, most_ms = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    return 0 if least_ms <= request.session_timeout_ms <= most_ms else ErrorCode.INVALID_SESSION_TIMEOUT


def _join(step: Step, command: JoinCommand, request: JoinGroupRequest, group: ClassicGroup) -> None:
    member_id = request.member_id
    if not (_accepts(group, member_id, step.state.settings.group_max_size) and _fits(group, member_id, request)):
        _refuse(step, command, request, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        refused = group.members.get(member_id)
        if refused is not None:
            history.removed(step, group, refused, events.GROUP_FULL)
        drop_member(step, group, member_id)
        return
    protocols = step.state.shared.protocols([(one.name, one.metadata) for one in request.protocols])
    if not group.supports(request.protocol_type, protocols):
        _refuse(step, command, request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        return
    join = CheckedJoin(command, request, protocols)
    decision = DECISIONS[sender_of(group, join), group.state]
    error = _REFUSALS.get(decision)
    if error is None:
        _ACTIONS[decision](step, group, join)
    else:
        _refuse(step, command, request, error, "" if decision == FAIL else member_id)


def sender_of(group: ClassicGroup, join: CheckedJoin) -> str:
    """The kind of sender of a JoinGroup."""
    member_id, instance_id = join.request.member_id, join.request.group_instance_id
    if not member_id:
        if instance_id is None:
            return NEEDS_ID if join.command.requires_known_member_id else NEW
        return STATIC_BACK if instance_id in group.static_ids else NEW
    if member_id in group.pending:
        return PENDING if instance_id is None else PENDING_STATIC
    error = group.validate_member(member_id, instance_id)
    if error:
        return FENCED if error == ErrorCode.FENCED_INSTANCE_ID else UNKNOWN
    if group.members[member_id].protocols != join.protocols:
        return CHANGED
    return LEADER if member_id == group.leader_id else FOLLOWER


def _refuse_new_group(step: Step, command: JoinCommand, request: JoinGroupRequest) -> None:
    """Refuse a JoinGroup to a group whose name is too long. As on Kafka, a client without member id gets an id."""
    if command.requires_known_member_id and request.group_instance_id is None:
        new_id = f"{command.client.client_id}-{command.drawn_id}"
        step.reply(command.respond, join_refusal(new_id, ErrorCode.MEMBER_ID_REQUIRED))
    else:
        _refuse(step, command, request, ErrorCode.UNKNOWN_SERVER_ERROR, "")


def _create(step: Step, group_id: str, other: Group | None) -> ClassicGroup:
    # The record is written even when the JoinGroup is refused: the group exists from now on, as on Kafka. The offsets
    # of a group of another type stay.
    for record in () if other is None else tombstones(other):
        step.record(record)
    step.record(records.new_group(group_id, step.now.wall_ms))
    step.event(events.GROUP_CREATED, group_id)
    group = classic_group(step.state, group_id)
    assert group is not None
    return group


def _accepts(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    """Whether the group accepts one more member (Kafka's acceptJoiningMember). In the join phase only members with a
    parked JoinGroup count.
    """
    if group.state == EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state == PREPARING:
        return group.parked_joins < max_size or (member is not None and member.parked_join is not None)
    return member is not None or len(group.members) < max_size


def _fits(group: ClassicGroup, member_id: str, request: JoinGroupRequest) -> bool:
    """Whether the answer to the leader would be small enough with the new metadata. Kafka has no such limit."""
    size = max([len(one.metadata) for one in request.protocols], default=0)
    if size + group.support.metadata_bytes <= MAX_METADATA_BYTES:
        return True
    member = group.members.get(member_id)
    before = 0 if member is None else longest(member.protocols)
    return size + group.support.metadata_bytes - before <= MAX_METADATA_BYTES


# ---- actions


def _is_too_large(step: Step, group: ClassicGroup, join: CheckedJoin, member_id: str) -> bool:
    """Whether the group's record would be too large, if the static member had the id `member_id`."""
    record = records.group_metadata(group)
    old_id = group.static_ids[join.request.group_instance_id or ""]
    chosen = next((data for name, data in join.protocols if name == group.protocol_name), b"")
    assert isinstance(record.value, GroupMetadataValue)
    for one in record.value.members:
        if one.member_id == old_id:
            one.member_id, one.subscription = member_id, chosen
    if record.value.leader == old_id:
        record.value.leader = member_id
    shares = sum(len(one.assignment) for one in group.members.values())
    texts = records.texts(group) + len(member_id) + len(chosen) + shares
    return is_too_large(step, [record], texts, least=records.least_bytes(record))


def _replace_member(step: Step, group: ClassicGroup, join: CheckedJoin) -> Member:
    """Give the static member a new id. Parked requests of the old incarnation are fenced at once."""
    request, member_id = join.request, join.new_id
    instance_id = request.group_instance_id or ""
    old_id = group.static_ids[instance_id]
    member = group.members[old_id]
    answer_join(step, group, member, join_refusal(old_id, ErrorCode.FENCED_INSTANCE_ID))
    if member.parked_sync is not None:
        step.reply(member.parked_sync, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        member.parked_sync = None
    group.rename(instance_id, member_id)
    member.is_new = False
    restart_session(step, member)  # with the old session timeout: Kafka sets the new timeout only after this
    has_joined(step, member)
    group.update(member, join.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
    history.replaced(step, group, member, old_id, request.reason)
    return member


def _answer_in_place(step: Step, group: ClassicGroup, command: JoinCommand, member: Member, old_leader: str) -> None:
    """Record the new id, and answer with the present generation, because the vote has the same winner.

    From v9 on the leader's answer says that it must skip the assignment (KIP-814). Older versions have no such field,
    so the leader gets a follower's answer, with the leader's old id.
    """
    step.record(records.group_metadata(group))
    leads = command.supports_skip_assignment and member.member_id == group.leader_id
    response = present(group, member, full=leads)
    response.skip_assignment = leads
    if not command.supports_skip_assignment:
        response.leader = old_leader
    step.reply(command.respond, response)


def _hand_out_id(step: Step, group: ClassicGroup, join: CheckedJoin) -> None:
    member_id = join.new_id
    rebalance.hand_out(step, group, member_id, join.request.session_timeout_ms)
    step.reply(join.command.respond, join_refusal(member_id, ErrorCode.MEMBER_ID_REQUIRED))


def _add(step: Step, group: ClassicGroup, join: CheckedJoin) -> None:
    request, client, shared = join.request, join.command.client, step.state.shared.of
    member = Member(
        group.group_id,
        request.member_id or join.new_id,
        request.group_instance_id,
        shared(client.client_id),
        shared(client.host),
        shared(request.rebalance_timeout_ms),
        shared(request.session_timeout_ms),
        join.protocols,
    )
    member.is_new = True
    if not group.members:
        group.protocol_type = request.protocol_type
    used_id = group.pending.get(member.member_id)
    if used_id is not None:
        step.state.deadlines.cancel(used_id)
    group.newcomer = group.newcomer or group.state == PREPARING
    group.add(member)
    park_join(step, group, member, join.command.respond)
    step.state.deadlines.set(member, step.now.mono_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
    step.event(
        events.MEMBER_JOINED,
        group.group_id,
        member=history.of_member(member, step.now),
        protocol_type=group.protocol_type,
        reason=request.reason,
    )
    begin_or_complete(step, group, events.NEW_MEMBER, history.trigger(member, request.reason))


def _rejoin(step: Step, group: ClassicGroup, join: CheckedJoin) -> None:
    request = join.request
    member = group.members[request.member_id]
    # In the join phase members are asked to join, so this JoinGroup does not cause a rebalance.
    cause = "" if group.state == PREPARING else history.rejoin_cause(group, member, join.protocols, step.state.image)
    group.update(member, join.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
    _park(step, group, join, member, cause)


def _repeat(step: Step, group: ClassicGroup, join: CheckedJoin) -> None:
    # The answer was probably lost. A follower then needs no rebalance, and a leader needs none before it has assigned.
    member = group.members[join.request.member_id]
    full = group.state == COMPLETING and member.member_id == group.leader_id
    step.reply(join.command.respond, present(group, member, full=full))


def _replace(step: Step, group: ClassicGroup, join: CheckedJoin) -> None:
    member = _replace_member(step, group, join)
    _park(step, group, join, member, events.STATIC_MEMBER_BACK)


def _replace_in_place(step: Step, group: ClassicGroup, join: CheckedJoin) -> None:
    old_leader = group.leader_id or ""
    if _is_too_large(step, group, join, join.new_id):
        _refuse(step, join.command, join.request, ErrorCode.UNKNOWN_SERVER_ERROR, "")
        return
    member = _replace_member(step, group, join)
    if group.vote() == group.protocol_name:
        _answer_in_place(step, group, join.command, member, old_leader)
    else:
        _park(step, group, join, member, events.STATIC_MEMBER_BACK)


def _park(step: Step, group: ClassicGroup, join: CheckedJoin, member: Member, cause: str) -> None:
    park_join(step, group, member, join.command.respond)
    begin_or_complete(step, group, cause, history.trigger(member, join.request.reason))


def _refuse(step: Step, command: JoinCommand, request: JoinGroupRequest, error: int, member_id: str) -> None:
    step.reply(command.respond, join_refusal(member_id, error))
    step.refused(command, request.group_id, error, request.member_id, request.group_instance_id)


_ACTIONS: Final = {
    HAND_OUT_ID: _hand_out_id,
    ADD: _add,
    REPLACE: _replace,
    REPLACE_IN_PLACE: _replace_in_place,
    REJOIN: _rejoin,
    REPEAT: _repeat,
}
_REFUSALS: Final = {
    REFUSE_UNKNOWN: ErrorCode.UNKNOWN_MEMBER_ID,
    REFUSE_FENCED: ErrorCode.FENCED_INSTANCE_ID,
    # The id was handed out to a client without an instance id. Kafka answers with an internal error, and names no
    # member id.
    FAIL: ErrorCode.UNKNOWN_SERVER_ERROR,
}
