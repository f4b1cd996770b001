"""OffsetCommit to groups of all types. The group checks the member; then metadata and size are checked.

The commits of a member differ only in offsets and times. So the other parts of the records are made once.
`commit_prepared` and `handle` give the same records, state and answer (test_commit_template, test_properties). There
are two functions because `commit_prepared` makes and encodes no messages. `handle` answers unusual requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from sys import intern
from typing import Any, Final, TypeVar

from muster.coordinator.groups.common.committed_offsets import pack_offset
from muster.coordinator.groups.common.group import MEMBER_EPOCHS_SINCE, NEWEST_COMMIT, Group
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.state import RECORD_BYTES, SharedValues, State, Step, is_too_large, offset_commit
from muster.coordinator.state_machine.interface import HEADER, NO_LIMIT, Command, Now, Record
from muster.protocol.errors import ErrorCode
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from muster.protocol.records import OFFSETS, encode_record, pack_key_value
from muster.protocol.wire import uv

Row = TypeVar("Row")
OFFSET_RECORD_BYTES: Final = 59
"""The bytes of an offset's record, without group id, topic name and metadata. The record and its key take 17 bytes, the
value with a topic id (OffsetCommitValue 4) takes 42.
"""
_LATEST_MS: Final = 2**63 - 1
"""The latest time in a record. In Java a later sum overflows, and the offset expires at once."""


def handle(step: Step, command: Command, request: OffsetCommitRequest) -> None:
    """Answer an OffsetCommit with a row per partition. The API handler has refused unknown topics and partitions."""
    state, group_id = step.state, request.group_id
    group = state.groups.get(group_id)
    error = _error_of(group, command, request, state.image)
    if error:
        _refuse(step, command, request, error)
        return
    if group is not None:
        group.has_committed(request.member_id, state.deadlines, step.now.mono_ms)
    retention_ms = request.retention_time_ms
    expires_ms = -1 if retention_ms == -1 else min(step.now.wall_ms + retention_ms, _LATEST_MS)
    max_metadata, wall_ms = state.settings.offset_metadata_max_bytes, step.now.wall_ms
    made: list[Record] = []
    topics: list[OffsetCommitResponseTopic] = []
    texts = 0
    for topic in request.topics:
        name, topic_id = topic.name, id_of(state.image, topic)
        texts += len(topic.partitions) * (len(group_id) + len(name))
        rows: list[OffsetCommitResponsePartition] = []
        for one in topic.partitions:
            partition, metadata = one.partition_index, one.committed_metadata or ""
            if metadata:
                if is_longer(metadata, max_metadata):
                    rows.append(OffsetCommitResponsePartition(partition, ErrorCode.OFFSET_METADATA_TOO_LARGE))
                    continue
                texts += len(metadata)
            offset, leader_epoch = one.committed_offset, one.committed_leader_epoch
            made.append(
                offset_commit(group_id, name, partition, offset, leader_epoch, metadata, wall_ms, expires_ms, topic_id)
            )
            rows.append(OffsetCommitResponsePartition(partition, 0))
        topics.append(OffsetCommitResponseTopic(name, topic.topic_id, rows))
    if is_too_large(step, made, texts):
        _refuse(step, command, request, ErrorCode.UNKNOWN_SERVER_ERROR)
        return
    step.record_all(made)
    step.reply(command.respond, OffsetCommitResponse(0, topics))


def _refuse(step: Step, command: Command, request: OffsetCommitRequest, error: int) -> None:
    step.reply(command.respond, same_for_all(request, error))
    step.refused(command, request.group_id, error, request.member_id, request.group_instance_id)


def least_bytes(group_id: str, topic: OffsetCommitRequestTopic) -> int:
    """An approximate lower bound for the bytes of one topic's records in the log."""
    names = OFFSET_RECORD_BYTES + len(group_id) + len(topic.name)
    return sum([names + len(one.committed_metadata or "") for one in topic.partitions])


def same_for_all(asked: OffsetCommitRequest | OffsetCommitResponse, error: int) -> OffsetCommitResponse:
    """The answer with this error for every partition without another error. The response has no top-level error."""
    topics = [
        OffsetCommitResponseTopic(topic.name, topic.topic_id, rows_with(OffsetCommitResponsePartition, topic, error))
        for topic in asked.topics
    ]
    return OffsetCommitResponse(0, topics)


def rows_with(make: Callable[[int, int], Row], topic: Any, error: int) -> list[Row]:
    """A row for each partition of a topic. Rows without an error get `error`."""
    return [make(one.partition_index, getattr(one, "error_code", 0) or error) for one in topic.partitions]


@dataclass(slots=True, eq=False, repr=False)
class CommitCommand(Command):
    """An OffsetCommit with the request's version, because members of consumer groups may not use older versions."""

    version: int


def _error_of(group: Group | None, command: Command, request: OffsetCommitRequest, image: TopicsImage) -> int:
    epoch = request.generation_id_or_member_epoch
    if group is None:
        # A commit without generation is from a consumer that assigns its partitions itself. The first such commit
        # creates a simple group.
        return 0 if epoch < 0 else ErrorCode.GROUP_ID_NOT_FOUND
    version = command.version if isinstance(command, CommitCommand) else NEWEST_COMMIT

    def partitions() -> Iterator[tuple[str, bytes, int]]:
        for topic in request.topics:
            topic_id = id_of(image, topic)
            for one in topic.partitions:
                yield topic.name, topic_id, one.partition_index

    return group.validate_commit(request.member_id, request.group_instance_id, epoch, version, partitions)


