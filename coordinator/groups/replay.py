"""What each record of the offsets topic does to the state: one row for each type of record."""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import Final

from muster.coordinator.groups import foreign
from muster.coordinator.groups.classic import records as classic_records
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.common.state import Replay, State
from muster.protocol.message import Message
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey
from muster.protocol.messages.group_records.legacy_offset_commit import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue


def _offset(state: State, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
    if value is None:
        state.offsets.discard(key.group, key.topic, key.partition)
        return
    state.offsets.put(key.group, key.topic, key.partition, value)
    if key.group not in state.groups:  # a simple group: it has offsets and no record of its own
        group_id = intern(key.group)
        state.groups[group_id] = ClassicGroup(group_id, value.commit_timestamp)


def _legacy_offset(state: State, key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None) -> None:
    modern = None if value is None else OffsetCommitValue(value.offset, -1, value.metadata, value.commit_timestamp)
    _offset(state, OffsetCommitKey(key.group, key.topic, key.partition), modern)


RECORDS: Final[Mapping[type[Message], Replay]] = {
    OffsetCommitKey: _offset,
    LegacyOffsetCommitKey: _legacy_offset,
    GroupMetadataKey: classic_records.replay,
}
"""By the type of the key."""
OTHERS: Final = foreign.replay
"""Records of all other types: those of groups that are only kept."""
