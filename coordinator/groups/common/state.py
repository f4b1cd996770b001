"""Everything one core remembers, and the function by which records change it: the same one live and in replay.
Decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from sys import intern
from typing import Any, Final

from muster.coordinator.core.deadlines import Deadlines, Due
from muster.coordinator.core.interface import Reply
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.classic.states import REMOVED
from muster.coordinator.groups.common.committed_offsets import Offsets
from muster.coordinator.groups.common.group import Group
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.common.shared_values import SharedValues
from muster.coordinator.groups.foreign import ForeignGroup, kind_of
from muster.protocol.message import Message
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from muster.protocol.messages.group_records.legacy_offset_commit import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
)
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue

MOST_BYTES: Final = 1024 * 1024 + 12
"""Kafka's default of `max.message.bytes`."""


class State:
    """The groups of one partition of the offsets topic, of all types in one map, their offsets and deadlines."""

    __slots__ = ("deadlines", "groups", "image", "most_bytes", "offsets", "orphans", "settings", "shared")

    def __init__(
        self, settings: GroupSettings, image: TopicsImage, most_bytes: Callable[[], int] = lambda: MOST_BYTES
    ) -> None:
        """`most_bytes`: what a batch of records may have at present (`batch_size` asks)."""
        self.settings = settings
        self.most_bytes = most_bytes
        self.image = image
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.deadlines = Deadlines()
        self.shared = SharedValues()
        self.orphans: dict[Due, Reply] = {}
        """Parked requests that nobody waits for, and when to answer them what; `parked_requests` tells their story."""

    def classic(self, group_id: str) -> ClassicGroup | None:
        """The classic group of that name; None when there is none."""
        group = self.groups.get(group_id)
        return group if type(group) is ClassicGroup else None

    def evolve(self, key: Message, value: Message | None) -> bool:
        """Take over one record. False when its type is none of ours (a later Kafka's, or a part not built)."""
        apply = _EVOLVE.get(type(key))
        if apply is None:
            return _foreign(self, key, value)
        apply(self, key, value)
        return True

    def evolve_all(self, records: Iterable[tuple[Message, Message | None]]) -> int:
        """`evolve` of one after the other, of millions: how many there were."""
        count = 0
        for key, value in records:
            apply = _EVOLVE.get(type(key))
            if apply is not None:
                apply(self, key, value)
            else:
                _foreign(self, key, value)
            count += 1
        return count


def _legacy_offset(state: State, key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None) -> None:
    modern = None if value is None else OffsetCommitValue(value.offset, -1, value.metadata, value.commit_timestamp)
    _offset(state, OffsetCommitKey(key.group, key.topic, key.partition), modern)


def _offset(state: State, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
    if value is None:
        state.offsets.discard(key.group, key.topic, key.partition)
        return
    state.offsets.put(key.group, key.topic, key.partition, value)
    if key.group not in state.groups:  # a simple group: it has offsets and no record of its own
        group_id = intern(key.group)
        state.groups[group_id] = ClassicGroup(group_id, value.commit_timestamp)


def _group(state: State, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
    group = state.classic(key.group)
    if value is None:
        if group is not None:
            _remove(state, group)
        return
    if group is None:  # or it was of another type before
        group_id = intern(key.group)  # the very object that `Offsets` knows it by, and requests that come again
        state.groups[group_id] = group = ClassicGroup(group_id, value.current_state_timestamp)
    _restore(group, value, state.shared)


def _foreign(state: State, key: Any, value: Message | None) -> bool:
    kind = kind_of(key)
    if kind is None:
        return False
    group = state.groups.get(key.group_id)
    if not isinstance(group, ForeignGroup) or group.kind != kind:
        if value is None:
            return True
        # a simple group may have been made for its offsets, which stand before it
        group_id = intern(key.group_id)
        state.groups[group_id] = group = ForeignGroup(group_id, kind)
    if not group.take(key, value):
        del state.groups[group.group_id]
    return True


def _restore(group: ClassicGroup, value: GroupMetadataValue, shared: SharedValues) -> None:
    """Take over everything that a record tells of a group: live after its own record, and in replay.

    The state is not in it: live the caller goes through the table, and a loaded group with members is Stable.
    """
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    group.state_since_ms = value.current_state_timestamp
    named = {one.member_id for one in value.members}
    for member_id in [member_id for member_id in group.members if member_id not in named]:
        group.remove(member_id)
    for one in value.members:
        # only the chosen protocol's metadata is in the record: a live member keeps the others it offers
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
                    shared.protocols((chosen,)),
                    one.assignment,
                )
            )
            continue
        kept = member.protocols if chosen in member.protocols else shared.protocols((chosen,))
        group.update(member, kept, timeout_ms, one.session_timeout)
        member.assignment = one.assignment
    group.leader_id = value.leader


def _remove(state: State, group: ClassicGroup) -> None:
    group.transition(REMOVED, group.state_since_ms)
    del state.groups[group.group_id]
    for deadline in (group.join_deadline, group.sync_deadline, *group.pending.values()):
        state.deadlines.cancel(deadline)
    for member in group.members.values():
        state.deadlines.cancel(member)


_EVOLVE: Final[dict[type[Message], Callable[[State, Any, Any], None]]] = {
    OffsetCommitKey: _offset,
    LegacyOffsetCommitKey: _legacy_offset,
    GroupMetadataKey: _group,
}
