"""TxnOffsetCommit to groups of all types (KIP-98, KIP-447): offsets that count once their transaction is committed.

As on Kafka, the request does not renew the session of the member.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from muster.coordinator.groups.common import state
from muster.coordinator.groups.common.group import Group
from muster.coordinator.groups.common.state import Step, is_too_large
from muster.coordinator.groups.offsets.commit import OFFSET_RECORD_BYTES, is_longer, rows_with
from muster.coordinator.state_machine.interface import Command, Producer, Record
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

NO_EXPIRY: Final = -1
_NEWER_ERRORS: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.STALE_MEMBER_EPOCH)


@dataclass(slots=True, eq=False, repr=False)
class TxnCommitCommand(Command):
    """A TxnOffsetCommit."""

    append_error: int
    """The error code if the log would now refuse records of this producer (epoch, verification), else 0."""
    knows_newer_errors: bool = True
    """Whether the client knows GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-1319). Others get ILLEGAL_GENERATION."""


def handle(step: Step, command: TxnCommitCommand, request: TxnOffsetCommitRequest) -> None:
    """Answer a TxnOffsetCommit with a row for each partition. The API handler has refused unknown topics and
    partitions, and has added this group's offsets to the transaction.
    """
    group_id = request.group_id
    error = _error_of(step.state.groups.get(group_id), request)
    if error:
        if error in _NEWER_ERRORS and not command.knows_newer_errors:
            error = ErrorCode.ILLEGAL_GENERATION
        _refuse(step, command, request, error)
        return
    deletion = step.state.topic_deletion
    if deletion is not None and deletion.refuses(group_id, (topic.name for topic in request.topics)):
        _refuse(step, command, request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return
    max_metadata, wall_ms = step.state.settings.offset_metadata_max_bytes, step.now.wall_ms
    made: list[Record] = []
    topics: list[TxnOffsetCommitResponseTopic] = []
    texts = 0
    for topic in request.topics:
        name, topic_id = topic.name, topic.topic_id
        texts += len(topic.partitions) * (len(group_id) + len(name))
        rows: list[TxnOffsetCommitResponsePartition] = []
        for one in topic.partitions:
            partition, metadata = one.partition_index, one.committed_metadata or ""
            if is_longer(metadata, max_metadata):
                rows.append(TxnOffsetCommitResponsePartition(partition, ErrorCode.OFFSET_METADATA_TOO_LARGE))
                continue
            texts += len(metadata)
            offset, epoch = one.committed_offset, one.committed_leader_epoch
            made.append(
                state.offset_commit(group_id, name, partition, offset, epoch, metadata, wall_ms, NO_EXPIRY, topic_id)
            )
            rows.append(TxnOffsetCommitResponsePartition(partition, 0))
        topics.append(TxnOffsetCommitResponseTopic(name, topic_id, rows))
    if is_too_large(step, made, texts):
        _refuse(step, command, request, ErrorCode.UNKNOWN_SERVER_ERROR)
    elif made and command.append_error:
        _refuse(step, command, request, command.append_error)
    else:
        if made:
            step.record_in_transaction(made, Producer(request.producer_id, request.producer_epoch))
        step.reply(command.respond, TxnOffsetCommitResponse(0, topics))


def same_for_all(asked: TxnOffsetCommitRequest | TxnOffsetCommitResponse, error: int) -> TxnOffsetCommitResponse:
    """The answer with this error for every partition without another error."""
    topics = [
        TxnOffsetCommitResponseTopic(
            topic.name, topic.topic_id, rows_with(TxnOffsetCommitResponsePartition, topic, error)
        )
        for topic in asked.topics
    ]
    return TxnOffsetCommitResponse(0, topics)


def least_bytes(group_id: str, topic: TxnOffsetCommitRequestTopic) -> int:
    """An approximate lower bound for the bytes of one topic's records in the log."""
    names = OFFSET_RECORD_BYTES + len(group_id) + len(topic.name)
    return sum([names + len(one.committed_metadata or "") for one in topic.partitions])


def _refuse(step: Step, command: Command, request: TxnOffsetCommitRequest, error: int) -> None:
    step.reply(command.respond, same_for_all(request, error))
    step.refused(command, request.group_id, error, request.member_id, request.group_instance_id)


def _error_of(group: Group | None, request: TxnOffsetCommitRequest) -> int:
    epoch = request.generation_id_or_member_epoch
    if group is None:
        # The first commit without a generation creates a simple group.
        return 0 if epoch < 0 else ErrorCode.GROUP_ID_NOT_FOUND

    def partitions() -> Iterator[tuple[str, bytes, int]]:
        for topic in request.topics:
            for one in topic.partitions:
                yield topic.name, topic.topic_id, one.partition_index

    return group.validate_transactional_commit(request.member_id, request.group_instance_id, epoch, partitions)
