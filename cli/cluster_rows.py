"""The topics and groups of any Kafka cluster, as rows of `kafka_metrics`. Groups are read in few large requests.

A group that is deleted meanwhile, or that the user may not see, has no offsets and no members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from muster.client.connection import Connection, RequestFailed, sentence
from muster.client.kafka_client import KafkaClient, Partition
from muster.client.list_offsets import EARLIEST, LATEST, Lookup
from muster.coordinator.http.described_groups import Description, Member, classic_group, newer_group
from muster.coordinator.http.kafka_metrics import GroupRow, PartitionRow, TopicRow
from muster.protocol.api import ApiKey
from muster.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from muster.protocol.messages.list_groups import ListGroupsRequest
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from muster.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from muster.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest

GROUPS_AT_ONCE: Final = 200
"""The most groups in one request."""
CLASSIC: Final = "classic"
SHARE: Final = "share"
_DESCRIBE: Final[dict[str, tuple[int, Callable[[list[str]], Any]]]] = {
    CLASSIC: (ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest),
    "consumer": (ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest),
    SHARE: (ApiKey.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest),
    "streams": (ApiKey.STREAMS_GROUP_DESCRIBE, StreamsGroupDescribeRequest),
}
Offsets = dict[str, list[tuple[int, int, int | None]]]


class ClusterRows(NamedTuple):
    """What a cluster has now."""

    brokers: int
    topics: list[TopicRow]
    groups: list[GroupRow]
    members: dict[str, list[Member]]
    """The members of each group that could be described."""


def read_cluster(client: KafkaClient) -> ClusterRows:
    """Read all topics and groups. Raises RequestFailed."""
    topics = _topics(client)
    nodes = client.every_node()
    members: dict[str, list[Member]] = {}
    return ClusterRows(len(nodes), topics, [row for node in nodes for row in _groups_of(node, members)], members)


def _topics(client: KafkaClient) -> list[TopicRow]:
    found = client.topics(None)
    partitions: list[Partition] = [
        (name, one.partition_index) for name, topic in found.items() for one in topic.partitions
    ]
    lookup = Lookup(client, partitions)
    starts, ends = lookup.at(EARLIEST), lookup.at(LATEST)

    def row(name: str, one: Any) -> PartitionRow:
        place = name, one.partition_index
        is_known = place in starts and place in ends
        return PartitionRow(
            one.partition_index,
            starts[place].offset if is_known else None,
            ends[place].offset if is_known else None,
            one.leader_id,
            len(one.replica_nodes),
            len(one.isr_nodes),
        )

    return [
        TopicRow(name, len(topic.partitions), [row(name, one) for one in topic.partitions])
        for name, topic in sorted(found.items())
    ]


def _groups_of(node: Connection, members: dict[str, list[Member]]) -> Iterator[GroupRow]:
    """The groups that a node coordinates. Their members are added to `members`."""
    answer = node.ask(ApiKey.LIST_GROUPS, ListGroupsRequest())
    if answer.error_code:
        raise RequestFailed(f"{node.address} does not list its groups: {sentence(answer.error_code)}")
    by_kind: dict[str, dict[str, str]] = {}
    for one in answer.groups:
        # an old broker names no types and states
        by_kind.setdefault(one.group_type or CLASSIC, {})[one.group_id] = one.group_state
    for kind, states in sorted(by_kind.items()):
        names = sorted(states)
        for start in range(0, len(names), GROUPS_AT_ONCE):
            some = names[start : start + GROUPS_AT_ONCE]
            described = _described(node, kind, some)
            offsets = _share_offsets(node, some) if kind == SHARE else _offsets(node, some)
            for name in some:
                found = described.get(name)
                if found is not None:
                    members[name] = found.members
                state, count = (states[name], 0) if found is None else (found.state, len(found.members))
                yield GroupRow(name, kind, states[name] or state, count, offsets.get(name, {}).items())


def _described(node: Connection, kind: str, names: Sequence[str]) -> dict[str, Description]:
    """The groups by name."""
    if kind not in _DESCRIBE or not node.supports(_DESCRIBE[kind][0]):
        return {}
    key, request = _DESCRIBE[kind]
    answer = node.ask(key, request(list(names)))
    found = [one for one in answer.groups if not one.error_code]
    return {one.group_id: classic_group(one) if kind == CLASSIC else newer_group(kind, one) for one in found}


def _offsets(node: Connection, names: Sequence[str]) -> dict[str, Offsets]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name, None, -1, None) for name in names])
    found: dict[str, Offsets] = {}
    for group in node.ask(ApiKey.OFFSET_FETCH, request).groups:
        found[group.group_id] = {
            topic.name: [(one.partition_index, one.committed_offset, None) for one in topic.partitions
                         if one.committed_offset >= 0]
            for topic in group.topics
        }  # fmt: skip
    return found


def _share_offsets(node: Connection, names: Sequence[str]) -> dict[str, Offsets]:
    """The start offsets of share groups, with the lag that the broker reports."""
    if not node.supports(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS):
        return {}
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(name, None) for name in names])
    found: dict[str, Offsets] = {}
    for group in node.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, request).groups:
        found[group.group_id] = {
            topic.topic_name: [(one.partition_index, one.start_offset, one.lag if one.lag >= 0 else None)
                               for one in topic.partitions if not one.error_code and one.start_offset >= 0]
            for topic in group.topics
        }  # fmt: skip
    return found
