"""DescribeLogDirs and AlterReplicaLogDirs (KIP-113, KIP-827): the one data directory of the node."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from typing import Final

from muster.coordinator.api.cluster.describe_cluster import may_alter_cluster
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.many_rows import NO_LIMIT, AnswerSize
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.log import FileStorage, MemoryStorage, Storage
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.system.jobs import Job
from muster.protocol.errors import ErrorCode
from muster.protocol.messages import alter_replica_log_dirs, describe_log_dirs

_LOG_DIR_ROW_BYTES = 22
IN_MEMORY = "memory"
"""The path in an answer when the logs are in memory."""
_FOLDER_CHARACTERS: Final = 255
"""The longest name of a folder."""
_FUTURE: Final = 40
"""How much longer the folder of a future replica is on Kafka: `.`, an id of 32 characters, and `-future`."""


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
    path = _path(storage)
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


def _path(storage: Storage) -> str:
    return IN_MEMORY if storage.root == MemoryStorage.root else os.path.abspath(storage.root)


@in_steps
def handle_alter_replica_log_dirs(
    node: Node, context: RequestContext, request: alter_replica_log_dirs.AlterReplicaLogDirsRequest
) -> Job[alter_replica_log_dirs.AlterReplicaLogDirsResponse]:
    """Move replicas to other directories. There is one directory, so a replica stays, or the request is refused."""
    refusal = 0 if may_alter_cluster(node, context) else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    path = _path(node.topics.logs.storage)
    found: dict[str, dict[int, int]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                # if a partition is named twice, its last directory counts
                error = refusal or _move_error(node, path, directory.path, topic.name, index)
                found.setdefault(topic.name, {})[index] = error
                yield None
            yield None
        yield None
    results: list[alter_replica_log_dirs.AlterReplicaLogDirTopicResult] = []
    for name, errors in found.items():
        rows = [alter_replica_log_dirs.AlterReplicaLogDirPartitionResult(*row) for row in errors.items()]
        results.append(alter_replica_log_dirs.AlterReplicaLogDirTopicResult(name, rows))
        yield None
    return alter_replica_log_dirs.AlterReplicaLogDirsResponse(results=results)


def _move_error(node: Node, path: str, wanted: str, name: str, index: int) -> int:
    if len(f"{name}-{index}") + _FUTURE > _FOLDER_CHARACTERS:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if wanted != path:
        return ErrorCode.LOG_DIR_NOT_FOUND
    topic = node.topics.by_name.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return 0 if _has(node, name, index) else ErrorCode.REPLICA_NOT_AVAILABLE
