"""Offsets of partitions from their leaders: their starts and ends, and their offsets at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster.client.kafka_client import Cluster
from muster.protocol.api import ApiKey
from muster.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LATEST: Final = -1
"""ListOffsets' timestamp for the end of a partition."""
EARLIEST: Final = -2
"""ListOffsets' timestamp for its beginning."""

Partition = tuple[str, int]


def end_offsets(cluster: Cluster, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """The end of each partition. Partitions are left out that do not exist, or whose leader does not answer."""
    return offsets_at(cluster, partitions, LATEST)


def offsets_at(cluster: Cluster, partitions: Iterable[Partition], timestamp: int) -> dict[Partition, int]:
    """For each partition, the first offset whose record is not older than a time (wall ms). It is -1 if no record is.
    LATEST or EARLIEST may stand for a time. Partitions are left out that do not exist, or whose leader does not answer.
    """
    wanted = list(partitions)
    by_leader: dict[int, dict[str, list[int]]] = {}
    topics = cluster.topics(sorted({topic for topic, _ in wanted}))
    leaders = {(name, one.partition_index): one.leader_id for name, topic in topics.items() for one in topic.partitions}
    for topic, partition in wanted:
        leader = leaders.get((topic, partition), -1)
        if leader >= 0:
            by_leader.setdefault(leader, {}).setdefault(topic, []).append(partition)
    found: dict[Partition, int] = {}
    for leader, asked in by_leader.items():
        rows = [
            ListOffsetsTopic(name, [ListOffsetsPartition(one, -1, timestamp) for one in numbers])
            for name, numbers in asked.items()
        ]
        answer = cluster.node(leader).ask(ApiKey.LIST_OFFSETS, ListOffsetsRequest(-1, 0, rows))
        found.update(
            {
                (topic.name, one.partition_index): one.offset
                for topic in answer.topics
                for one in topic.partitions
                if not one.error_code
            }
        )
    return found
