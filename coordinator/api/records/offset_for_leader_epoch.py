"""OffsetForLeaderEpoch: the end of a leader epoch in a log. Clients learn from it that the log was truncated (KIP-101,
KIP-320).
"""

from __future__ import annotations

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.api.records.led_here import named_here
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.errors import ApiError
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


@in_steps
def handle_offset_for_leader_epoch(
    node: Node, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> Job[OffsetForLeaderEpochResponse]:
    """Answer each partition by itself. Topics that the client may not describe stand last, as on Kafka."""
    allows = node.authorizer.allows
    is_broker = allows(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    topics: list[OffsetForLeaderTopicResult] = []
    refused: list[OffsetForLeaderTopicResult] = []
    for topic in request.topics:
        is_allowed = is_broker or allows(context, Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        rows = []
        for row in topic.partitions:
            try:
                if not is_allowed:
                    raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                rows.append(_answer(node, topic.topic, row))
            except ApiError as refusal:
                rows.append(EpochEndOffset(refusal.error_code, row.partition))
            yield None
        yield None
        (topics if is_allowed else refused).append(OffsetForLeaderTopicResult(topic.topic, rows))
    return OffsetForLeaderEpochResponse(topics=topics + refused)


def _answer(node: Node, name: str, row: OffsetForLeaderPartition) -> EpochEndOffset:
    """The answer for one partition. Raises `ApiError`."""
    partition = named_here(node, name, row.partition)
    partition.check_leader_epoch(row.current_leader_epoch)
    epoch, end_offset = partition.epoch_end_offset(row.leader_epoch)
    return EpochEndOffset(0, row.partition, epoch, end_offset)
