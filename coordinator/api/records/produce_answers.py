"""The answer of a Produce for a partition: refusals, and leaders of partitions that this node does not lead."""

from __future__ import annotations

from muster.coordinator.api.context import RequestContext, produce_names_leader
from muster.coordinator.api.node import Node
from muster.coordinator.log import LogError
from muster.coordinator.log.errors import ProducerError
from muster.coordinator.topics.errors import ApiError, InvalidRecords
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
)

NO_OFFSET = -1
WITHOUT_START = frozenset(
    (
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)
"""For these errors Kafka does not report the log start offset (ReplicaManager.appendRecordsToLeader)."""


def with_leaders(node: Node, context: RequestContext, response: ProduceResponse) -> ProduceResponse:
    """The answer, with the leaders of partitions that this node does not lead (KIP-951)."""
    if not produce_names_leader(context.api_version):
        return response
    moved_to = set[int]()
    for topic in response.responses:
        for row in topic.partition_responses:
            if row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                found = node.topics.by_id.get(topic.topic_id) or node.topics.by_name.get(topic.name)
                leaders = () if found is None else node.cluster.leaders[found.name]
                if row.index < len(leaders):
                    leader = leaders[row.index]
                    row.current_leader = LeaderIdAndEpoch(leader.broker_id, leader.epoch)
                    moved_to.add(leader.broker_id)
    if moved_to:
        response.node_endpoints = [
            NodeEndpoint(broker.broker_id, host, port, broker.rack)
            for broker, (host, port) in node.cluster.reachable(context)
            if broker.broker_id in moved_to
        ]
    return response


def refused(index: int, error: ApiError | LogError) -> PartitionProduceResponse:
    """The answer for a partition to which no batch was appended."""
    answer = PartitionProduceResponse(index)
    fail(answer, error)
    return answer


def fail(answer: PartitionProduceResponse, error: ApiError | LogError) -> None:
    """Set the refusal of an append in the answer for its partition."""
    answer.error_code = error.error_code
    if isinstance(error, ProducerError):
        answer.error_message = None  # as on Kafka, the answer has only the error code
    else:
        answer.error_message = error.message if isinstance(error, ApiError) else str(error)
    answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = NO_OFFSET
    if isinstance(error, InvalidRecords):
        answer.record_errors = [BatchIndexAndErrorMessage(at, message) for at, message in error.record_errors]
