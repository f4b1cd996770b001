"""DescribeQuorum (key 55): the quorum of the metadata log (KIP-595). The process keeps this log. Its controller is the
leader and the one voter. The other brokers read the log and are observers.
"""

from __future__ import annotations

from typing import Final

from muster.coordinator.api.answer_size import TOO_LARGE, TOO_LARGE_TEXT, AnswerSize
from muster.coordinator.api.cluster.refusals import may_describe_cluster
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.metadata_log import LEADER_EPOCH
from muster.coordinator.topics.names import METADATA_TOPIC
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    ReplicaState,
)

_ROW_BYTES: Final = 80
"""Size of a row in an answer, and of each replica in it."""


@in_steps
def handle_describe_quorum(
    node: Node, context: RequestContext, request: DescribeQuorumRequest
) -> Job[DescribeQuorumResponse]:
    """Answer for the one partition of the metadata log. No other partition has a quorum."""
    if not may_describe_cluster(node, context):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeQuorumResponse(error_code=code, error_message=error_message(code))
    answer = DescribeQuorumResponse()
    answer.topics = topics = list[DescribeQuorumResponseTopicData]()
    room = AnswerSize(node, context)
    present: DescribeQuorumResponsePartitionData | None = None
    for topic in request.topics:
        rows: list[DescribeQuorumResponsePartitionData] = []
        topics.append(DescribeQuorumResponseTopicData(topic.topic_name, rows))
        for wanted in topic.partitions:
            index = wanted.partition_index
            if (topic.topic_name, index) != (METADATA_TOPIC, 0):
                rows.append(_refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                room.take(_ROW_BYTES)
            elif room.take(_ROW_BYTES * (1 + len(node.cluster.brokers))):
                # a partition that is named several times has the same row each time
                present = _partition(node) if present is None else present
                rows.append(present)
            else:
                rows.append(DescribeQuorumResponsePartitionData(0, TOO_LARGE, TOO_LARGE_TEXT))
            yield room.pause()
        yield None
    return answer


def _refused(index: int, code: int) -> DescribeQuorumResponsePartitionData:
    return DescribeQuorumResponsePartitionData(index, code, error_message(code))


def _partition(node: Node) -> DescribeQuorumResponsePartitionData:
    log, now_ms = node.topics.metadata_log.log, node.clock.now().wall_ms
    leader = node.cluster.controller_id
    end = log.end_offset
    states = {
        broker.broker_id: ReplicaState(
            broker.broker_id,
            ZERO_UUID,  # as for voters that are configured (KIP-853)
            end,
            now_ms if not broker.fenced else -1,
            now_ms if not broker.fenced else -1,
        )
        for broker in node.cluster.brokers.values()
    }
    return DescribeQuorumResponsePartitionData(
        0,
        0,
        "",
        leader,
        LEADER_EPOCH,
        log.durable_offset,
        [states[leader]] if leader in states else [],
        [state for broker_id, state in states.items() if broker_id != leader],
    )
