"""OffsetForLeaderEpoch: where a leader's epoch ended in a log; so clients notice that it was cut (KIP-101, KIP-320)."""

from __future__ import annotations

from muster.coordinator.api.context import TOPIC, Operation, RequestContext, Resource, authorize
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.slices import Job
from muster.coordinator.topics.errors import ApiError
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle_offset_for_leader_epoch(
    node: Node, context: RequestContext, request: OffsetForLeaderEpochRequest, respond: Respond
) -> None:
    """Answer each partition on its own."""
    node.run(context, respond, _answer_all(node, context, request))


def _answer_all(
    node: Node, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> Job[OffsetForLeaderEpochResponse]:
    topics = []
    for topic in request.topics:
        rows = []
        for row in topic.partitions:
            try:
                rows.append(_answer(node, context, topic.topic, row))
            except ApiError as refusal:
                rows.append(EpochEndOffset(refusal.error_code, row.partition))
            yield None
        yield None
        topics.append(OffsetForLeaderTopicResult(topic.topic, rows))
    return OffsetForLeaderEpochResponse(topics=topics)


def _answer(node: Node, context: RequestContext, name: str, row: OffsetForLeaderPartition) -> EpochEndOffset:
    """Raises `ApiError`."""
    topic = node.topics.by_name.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not authorize(context, Operation.DESCRIBE, Resource(TOPIC, name)):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    partition = topic.existing(row.partition)
    partition.check_leader_epoch(row.current_leader_epoch)
    epoch, end_offset = partition.epoch_end_offset(row.leader_epoch)
    return EpochEndOffset(0, row.partition, epoch, end_offset)
