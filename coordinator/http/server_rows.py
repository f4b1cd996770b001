"""The topics and groups of a running server, as rows of `kafka_metrics`. Each row is made when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from muster.coordinator.groups.common.committed_offsets import position_of
from muster.coordinator.groups.share.group import ShareGroup
from muster.coordinator.http.kafka_metrics import GroupRow, PartitionRow, TopicRow
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.coordinator.server import share_snapshots
from muster.coordinator.server.server import Server
from muster.coordinator.topics.open_topics import Topic

Ends = Mapping[str, Mapping[int, tuple[int, int]]]


def topic_rows(server: Server, elsewhere: Ends = MappingProxyType({})) -> Iterator[TopicRow]:
    """All topics. `elsewhere`: start and end of partitions that other processes lead."""
    for topic in [*server.topics.by_name.values()]:
        yield TopicRow(topic.name, len(topic.partitions), _partitions(server, topic, elsewhere.get(topic.name, {})))


def _partitions(server: Server, topic: Topic, elsewhere: Mapping[int, tuple[int, int]]) -> Iterator[PartitionRow]:
    leaders = server.topics.open.leaders_of(topic.name)
    for index, (leader, state, partition) in enumerate(
        zip(leaders, topic.state.partitions, topic.partitions, strict=False)
    ):
        start, end = elsewhere.get(index, (None, None))
        if partition is not None:
            start, end = partition.log.start_offset, partition.log.durable_offset
        yield PartitionRow(index, start, end, leader.broker_id, len(state.replicas), len(state.isr))


def group_rows(server: Server) -> Iterator[GroupRow]:
    """The groups that this process coordinates."""
    for node in server.nodes:
        for shard in node.routing.shards:
            for group_id in [*shard.group_ids()]:
                row = _group(server, shard, group_id)
                if row is not None:
                    yield row


def _group(server: Server, shard: GroupShard, group_id: str) -> GroupRow | None:
    core = shard.runtime.core
    group: Any = None if core is None else core.state.groups.get(group_id)
    if core is None or group is None:
        return None
    members = len(getattr(group, "members", ()))
    if isinstance(group, ShareGroup):
        return GroupRow(group_id, group.kind, group.state, members, _share_offsets(server, group))
    offsets = (
        (topic, ((index, position_of(packed)[0], None) for index, packed in [*rows.items()]))
        for topic, rows in [*core.state.offsets.topics(group_id).items()]
    )
    return GroupRow(group_id, group.kind, group.state, members, offsets)


def _share_offsets(server: Server, group: ShareGroup) -> Iterator[tuple[str, Iterator[tuple[int, int, int | None]]]]:
    """The start offsets of a share group that has begun, with the lags."""
    for topic, rows in share_snapshots.topics_of(server, group):
        yield topic, ((index, its.start_offset, its.lag) for index, its in rows if its.start_offset >= 0)
