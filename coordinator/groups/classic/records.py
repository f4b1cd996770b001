"""The record of a classic group as Kafka 4.4 writes it to `__consumer_offsets`, and its replay."""

from __future__ import annotations

from sys import intern
from typing import Final

from muster.coordinator.groups.classic.group import CONVERTED, EMPTY, REMOVED, ClassicGroup, classic_group
from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.common.state import SharedValues, State
from muster.coordinator.state_machine.interface import Record
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata

_VERSION: Final = 3
A_MEMBER: Final = 16
"""What `texts` counts for the other fields of a member. `is_too_large` takes each as four bytes, so 64 bytes in all."""


def new_group(group_id: str, wall_ms: int) -> Record:
    """The first record of a group, which is written before the first JoinGroup is checked."""
    value = GroupMetadataValue("", 0, None, None, wall_ms, [])
    return Record(GroupMetadataKey(group_id), value, _VERSION)


def group_metadata(group: ClassicGroup, assignments: dict[str, bytes] | None = None) -> Record:
    """The record of a group, with new `assignments` by member id (b"" by default). None: the present assignments."""
    members = [
        MemberMetadata(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.metadata(group.protocol_name),
            member.assignment if assignments is None else assignments.get(member.member_id, b""),
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        group.protocol_type or "", group.generation, group.protocol_name, group.leader_id, group.state_since_ms, members
    )
    return Record(GroupMetadataKey(group.group_id), value, _VERSION)


def texts(group: ClassicGroup) -> int:
    """For `is_too_large`: an upper bound for the characters and bytes in a group's record, without assignments."""
    name = group.protocol_name
    head = (group.group_id, group.leader_id or "", group.protocol_type or "", name or "")
    return sum(map(len, head)) + sum(
        len(one.member_id) + len(one.client_id) + len(one.client_host) + len(one.instance_id or "") + A_MEMBER
        + len(one.metadata(name))
        for one in group.members.values()
    )  # fmt: skip


def least_bytes(record: Record) -> int:
    """For `is_too_large`: a lower bound for the bytes of a group's record."""
    assert isinstance(record.value, GroupMetadataValue)
    return sum([len(one.subscription) + len(one.assignment) for one in record.value.members])


# ---- replay


def replay(state: State, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
    """Replay a record, or a tombstone. A group of another type is replaced."""
    group = classic_group(state, key.group)
    if value is None:
        if group is not None:
            _remove(state, group)
        return
    if group is None:
        group_id = intern(key.group)  # the same string object as in `Offsets` and in cached requests
        state.groups[group_id] = group = ClassicGroup(group_id, value.current_state_timestamp)
    _restore(group, value, state.shared)


def _restore(group: ClassicGroup, value: GroupMetadataValue, shared: SharedValues) -> None:
    """Set all fields that a record has. The state of the group is not in the record."""
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    group.state_since_ms = value.current_state_timestamp
    if group.members:
        named = {one.member_id for one in value.members}
        for member_id in [member_id for member_id in group.members if member_id not in named]:
            group.remove(member_id)
    for one in value.members:
        # The record has only the metadata of the chosen protocol. A member that exists keeps its other protocols.
        timeout_ms = one.session_timeout if one.rebalance_timeout == -1 else one.rebalance_timeout
        member = group.members.get(one.member_id)
        chosen = (value.protocol or "", one.subscription)
        if member is None:
            group.add(
                Member(
                    group.group_id,
                    one.member_id,
                    one.group_instance_id,
                    shared.of(one.client_id),
                    shared.of(one.client_host),
                    shared.of(timeout_ms),
                    shared.of(one.session_timeout),
                    shared.one_protocol(*chosen),
                    one.assignment,
                )
            )
            continue
        kept = member.protocols if chosen in member.protocols else shared.one_protocol(*chosen)
        group.update(member, kept, timeout_ms, one.session_timeout)
        member.assignment = one.assignment
    group.leader_id = value.leader


def _remove(state: State, group: ClassicGroup) -> None:
    group.transition(REMOVED if group.state == EMPTY else CONVERTED, group.state_since_ms)
    del state.groups[group.group_id]
    for deadline in (group.join_deadline, group.sync_deadline, *group.pending.values()):
        state.deadlines.cancel(deadline)
    for member in group.members.values():
        state.deadlines.cancel(member)
