"""DescribeCluster (KIP-700, KIP-919), DescribeQuorum (KIP-595) and DescribeLogDirs (KIP-113, KIP-827).

The controller, which keeps the metadata log, is the quorum's leader and only voter. Other brokers are observers.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from typing import Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.many_rows import NO_LIMIT, TOO_LARGE, TOO_LARGE_TEXT, AnswerSize
from muster.coordinator.api.node import Node, Respond, in_steps
from muster.coordinator.log import FileStorage, MemoryStorage, Storage
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType, cluster_operations
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.metadata_log import LEADER_EPOCH
from muster.coordinator.topics.names import METADATA_TOPIC
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages import describe_log_dirs, describe_quorum
from muster.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2
_QUORUM_ROW_BYTES: Final = 80
_LOG_DIR_ROW_BYTES = 22
IN_MEMORY = "memory"
"""The path in an answer when the logs are in memory."""


def may_alter_cluster(node: Node, context: RequestContext) -> bool:
    """Whether the client may move leaders and brokers."""
    return node.authorizer.allows(context, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)


def may_describe_cluster(node: Node, context: RequestContext) -> bool:
    """Whether the client may describe leaders and brokers."""
    return node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)


def handle_describe_cluster(
    node: Node, context: RequestContext, request: DescribeClusterRequest, respond: Respond
) -> None:
    """List the brokers; fenced brokers only if requested (KIP-1073). A broker's listener does not list controllers."""
    if request.endpoint_type != BROKERS:
        code, message = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}"
        if request.endpoint_type == CONTROLLERS:
            code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
            message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        respond(DescribeClusterResponse(error_code=code, error_message=message))
        return
    operations = cluster_operations(node.authorizer, context, request.include_cluster_authorized_operations)
    respond(
        DescribeClusterResponse(
            cluster_id=node.cluster.cluster_id,
            controller_id=node.cluster.controller_id,
            brokers=[
                DescribeClusterBroker(broker.broker_id, host, port, broker.rack, is_fenced=broker.fenced)
                for broker, (host, port) in node.cluster.reachable(context, also_fenced=request.include_fenced_brokers)
            ],
            cluster_authorized_operations=operations,
        )
    )


@in_steps
def handle_describe_quorum(
    node: Node, context: RequestContext, request: describe_quorum.DescribeQuorumRequest
) -> Job[describe_quorum.DescribeQuorumResponse]:
    """Describe the quorum of the one partition of the metadata log. No other partition has a quorum."""
    if not may_describe_cluster(node, context):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return describe_quorum.DescribeQuorumResponse(error_code=code, error_message=error_message(code))
    answer = describe_quorum.DescribeQuorumResponse()
    answer.topics = topics = list[describe_quorum.DescribeQuorumResponseTopicData]()
    answer_size = AnswerSize(node, context)
    present: describe_quorum.DescribeQuorumResponsePartitionData | None = None
    for topic in request.topics:
        rows: list[describe_quorum.DescribeQuorumResponsePartitionData] = []
        topics.append(describe_quorum.DescribeQuorumResponseTopicData(topic.topic_name, rows))
        for wanted in topic.partitions:
            index = wanted.partition_index
            if (topic.topic_name, index) != (METADATA_TOPIC, 0):
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                rows.append(describe_quorum.DescribeQuorumResponsePartitionData(index, code, error_message(code)))
                answer_size.add(_QUORUM_ROW_BYTES)
            elif answer_size.add(_QUORUM_ROW_BYTES * (1 + len(node.cluster.brokers))):
                # a partition that is named several times has the same row each time
                present = _partition(node) if present is None else present
                rows.append(present)
            else:
                rows.append(describe_quorum.DescribeQuorumResponsePartitionData(0, TOO_LARGE, TOO_LARGE_TEXT))
            yield answer_size.pause()
        yield None
    return answer


def _partition(node: Node) -> describe_quorum.DescribeQuorumResponsePartitionData:
    log, now_ms = node.topics.metadata_log.log, node.clock.now().wall_ms
    leader = node.cluster.controller_id
    end = log.end_offset
    states = {
        broker.broker_id: describe_quorum.ReplicaState(
            broker.broker_id,
            ZERO_UUID,  # without directory id, as for statically configured voters (KIP-853)
            end,
            *((-1, -1) if broker.fenced else (now_ms, now_ms)),
        )
        for broker in node.cluster.brokers.values()
    }
    return describe_quorum.DescribeQuorumResponsePartitionData(
        0,
        0,
        "",
        leader,
        LEADER_EPOCH,
        log.durable_offset,
        [states[leader]] if leader in states else [],
        [state for broker_id, state in states.items() if broker_id != leader],
    )


@in_steps
def handle_describe_log_dirs(
    node: Node, context: RequestContext, request: describe_log_dirs.DescribeLogDirsRequest
) -> Job[describe_log_dirs.DescribeLogDirsResponse]:
    """Describe the one data directory, with the named partitions (null: all) that have a replica on this broker."""
    if not node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return describe_log_dirs.DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted: Iterable[tuple[str, Iterable[int]]]
    if request.topics is None:
        wanted = ((topic.name, range(len(topic.partitions))) for topic in node.topics.open.walk())
    else:
        wanted = ((topic.topic, topic.partitions) for topic in request.topics)
    # a topic that is named twice has one row, and so has each partition
    found: dict[str, dict[int, describe_log_dirs.DescribeLogDirsPartition]] = {}
    answer_size = AnswerSize(node, context, NO_LIMIT)
    for name, indexes in wanted:
        for index in indexes:
            partition = node.topics.open.partition(name, index)
            if partition is not None and _has(node, name, index):
                rows = found.setdefault(name, {})
                if index not in rows:
                    answer_size.add(_LOG_DIR_ROW_BYTES if rows else _LOG_DIR_ROW_BYTES + len(name))
                rows[index] = describe_log_dirs.DescribeLogDirsPartition(index, partition.log.size_bytes)
            yield answer_size.pause()
        yield None
    topics: list[describe_log_dirs.DescribeLogDirsTopic] = []
    for name, rows in found.items():
        topics.append(describe_log_dirs.DescribeLogDirsTopic(name, list(rows.values())))
        yield None
    storage = node.topics.logs.storage
    path = IN_MEMORY if storage.root == MemoryStorage.root else os.path.abspath(storage.root)
    total, usable = _space(storage)
    result = describe_log_dirs.DescribeLogDirsResult(
        log_dir=path, topics=topics, total_bytes=total, usable_bytes=usable
    )
    return describe_log_dirs.DescribeLogDirsResponse(results=[result])


def _has(node: Node, name: str, index: int) -> bool:
    topic = node.topics.by_name[name]
    node_id, state = node.cluster.node_id, topic.state.partitions[index]
    return node_id in state.replicas or node_id == state.leader


def _space(storage: Storage) -> tuple[int, int]:
    """The bytes of the volume that holds the logs: (all, free). Both numbers are -1 when the logs are in memory."""
    if not isinstance(storage, FileStorage):
        return -1, -1
    usage = shutil.disk_usage(storage.root)
    return usage.total, usage.free
