"""Records of committed offsets as Kafka 4.3 writes them to `__consumer_offsets`, tombstones, and records as bytes."""

from __future__ import annotations

from typing import Final

from muster.coordinator.groups.common.group import Group
from muster.coordinator.state_machine import record_bytes
from muster.coordinator.state_machine.interface import Record
from muster.protocol.message import ZERO_UUID, Message
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.records import OFFSETS

_OFFSET_VERSION: Final = 4
_EXPIRING_OFFSET_VERSION: Final = 1
"""The only version with an expire timestamp."""


class PackedRecord(Record):
    """A record with known bytes, for code that decided on it and had all that it needs. `row`: the result of `pack`."""

    row: bytes


def pack(record: Record) -> bytes:
    """A record of `__consumer_offsets` as its bytes in a batch, see `record_bytes.pack`."""
    if type(record) is PackedRecord:
        return record.row
    return record_bytes.pack(OFFSETS, record)


def tombstone(key: Message) -> Record:
    """The record of this key is deleted."""
    return Record(key, None, 0)


def tombstones(group: Group) -> list[Record]:
    """The tombstones that delete a group. The tombstones of its offsets are not included."""
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
    """One committed offset.

    With an expire timestamp (not -1; OffsetCommit v2-4) it is written in version 1. That version has neither leader
    epoch nor topic id.
    """
    key = OffsetCommitKey(group_id, topic, partition)
    if expire_timestamp_ms == -1:
        value = OffsetCommitValue(offset, leader_epoch, metadata, commit_timestamp_ms, -1, topic_id)
        return Record(key, value, _OFFSET_VERSION)
    value = OffsetCommitValue(offset, -1, metadata, commit_timestamp_ms, expire_timestamp_ms, ZERO_UUID)
    return Record(key, value, _EXPIRING_OFFSET_VERSION)


def offset_tombstone(group_id: str, topic: str, partition: int) -> Record:
    """The offset is deleted or has expired, or its topic was deleted."""
    return Record(OffsetCommitKey(group_id, topic, partition), None, 0)
