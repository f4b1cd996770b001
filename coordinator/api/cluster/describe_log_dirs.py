"""DescribeLogDirs: where the logs are and how large they are (KIP-113, KIP-827)."""

from __future__ import annotations

import shutil
from collections.abc import Iterable

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.log import FileStorage, Storage
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.slices import Job
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

IN_MEMORY = "memory"
"""What is told in place of a path when there is none."""


def handle_describe_log_dirs(
    node: Node, context: RequestContext, request: DescribeLogDirsRequest, respond: Respond
) -> None:
    """The one data directory with the partitions asked for (null: all)."""
    if not node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        respond(DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        return
    node.run(context, respond, _describe(node, request))


def _describe(node: Node, request: DescribeLogDirsRequest) -> Job[DescribeLogDirsResponse]:
    wanted: Iterable[tuple[str, Iterable[int]]]
    if request.topics is None:
        wanted = [(topic.name, range(len(topic.partitions))) for topic in [*node.topics.by_name.values()]]
    else:
        wanted = [(topic.topic, topic.partitions) for topic in request.topics]
    # a topic that is named twice has one row, and so has each of its partitions
    found: dict[str, dict[int, DescribeLogDirsPartition]] = {}
    for name, indexes in wanted:
        for index in indexes:
            row = _row(node, name, index)
            if row is not None:
                found.setdefault(name, {})[index] = row
            yield None
        yield None
    topics = [DescribeLogDirsTopic(name, list(rows.values())) for name, rows in found.items()]
    path = node.config.text("log.dirs") or IN_MEMORY
    total, usable = _space(node.topics.logs.storage)
    result = DescribeLogDirsResult(log_dir=path, topics=topics, total_bytes=total, usable_bytes=usable)
    return DescribeLogDirsResponse(results=[result])


def _space(storage: Storage) -> tuple[int, int]:
    """Bytes of the volume that holds the logs: (all, free); -1 when they are in memory."""
    if not isinstance(storage, FileStorage):
        return -1, -1
    usage = shutil.disk_usage(storage.root)
    return usage.total, usage.free


def _row(node: Node, name: str, index: int) -> DescribeLogDirsPartition | None:
    partition = node.topics.open.partition(name, index)
    return None if partition is None else DescribeLogDirsPartition(index, partition.log.size_bytes)
