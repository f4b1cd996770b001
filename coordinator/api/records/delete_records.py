"""DeleteRecords: delete the records before an offset (KIP-107)."""

from __future__ import annotations

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.api.records.led_here import led_here
from muster.coordinator.log import LogError
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.errors import ApiError
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

NO_LOW_WATERMARK = -1


@in_steps
def handle_delete_records(
    node: Node, context: RequestContext, request: DeleteRecordsRequest
) -> Job[DeleteRecordsResponse]:
    """Answer each partition once. If a partition is named twice, its last offset counts, as on Kafka."""
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        for row in topic.partitions:
            wanted.setdefault(topic.name, {})[row.partition_index] = row.offset
            yield None
        yield None
    topics = []
    for name, offsets in wanted.items():
        rows = []
        for index, offset in offsets.items():
            try:
                rows.append(DeleteRecordsPartitionResult(index, _delete(node, context, name, index, offset)))
            except (ApiError, LogError) as error:
                rows.append(DeleteRecordsPartitionResult(index, NO_LOW_WATERMARK, error.error_code))
            yield None
        topics.append(DeleteRecordsTopicResult(name, rows))
    return DeleteRecordsResponse(topics=topics)


def _delete(node: Node, context: RequestContext, name: str, index: int, offset: int) -> int:
    """Delete the records of one partition. Returns the new log start offset. Raises `ApiError` or an error of
    the log.
    """
    if not node.authorizer.allows(context, Operation.DELETE, ResourceType.TOPIC, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    topic = node.topics.by_name.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = led_here(node, topic, index)
    if topic.internal:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    return partition.delete_records(offset)
