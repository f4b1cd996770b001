"""`muster groups offsets`: the committed offsets of a group, and its lag."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster.coordinator.cli.groups.cluster import AskingFailed, Cluster
from muster.coordinator.cli.groups.describing import describe_group
from muster.coordinator.cli.groups.offline import why_not
from muster.coordinator.cli.groups.table import print_json, print_table
from muster.protocol.api import ApiKey
from muster.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

LATEST: Final = -1
"""ListOffsets' timestamp for the end of a partition."""

Partition = tuple[str, int]


def offsets(cluster: Cluster, group_id: str, *, as_json: bool) -> int:
    """Print every committed offset of the group with end, lag and owner; exit status 1 when there is none."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, None, -1, None)])
    node = cluster.coordinator(group_id)
    (row,) = node.ask(ApiKey.OFFSET_FETCH, request).groups
    if row.error_code:
        why = why_not(node, group_id, row.error_code)
        raise AskingFailed(f"the offsets of group {group_id} cannot be read: {why}")
    committed = {
        (topic.name, one.partition_index): one
        for topic in row.topics
        for one in topic.partitions
        if one.committed_offset >= 0
    }
    if not committed:
        raise AskingFailed(f"group {group_id} has no committed offsets")
    ends = end_offsets(cluster, committed)
    owners = _owners(cluster, group_id)
    rows = []
    for (topic, partition), one in sorted(committed.items()):
        end = ends.get((topic, partition))
        lag = None if end is None else max(end - one.committed_offset, 0)
        rows.append((topic, partition, one.committed_offset, end, lag, one.metadata, owners.get((topic, partition))))
    if as_json:
        names = ("topic", "partition", "offset", "end", "lag", "metadata", "member")
        for told in rows:
            print_json({"group": group_id, **dict(zip(names, told, strict=True))})
    else:
        print_table(("TOPIC", "PARTITION", "OFFSET", "END", "LAG", "METADATA", "MEMBER"), rows)
    return 0


def end_offsets(cluster: Cluster, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """The end of each partition; those that are gone, or whose leader does not say, are left out."""
    wanted = list(partitions)
    by_leader: dict[int, dict[str, list[int]]] = {}
    topics = cluster.topics(sorted({topic for topic, _ in wanted}))
    leaders = {(name, one.partition_index): one.leader_id for name, topic in topics.items() for one in topic.partitions}
    for topic, partition in wanted:
        leader = leaders.get((topic, partition), -1)
        if leader >= 0:
            by_leader.setdefault(leader, {}).setdefault(topic, []).append(partition)
    ends: dict[Partition, int] = {}
    for leader, asked in by_leader.items():
        rows = [
            ListOffsetsTopic(name, [ListOffsetsPartition(one, -1, LATEST) for one in numbers])
            for name, numbers in asked.items()
        ]
        answer = cluster.node(leader).ask(ApiKey.LIST_OFFSETS, ListOffsetsRequest(-1, 0, rows))
        ends.update(
            {
                (topic.name, one.partition_index): one.offset
                for topic in answer.topics
                for one in topic.partitions
                if not one.error_code
            }
        )
    return ends


def _owners(cluster: Cluster, group_id: str) -> dict[Partition, str]:
    try:
        found = describe_group(cluster, group_id)
    except AskingFailed:  # offsets without a group that has members
        return {}
    return {
        (topic, partition): one.instance or one.member
        for one in found.members
        for topic, partitions in (one.assignment or {}).items()
        for partition in partitions
    }
