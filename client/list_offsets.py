"""Finds offsets of partitions by time, with ListOffsets requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from muster.client.kafka_client import KafkaClient, Partition
from muster.protocol.api import ApiKey
from muster.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LATEST: Final = -1
"""The time in a request that means the end of a partition."""
EARLIEST: Final = -2
NEWEST: Final = -3
"""The time in a request that means the record with the greatest time. Brokers before Kafka 3.0 refuse it."""


class Found(NamedTuple):
    """The first record of a partition at or after a time. Without such a record both are -1."""

    offset: int
    time_ms: int
    """-1 for LATEST and EARLIEST."""


class Lookup:
    """Looks up offsets of partitions whose leaders it asked for once.

    A partition that does not exist, or whose leader does not answer, is left out of the answers.
    """

    def __init__(self, client: KafkaClient, partitions: Iterable[Partition]) -> None:
        """Ask for the leaders. Raises RequestFailed."""
        self._client = client
        self._by_leader: dict[int, dict[str, list[int]]] = {}
        wanted = list(partitions)
        topics = client.topics(sorted({topic for topic, _ in wanted}))
        leaders = {
            (name, one.partition_index): one.leader_id for name, topic in topics.items() for one in topic.partitions
        }
        for topic, partition in wanted:
            leader = leaders.get((topic, partition), -1)
            if leader >= 0:
                self._by_leader.setdefault(leader, {}).setdefault(topic, []).append(partition)

    def at(self, time_ms: int) -> dict[Partition, Found]:
        """The first record of each partition at or after a time (wall ms, LATEST, EARLIEST or NEWEST)."""
        found: dict[Partition, Found] = {}
        for leader, asked in self._by_leader.items():
            rows = [
                ListOffsetsTopic(name, [ListOffsetsPartition(one, -1, time_ms) for one in numbers])
                for name, numbers in asked.items()
            ]
            answer = self._client.node(leader).ask(ApiKey.LIST_OFFSETS, ListOffsetsRequest(-1, 0, rows))
            found.update(
                {
                    (topic.name, one.partition_index): Found(one.offset, one.timestamp)
                    for topic in answer.topics
                    for one in topic.partitions
                    if not one.error_code
                }
            )
        return found


def end_offsets(client: KafkaClient, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """The end offset of each partition. `Lookup` says which partitions are left out."""
    return offsets_at(client, partitions, LATEST)


def offsets_at(client: KafkaClient, partitions: Iterable[Partition], time_ms: int) -> dict[Partition, int]:
    """The first offset of each partition at or after a time, by `Lookup`; -1: no such record."""
    return {place: found.offset for place, found in Lookup(client, partitions).at(time_ms).items()}
