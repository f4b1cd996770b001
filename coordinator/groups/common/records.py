"""Records of `__consumer_offsets`: committed offsets as Kafka 4.3 writes them, tombstones, and the size of a batch.

The records of a command are one batch of at most `max.message.bytes` of `__consumer_offsets`. A request for more is
refused, before anything has changed. Records that no request asks for are not limited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.coordinator.groups.common.group import Group
from muster.coordinator.groups.common.state import Step
from muster.coordinator.state_machine import interface
from muster.coordinator.state_machine.interface import HEADER, Record
from muster.protocol.message import ZERO_UUID, Message
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.records import OFFSETS
from muster.protocol.wire import uv

_OFFSET_VERSION: Final = 4
_EXPIRING_OFFSET_VERSION: Final = 1
"""The only version with an expire timestamp."""


class PackedRecord(Record):
    """A record with known bytes, for code that decided on it and had all that it needs. `row`: the result of `pack`."""

    row: bytes


def pack(record: Record) -> bytes:
    """A record of `__consumer_offsets` as its bytes in a batch, see `interface.pack_record`."""
    if type(record) is PackedRecord:
        return record.row
    return interface.pack_record(OFFSETS, record)


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
    """One committed offset. With an expire timestamp (OffsetCommit v2-4) it has no leader epoch and no topic id."""
    key = OffsetCommitKey(group_id, topic, partition)
    if expire_timestamp_ms == -1:
        value = OffsetCommitValue(offset, leader_epoch, metadata, commit_timestamp_ms, -1, topic_id)
        return Record(key, value, _OFFSET_VERSION)
    value = OffsetCommitValue(offset, -1, metadata, commit_timestamp_ms, expire_timestamp_ms, ZERO_UUID)
    return Record(key, value, _EXPIRING_OFFSET_VERSION)


def offset_tombstone(group_id: str, topic: str, partition: int) -> Record:
    """The offset is deleted or has expired, or its topic was deleted."""
    return Record(OffsetCommitKey(group_id, topic, partition), None, 0)


RECORD_BYTES: Final = 120
"""More bytes than a record of the core has, without its names, its metadata and its assignments."""


def is_too_large(
    step: Step, records: Sequence[Record], texts: int, made: Sequence[Record] = (), times: int = 1
) -> bool:
    """Whether these records of one command, and `made` times `times`, are more than may be written.

    `texts`: at least the number of characters and bytes in `records`, or in `made` if given. The exact size is computed
    only near the limit.
    """
    most, count = step.max_bytes, len(records) + times * len(made)
    if HEADER + count * RECORD_BYTES + 4 * times * texts <= most:
        return False
    # A record that is repeated is packed once.
    return size_of([*map(pack, records), *[pack(one) for one in made] * times]) > most


def size_of(rows: Sequence[bytes]) -> int:
    """Bytes of a batch with these records. Each row is the result of `records.pack`."""
    size = HEADER
    for number, row in enumerate(rows):
        body = len(row) + 2 + len(uv(2 * number))
        size += len(uv(2 * body)) + body
    return size
