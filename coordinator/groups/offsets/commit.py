"""OffsetCommit to groups of all types. The group checks the member; then metadata and size are checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster.coordinator.groups.common import records
from muster.coordinator.groups.common.batch_size import is_too_large
from muster.coordinator.groups.common.group import NEWEST_COMMIT, Group
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.step import Step
from muster.coordinator.state_machine.interface import Client, Command, Record, Respond
from muster.protocol.errors import ErrorCode
from muster.protocol.message import ZERO_UUID, Message
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

A_RECORD: Final = 59
"""Bytes of the record of an offset, without the names of its group and topic and its metadata.

17 bytes are of the record and its key (KIP-98, OffsetCommitKey). 42 are of the value with a topic id (OffsetCommitValue
4).
"""
_LATEST_MS: Final = 2**63 - 1
"""The latest time that a record can have. Java's sum would overflow, and the offset would expire at once."""


def handle(step: Step, command: Command, request: OffsetCommitRequest) -> None:
    """Answer an OffsetCommit: a row for each partition, in their order.

    Its handler has refused unknown topics and partitions.
    """
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
                records.offset_commit(
                    group_id, name, partition, offset, leader_epoch, metadata, wall_ms, expires_ms, topic_id
                )
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
    """The least bytes of a topic's records in the log, approximately."""
    names = A_RECORD + len(group_id) + len(topic.name)
    return sum([names + len(one.committed_metadata or "") for one in topic.partitions])


def same_for_all(asked: OffsetCommitRequest | OffsetCommitResponse, error: int) -> OffsetCommitResponse:
    """OffsetCommit has no top-level error. Every partition gets the error, unless a response has
    another error already.
    """
    topics = [
        OffsetCommitResponseTopic(
            topic.name,
            topic.topic_id,
            [
                OffsetCommitResponsePartition(one.partition_index, getattr(one, "error_code", 0) or error)
                for one in topic.partitions
            ],
        )
        for topic in asked.topics
    ]
    return OffsetCommitResponse(0, topics)


class CommitCommand(Command):
    """An OffsetCommit with the version of its request: members of consumer groups may not use the older versions."""

    __slots__ = ("version",)

    def __init__(self, request: Message, respond: Respond, client: Client, version: int) -> None:
        super().__init__(request, respond, client)
        self.version = version


def _error_of(group: Group | None, command: Command, request: OffsetCommitRequest, image: TopicsImage) -> int:
    epoch = request.generation_id_or_member_epoch
    if group is None:
        # Without a generation: a consumer that assigns its partitions itself. Its first commit makes a simple group.
        return 0 if epoch < 0 else ErrorCode.GROUP_ID_NOT_FOUND
    version = command.version if isinstance(command, CommitCommand) else NEWEST_COMMIT

    def partitions() -> Iterator[tuple[bytes, int]]:
        for topic in request.topics:
            topic_id = id_of(image, topic)
            for one in topic.partitions:
                yield topic_id, one.partition_index

    return group.validate_commit(request.member_id, request.group_instance_id, epoch, version, partitions)


def id_of(image: TopicsImage, topic: OffsetCommitRequestTopic) -> bytes:
    """The id that is written: the id of the request, or else of the topic with this name."""
    if topic.topic_id != ZERO_UUID:
        return topic.topic_id
    known = image.by_name.get(topic.name)
    return ZERO_UUID if known is None else known.topic_id


def is_longer(text: str, units: int) -> bool:
    """Whether a text is longer than so many UTF-16 units, Java's characters: one or two for each of Python's."""
    length = len(text)
    return length * 2 > units and (length > units or len(text.encode("utf-16-le", "surrogatepass")) > units * 2)
