"""OffsetCommit to groups of all types: the group says whether the member may commit, then metadata and size count."""

from __future__ import annotations

from typing import Final

from muster.coordinator.core.interface import Command, Record
from muster.coordinator.groups.common import records
from muster.coordinator.groups.common.batch_size import is_too_large
from muster.coordinator.groups.common.group import Group
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.step import Step
from muster.protocol.errors import ErrorCode
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

A_RECORD: Final = 59
"""Bytes of the record of an offset, besides the names of its group and topic and its metadata: 17 of the record and its
key (KIP-98, OffsetCommitKey), 42 of the value with a topic id (OffsetCommitValue 4).
"""
_LATEST_MS: Final = 2**63 - 1
"""The last moment that a record can have; Java's sum would overflow, and the offset expire at once."""


def handle(step: Step, command: Command, request: OffsetCommitRequest) -> None:
    """Answer an OffsetCommit: a row for each partition, in their order. Its handler has refused unknown topics and
    partitions.
    """
    state, group_id = step.state, request.group_id
    group = state.groups.get(group_id)
    error = _error_of(group, request)
    if error:
        _refuse(step, command, request, error)
        return
    if group is not None:
        group.has_committed(request.member_id, state.deadlines, step.now.mono_ms)
    retention_ms = request.retention_time_ms
    expires_ms = -1 if retention_ms == -1 else min(step.now.wall_ms + retention_ms, _LATEST_MS)
    made: list[Record] = []
    topics = [
        _commit_topic(step, made, group_id, topic, id_of(state.image, topic), expires_ms) for topic in request.topics
    ]
    if is_too_large(step, made, _texts(request)):
        _refuse(step, command, request, ErrorCode.UNKNOWN_SERVER_ERROR)
        return
    for record in made:
        step.record(record)
    step.reply(command.respond, OffsetCommitResponse(0, topics))


def _refuse(step: Step, command: Command, request: OffsetCommitRequest, error: int) -> None:
    step.reply(command.respond, same_for_all(request, error))
    step.refused(command, request.group_id, error, request.member_id, request.group_instance_id)


def _texts(request: OffsetCommitRequest) -> int:
    names = len(request.group_id)
    return sum(
        len(topic.partitions) * (names + len(topic.name))
        + sum([len(one.committed_metadata) for one in topic.partitions if one.committed_metadata])
        for topic in request.topics
    )


def least_bytes(group_id: str, topic: OffsetCommitRequestTopic) -> int:
    """What the records of a topic take in the log at least, or nearly."""
    names = A_RECORD + len(group_id) + len(topic.name)
    return sum([names + len(one.committed_metadata or "") for one in topic.partitions])


def same_for_all(request: OffsetCommitRequest, error: int) -> OffsetCommitResponse:
    """OffsetCommit has no top-level error: every partition carries it, or 0."""
    topics = [
        OffsetCommitResponseTopic(
            topic.name,
            topic.topic_id,
            [OffsetCommitResponsePartition(one.partition_index, error) for one in topic.partitions],
        )
        for topic in request.topics
    ]
    return OffsetCommitResponse(0, topics)


def _error_of(group: Group | None, request: OffsetCommitRequest) -> int:
    epoch = request.generation_id_or_member_epoch
    if group is None:
        # without a generation: a consumer that assigns its partitions itself; its first commit makes a simple group
        return 0 if epoch < 0 else ErrorCode.GROUP_ID_NOT_FOUND
    return group.validate_commit(request.member_id, request.group_instance_id, epoch)


def id_of(image: TopicsImage, topic: OffsetCommitRequestTopic) -> bytes:
    """The id that is written: that of the request, or else of the topic of its name."""
    if topic.topic_id != ZERO_UUID:
        return topic.topic_id
    known = image.by_name.get(topic.name)
    return ZERO_UUID if known is None else known.topic_id


def _commit_topic(
    step: Step, made: list[Record], group_id: str, topic: OffsetCommitRequestTopic, topic_id: bytes, expires_ms: int
) -> OffsetCommitResponseTopic:
    max_metadata, wall_ms = step.state.settings.offset_metadata_max_bytes, step.now.wall_ms
    name = topic.name
    rows: list[OffsetCommitResponsePartition] = []
    for one in topic.partitions:
        partition, metadata = one.partition_index, one.committed_metadata or ""
        if len(metadata) * 2 > max_metadata and is_longer(metadata, max_metadata):
            rows.append(OffsetCommitResponsePartition(partition, ErrorCode.OFFSET_METADATA_TOO_LARGE))
            continue
        made.append(
            records.offset_commit(
                group_id,
                name,
                partition,
                one.committed_offset,
                one.committed_leader_epoch,
                metadata,
                wall_ms,
                expires_ms,
                topic_id,
            )
        )
        rows.append(OffsetCommitResponsePartition(partition, 0))
    return OffsetCommitResponseTopic(name, topic.topic_id, rows)


def is_longer(text: str, units: int) -> bool:
    """Longer than so many UTF-16 units, by which Java counts characters: one or two for each of Python's."""
    return len(text) > units or len(text.encode("utf-16-le", "surrogatepass")) > units * 2
