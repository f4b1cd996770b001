"""Commits that a member sends again and again, the offsets alone being others. The same rules as in `commit`, the same
records and the same state come of them, with all made ready that does not change.

Whatever is out of the ordinary (a group that is not there, an error) is left to `commit`: nothing is changed then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from sys import intern
from typing import Final

from muster.coordinator.core.interface import Now
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.common import records
from muster.coordinator.groups.common.batch_size import A_RECORD, HEADER
from muster.coordinator.groups.common.committed_offsets import pack_offset
from muster.coordinator.groups.common.shared_values import SharedValues
from muster.coordinator.groups.common.state import State
from muster.coordinator.groups.offsets.commit import WITH_SESSIONS, id_of, is_longer, same_for_all
from muster.protocol.messages.offset_commit import OffsetCommitRequest
from muster.protocol.wire import uv

_OFFSET_AT: Final = 2
_METADATA_AT: Final = 14
_TIME_SIZE: Final = 8
"""A value of version 4: version, offset and leader epoch, metadata behind its length, commit timestamp, tags."""
SMALL: Final = 1_024
"""What is not larger is not held against `max.message.bytes` again, which may have been changed since."""
_packs: dict[str, Callable[..., bytes]] = {}
"""Rows of one layout share theirs."""
_KEPT: Final = 1_000


Row = tuple[str, int, Callable[..., bytes], bytes, bytes, bytes, bytes, bytes]
"""One partition of such a commit: topic, partition, `pack`, `before`, `between`, `after`, topic id, metadata.

`pack` of `before`, offset, leader epoch, `between`, commit timestamp, `after` is the record as it stands in a batch.
"""


class CommitTemplate:
    """A commit made ready, for any core whose image of the topics it was made with.

    `response`: the answer when all is well; not to be changed. `size`: bytes of all its records.
    """

    __slots__ = ("epoch", "group_id", "instance_id", "member_id", "response", "rows", "size")

    def __init__(
        self, group_id: str, member_id: str, request: OffsetCommitRequest, rows: Sequence[Row], size: int
    ) -> None:
        """`group_id` and `member_id` are those of the request."""
        self.group_id = group_id
        self.member_id = member_id
        self.instance_id = request.group_instance_id
        self.epoch = request.generation_id_or_member_epoch
        self.rows = tuple(rows)
        self.size = size
        self.response = same_for_all(request, 0)


def prepare(state: State, request: OffsetCommitRequest) -> CommitTemplate | None:
    """Make a request ready whose topics exist. None when `commit` has more to do than write it down:
    its offsets expire by themselves, its metadata is too long, or all of it is too large.
    """
    if request.retention_time_ms != -1:
        return None
    # names as they are known by: the same objects, which are not compared letter by letter
    group_id = intern(request.group_id)
    group = state.classic(group_id)
    member = group.members.get(request.member_id) if group is not None else None
    member_id = request.member_id if member is None else member.member_id
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
    if HEADER + size + len(rows) * A_RECORD > state.most_bytes():
        return None
    return CommitTemplate(group_id, member_id, request, rows, size)


def _row(
    shared: SharedValues, group_id: str, topic: str, partition: int, metadata: str, topic_id: bytes
) -> tuple[Row, int]:
    key, value = records.to_bytes(records.offset_commit(group_id, topic, partition, 0, 0, metadata, 0, -1, topic_id))
    assert value is not None
    packed = records.pack_pair(key, value)
    kept = metadata.encode("utf-8", "surrogatepass")
    value_at = len(packed) - 1 - len(value)  # no headers stand behind it
    at, time_at = value_at + _OFFSET_AT, value_at + _METADATA_AT + len(uv(len(kept) + 1)) + len(kept)
    before, between = packed[:at], packed[value_at + _METADATA_AT : time_at]
    after = shared.of(packed[time_at + _TIME_SIZE :])  # no more than the topic's id
    code = f">{len(before)}sqi{len(between)}sq{len(after)}s"
    pack = _packs.get(code)
    if pack is None:
        if len(_packs) >= _KEPT:
            _packs.clear()
        pack = _packs[code] = Struct(code).pack
    return (topic, partition, pack, before, between, after, topic_id, kept), len(packed)


def commit(
    state: State, again: CommitTemplate, offsets: Sequence[int], leader_epochs: Sequence[int], now: Now
) -> list[bytes] | None:
    """Commit these offsets, one for each row: the records as they stand in a batch, part of the state already.

    None: nothing was done, the request is to be handled as any other.
    """
    group_id = again.group_id
    group = state.groups.get(group_id)
    if again.size > SMALL and HEADER + again.size + len(again.rows) * A_RECORD > state.most_bytes():
        return None
    if group is None or group.validate_commit(again.member_id, again.instance_id, again.epoch):
        return None
    if group.state in WITH_SESSIONS and type(group) is ClassicGroup:
        member = group.members[again.member_id]
        state.deadlines.set(member, now.mono_ms + member.session_timeout_ms)
    wall_ms = now.wall_ms
    put = state.offsets.put_packed
    out: list[bytes] = []
    for topic, partition, pack, before, between, after, topic_id, metadata in again.rows:
        # this is a third of what `zip` costs for the one row that most commits have
        offset, leader_epoch = offsets[len(out)], leader_epochs[len(out)]
        put(group_id, topic, partition, pack_offset(offset, leader_epoch, wall_ms, -1, topic_id) + metadata)
        out.append(pack(before, offset, leader_epoch, between, wall_ms, after))
    return out
