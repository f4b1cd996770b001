"""Commits that a member repeats with other offsets. Their records are made in advance, except for offsets and times.

`commit` and `commit.handle` give the same records, state and answer (test_commit_template, test_properties). They are
not one function because this one avoids the cost of making and encoding messages. Unusual cases are left to
`commit.handle`: no such group, an error, a batch that might be too large. Nothing has changed then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from sys import intern
from typing import Final

from muster.coordinator.groups.common import records
from muster.coordinator.groups.common.batch_size import A_RECORD, HEADER
from muster.coordinator.groups.common.committed_offsets import pack_offset
from muster.coordinator.groups.common.group import MEMBER_EPOCHS_SINCE, NEWEST_COMMIT
from muster.coordinator.groups.common.shared_values import SharedValues
from muster.coordinator.groups.common.state import State
from muster.coordinator.groups.offsets.commit import id_of, is_longer, same_for_all
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.state_machine.record_bytes import pack_pair, to_bytes
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.offset_commit import OffsetCommitRequest
from muster.protocol.records import OFFSETS
from muster.protocol.wire import uv

_OFFSET_AT: Final = 2
_METADATA_AT: Final = 14
_TIME_SIZE: Final = 8
"""A value of version 4: version, offset and leader epoch, metadata after its length, commit timestamp, tags."""


Row = tuple[str, int, Callable[..., bytes], bytes, bytes, bytes, bytes, bytes]
"""One partition of such a commit: topic, partition, `pack`, `before`, `between`, `after`, topic id, metadata in UTF-8.

`pack` of `before`, offset, leader epoch, `between`, commit timestamp, `after` is the record as its bytes in a batch.
"""


class CommitTemplate:
    """The records of a commit without offsets and times, for a core with the same image of the topics.

    `response`: the answer when all is well; not to be changed. `size`: bytes of all its records. `most_size`: bytes of
    their batch, or more.
    """

    __slots__ = ("epoch", "group_id", "instance_id", "member_id", "most_size", "response", "rows", "size")

    def __init__(self, group_id: str, request: OffsetCommitRequest, rows: Sequence[Row], size: int) -> None:
        self.group_id = group_id
        self.member_id = request.member_id
        self.instance_id = request.group_instance_id
        self.epoch = request.generation_id_or_member_epoch
        self.rows = tuple(rows)
        self.size = size
        self.most_size = HEADER + size + len(rows) * A_RECORD
        self.response = same_for_all(request, 0)


def prepare(
    state: State, request: OffsetCommitRequest, most_bytes: int, version: int = NEWEST_COMMIT
) -> CommitTemplate | None:
    """The template of a request whose topics exist. None for a request that only `commit.handle` can answer.

    Its offsets have an expiry of their own, its metadata is too long, or it may be too large.
    """
    if request.retention_time_ms != -1 or _is_refused(state, request, version):
        return None
    # Interned, as in the state: equal strings are the same objects, whose comparison is fast.
    group_id = intern(request.group_id)
    rows: list[Row] = []
    size = 0
    for topic in request.topics:
        name, topic_id = intern(topic.name), id_of(state.image, topic)
        for one in topic.partitions:
            metadata = one.committed_metadata or ""
            if is_longer(metadata, state.settings.offset_metadata_max_bytes):
                return None
            row, packed = _row(state.shared, group_id, name, one.partition_index, metadata, topic_id)
            rows.append(row)
            size += packed
    template = CommitTemplate(group_id, request, rows, size)
    return template if template.most_size <= most_bytes else None


def _is_refused(state: State, request: OffsetCommitRequest, version: int) -> bool:
    """Whether the member may not use this version: only the request has the version, not the template."""
    group = state.groups.get(request.group_id)
    if group is None or version >= MEMBER_EPOCHS_SINCE:
        return False
    epoch = request.generation_id_or_member_epoch
    error = group.validate_commit(request.member_id, request.group_instance_id, epoch, version)
    return error == ErrorCode.UNSUPPORTED_VERSION


def _row(
    shared: SharedValues, group_id: str, topic: str, partition: int, metadata: str, topic_id: bytes
) -> tuple[Row, int]:
    record = records.offset_commit(group_id, topic, partition, 0, 0, metadata, 0, -1, topic_id)
    key, value = to_bytes(OFFSETS, record)
    assert value is not None
    packed = pack_pair(key, value)
    kept = metadata.encode("utf-8", "surrogatepass")
    value_at = len(packed) - 1 - len(value)  # no headers follow
    at, time_at = value_at + _OFFSET_AT, value_at + _METADATA_AT + len(uv(len(kept) + 1)) + len(kept)
    before, between = packed[:at], packed[value_at + _METADATA_AT : time_at]
    after = shared.of(packed[time_at + _TIME_SIZE :])  # only the topic's id
    pack = _pack(f">{len(before)}sqi{len(between)}sq{len(after)}s")
    return (topic, partition, pack, before, between, after, topic_id, kept), len(packed)


@lru_cache(1_000)
def _pack(layout: str) -> Callable[..., bytes]:
    """The function that packs a layout. Rows of one layout share it."""
    return Struct(layout).pack


def commit(
    state: State,
    template: CommitTemplate,
    offsets: Sequence[int],
    leader_epochs: Sequence[int],
    now: Now,
    most_bytes: int,
) -> list[bytes] | None:
    """Commit these offsets, one for each row. Returns the records as their bytes in a batch, already in the state.

    Returns None when nothing was done. The request is then to be handled as any other.
    """
    group_id = template.group_id
    group = state.groups.get(group_id)
    if group is None or group.validate_commit(template.member_id, template.instance_id, template.epoch):
        return None
    if template.most_size > most_bytes:
        return None
    group.has_committed(template.member_id, state.deadlines, now.mono_ms)
    wall_ms = now.wall_ms
    put = state.offsets.put
    out: list[bytes] = []
    for row, (topic, partition, pack, before, between, after, topic_id, metadata) in enumerate(template.rows):
        offset, leader_epoch = offsets[row], leader_epochs[row]
        # As the replay of the record does it.
        put(group_id, topic, partition, pack_offset(offset, leader_epoch, wall_ms, -1, topic_id) + metadata)
        out.append(pack(before, offset, leader_epoch, between, wall_ms, after))
    return out
