"""`muster groups offsets`: the committed offsets of a group, and its lag."""

from __future__ import annotations

from muster.coordinator.cli.cluster import AskingFailed, Cluster
from muster.coordinator.cli.ends import Partition, end_offsets
from muster.coordinator.cli.groups.describing import describe_group
from muster.coordinator.cli.groups.offline import why_not
from muster.coordinator.cli.table import print_json, print_table
from muster.protocol.api import ApiKey
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup


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
