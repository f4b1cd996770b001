"""The core's records, each exactly as Kafka 4.3 writes it to `__consumer_offsets`, and their way to bytes."""

from __future__ import annotations

from typing import Final

from muster.coordinator.core.interface import Record
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.common.group import Group
from muster.protocol.message import ZERO_UUID, Message
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.records import OFFSETS
from muster.protocol.wire import uv

_GROUP_METADATA_VERSION: Final = 3
_OFFSET_VERSION: Final = 4
_EXPIRING_OFFSET_VERSION: Final = 1
"""The only version that has an expire timestamp; it has neither leader epoch nor topic id."""

A_MEMBER: Final = 16
"""A quarter of the bytes that a member has besides its names, its metadata and its assignment."""
_tuple = tuple.__new__
"""`_tuple(Record, (…))` is what `Record(…)` does, without the call of its own: one for each offset committed."""


def to_bytes(record: Record) -> tuple[bytes, bytes | None]:
    """A record's key and value as they stand in the log; a tombstone's value is None."""
    key = OFFSETS.encode_key(record.key)
    return key, None if record.value is None else OFFSETS.encode_value(record.value, record.value_version)


def pack(record: Record) -> bytes:
    """A record as it stands in a batch, from the length of its key on: key, value, no headers."""
    return pack_pair(*to_bytes(record))


def pack_pair(key: bytes, value: bytes | None) -> bytes:
    """`pack` of a record whose key and value are bytes already."""
    # lengths are zigzag varints
    if value is None:
        return b"".join((uv(2 * len(key)), key, b"\x01\0"))
    return b"".join((uv(2 * len(key)), key, uv(2 * len(value)), value, b"\0"))


def new_group(group_id: str, wall_ms: int) -> Record:
    """The first record of a group: Empty, of generation 0 and no type. Written before the first JoinGroup is looked
    at.
    """
    value = GroupMetadataValue("", 0, None, None, wall_ms, [])
    return Record(GroupMetadataKey(group_id), value, _GROUP_METADATA_VERSION)


def group_metadata(group: ClassicGroup, assignments: dict[str, bytes] | None = None) -> Record:
    """A group as it stands, with new `assignments` by member id (a member that is not named gets zero bytes) or its
    present ones.
    """
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
        group.protocol_type or "",
        group.generation,
        group.protocol_name,
        group.leader_id,
        group.state_since_ms,
        members,
    )
    return Record(GroupMetadataKey(group.group_id), value, _GROUP_METADATA_VERSION)


def texts(group: ClassicGroup) -> int:
    """Characters and bytes that are in a group's record, or more; without assignments. A member counts with all that it
    may have besides.
    """
    name = group.protocol_name
    head = (group.group_id, group.leader_id or "", group.protocol_type or "", name or "")
    return sum(map(len, head)) + sum(
        len(one.member_id) + len(one.client_id) + len(one.client_host) + len(one.instance_id or "") + A_MEMBER
        + len(one.metadata(name))
        for one in group.members.values()
    )  # fmt: skip


def tombstone(key: Message) -> Record:
    """The record of this key is no more."""
    return Record(key, None, 0)


def tombstones(group: Group) -> list[Record]:
    """The group is no more; of its offsets this says nothing."""
    return [tombstone(key) for key in group.record_keys()]


def offset_commit(
    group_id: str,
    topic: str,
    partition: int,
    offset: int,
    leader_epoch: int,
    metadata: str,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int,
    topic_id: bytes,
) -> Record:
    """One committed offset. With an expire timestamp (not -1; OffsetCommit v2-4) it is written in version 1, without
    what that lacks.
    """
    key = OffsetCommitKey(group_id, topic, partition)
    if expire_timestamp_ms == -1:
        value = OffsetCommitValue(offset, leader_epoch, metadata, commit_timestamp_ms, -1, topic_id)
        return _tuple(Record, (key, value, _OFFSET_VERSION))
    value = OffsetCommitValue(offset, -1, metadata, commit_timestamp_ms, expire_timestamp_ms, ZERO_UUID)
    return Record(key, value, _EXPIRING_OFFSET_VERSION)


def offset_tombstone(group_id: str, topic: str, partition: int) -> Record:
    """The offset is no more: deleted, expired, or its topic deleted."""
    return Record(OffsetCommitKey(group_id, topic, partition), None, 0)