def id_of(image: TopicsImage, topic: OffsetCommitRequestTopic) -> bytes:
    """The topic id for the record: the request's, or else the id of the topic with this name."""
    if topic.topic_id != ZERO_UUID:
        return topic.topic_id
    known = image.by_name.get(topic.name)
    return ZERO_UUID if known is None else known.topic_id


def is_longer(text: str, units: int) -> bool:
    """Whether a text is longer than `units` UTF-16 units. A character of Python has one or two units."""
    length = len(text)
    return length * 2 > units and (length > units or len(text.encode("utf-16-le", "surrogatepass")) > units * 2)


_OFFSET_AT: Final = 2
_METADATA_AT: Final = 14
_TIME_SIZE: Final = 8
"""These places are in a value of version 4: version, offset, leader epoch, metadata with length, commit time, tags."""


TemplateRow = tuple[str, int, Callable[..., bytes], bytes, bytes, bytes, bytes, bytes]
"""One partition of a template: topic, partition, `pack`, `before`, `between`, `after`, topic id, metadata in UTF-8.
`pack(before, offset, leader epoch, between, commit timestamp, after)` makes the bytes of the record in a batch.
"""


class CommitTemplate:
    """The records of a commit without offsets and times, valid while the image of the topics is the same. `response`:
    the answer without errors; never change it. `most_size`: an upper bound for the bytes of the records' batch.
    """

    __slots__ = ("epoch", "group_id", "instance_id", "member_id", "most_size", "response", "rows", "size")

    def __init__(self, group_id: str, request: OffsetCommitRequest, rows: Sequence[TemplateRow], size: int) -> None:
        self.group_id = group_id
        self.member_id = request.member_id
        self.instance_id = request.group_instance_id
        self.epoch = request.generation_id_or_member_epoch
        self.rows = tuple(rows)
        self.size = size
        self.most_size = HEADER + size + len(rows) * RECORD_BYTES
        self.response = same_for_all(request, 0)


def prepare_commit(
    state: State, request: OffsetCommitRequest, max_bytes: int = NO_LIMIT, version: int = NEWEST_COMMIT
) -> CommitTemplate | None:
    """The template of a request whose topics exist. None when only `handle` can answer: for a refused member, retention
    times, too long metadata, or a too large batch.
    """
    if request.retention_time_ms != -1 or _is_refused(state, request, version):
        return None
    # The strings are the same objects as in the state, which makes comparisons fast.
    group_id = intern(request.group_id)
    rows: list[TemplateRow] = []
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
    return template if template.most_size <= max_bytes else None


def _is_refused(state: State, request: OffsetCommitRequest, version: int) -> bool:
    """Whether the member may not use this version of the request."""
    group = state.groups.get(request.group_id)
    if group is None or version >= MEMBER_EPOCHS_SINCE:
        return False
    epoch = request.generation_id_or_member_epoch
    error = group.validate_commit(request.member_id, request.group_instance_id, epoch, version)
    return error == ErrorCode.UNSUPPORTED_VERSION


def _row(
    shared: SharedValues, group_id: str, topic: str, partition: int, metadata: str, topic_id: bytes
) -> tuple[TemplateRow, int]:
    record = offset_commit(group_id, topic, partition, 0, 0, metadata, 0, -1, topic_id)
    key, value = encode_record(OFFSETS, record)
    assert value is not None
    packed = pack_key_value(key, value)
    kept = metadata.encode("utf-8", "surrogatepass")
    value_at = len(packed) - 1 - len(value)  # no headers follow
    at, time_at = value_at + _OFFSET_AT, value_at + _METADATA_AT + len(uv(len(kept) + 1)) + len(kept)
    before, between = packed[:at], packed[value_at + _METADATA_AT : time_at]
    after = shared.of(packed[time_at + _TIME_SIZE :])  # this part has only the topic id
    pack = _pack(f">{len(before)}sqi{len(between)}sq{len(after)}s")
    return (topic, partition, pack, before, between, after, topic_id, kept), len(packed)


@lru_cache(1_000)
def _pack(layout: str) -> Callable[..., bytes]:
    """The function that packs a layout. Rows of the same layout share the function."""
    return Struct(layout).pack


def commit_prepared(
    state: State,
    template: CommitTemplate,
    offsets: Sequence[int],
    leader_epochs: Sequence[int],
    now: Now,
    max_bytes: int = NO_LIMIT,
) -> list[bytes] | None:
    """Commit these offsets, one for each row. Returns the bytes of the records, which are applied to the state already.
    None if `handle` must answer the request, and no state was changed.
    """
    group_id = template.group_id
    group = state.groups.get(group_id)
    if group is None or group.validate_commit(template.member_id, template.instance_id, template.epoch):
        return None
    if template.most_size > max_bytes:
        return None
    group.has_committed(template.member_id, state.deadlines, now.mono_ms)
    wall_ms = now.wall_ms
    put = state.offsets.put
    out: list[bytes] = []
    for row, (topic, partition, pack, before, between, after, topic_id, metadata) in enumerate(template.rows):
        offset, leader_epoch = offsets[row], leader_epochs[row]
        # This method has the same effect on the state as the replay of the record.
        put(group_id, topic, partition, pack_offset(offset, leader_epoch, wall_ms, -1, topic_id) + metadata)
        out.append(pack(before, offset, leader_epoch, between, wall_ms, after))
    return out
