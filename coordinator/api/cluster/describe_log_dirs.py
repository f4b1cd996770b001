"""DescribeLogDirs: the data directory, and the sizes of its logs (KIP-113, KIP-827)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable

from muster.coordinator.api.answer_size import NO_LIMIT, AnswerSize
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.log import FileStorage, MemoryStorage, Storage
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.system.jobs import Job
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

_ROW_BYTES = 22
"""Size of a row in an answer."""
IN_MEMORY = "memory"
"""The path in an answer when the logs are in memory."""


@in_steps
def handle_describe_log_dirs(
    node: Node, context: RequestContext, request: DescribeLogDirsRequest
) -> Job[DescribeLogDirsResponse]:
    """Answer with the one data directory and its partitions that the request names (null: all). The answer only has
    partitions that this broker leads, or has a replica of: a Kafka broker has no others.
    """
    if not node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted: Iterable[tuple[str, Iterable[int]]]
    if request.topics is None:
        wanted = ((topic.name, range(len(topic.partitions))) for topic in [*node.topics.by_name.values()])
    else:
        wanted = ((topic.topic, topic.partitions) for topic in request.topics)
    # a topic that is named twice has one row, and each of its partitions has one row
    found: dict[str, dict[int, DescribeLogDirsPartition]] = {}
    room = AnswerSize(node, context, NO_LIMIT)
    for name, indexes in wanted:
        for index in indexes:
            partition = node.topics.open.partition(name, index)
            if partition is not None and _has(node, name, index):
                rows = found.setdefault(name, {})
                if index not in rows:
                    room.take(_ROW_BYTES if rows else _ROW_BYTES + len(name))
                rows[index] = DescribeLogDirsPartition(index, partition.log.size_bytes)
            yield room.pause()
        yield None
    topics = [DescribeLogDirsTopic(name, list(rows.values())) for name, rows in found.items()]
    storage = node.topics.logs.storage
    path = IN_MEMORY if storage.root == MemoryStorage.root else os.path.abspath(storage.root)
    total, usable = _space(storage)
    result = DescribeLogDirsResult(log_dir=path, topics=topics, total_bytes=total, usable_bytes=usable)
    return DescribeLogDirsResponse(results=[result])


def _has(node: Node, name: str, index: int) -> bool:
    topic = node.topics.by_name[name]
    node_id, state = node.cluster.node_id, topic.state.partitions[index]
    return node_id in state.replicas or node_id == state.leader


def _space(storage: Storage) -> tuple[int, int]:
    """Size of the volume that holds the logs, in bytes: (all, free). Both are -1 when the logs are in memory."""
    if not isinstance(storage, FileStorage):
        return -1, -1
    usage = shutil.disk_usage(storage.root)
    return usage.total, usage.free
