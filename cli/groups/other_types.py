"""Share groups (KIP-932) and Streams groups (KIP-1071) of Apache Kafka, for `muster groups describe` and `offsets`.
Muster itself has no such groups.
"""

from __future__ import annotations

from typing import Any, Final

from muster.cli.groups.described import Description, Member
from muster.client.connection import AskingFailed, Connection, sentence
from muster.client.kafka_client import Cluster
from muster.client.list_offsets import Partition
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from muster.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from muster.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest

SHARE: Final = "share"
STREAMS: Final = "streams"
NOT_KNOWN: Final = -1
"""In DescribeShareGroupOffsets, a partition without a start offset yet, or with an unknown lag."""


def share_group(node: Connection, group_id: str) -> Description | None:
    """A share group. The result is None if no share group has that name, or the server has no share groups. Raises
    AskingFailed.
    """
    row = _row(node, ApiKey.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest([group_id]), group_id)
    if row is None:
        return None
    members = [
        Member(one.member_id, None, one.client_id, one.client_host, _by_topic(one.assignment), SHARE, one.member_epoch,
               None, list(one.subscribed_topic_names))
        for one in row.members
    ]  # fmt: skip
    return Description(group_id, SHARE, row.group_state, SHARE, row.assignor_name, row.group_epoch,
                       row.assignment_epoch, members)  # fmt: skip


def streams_group(node: Connection, group_id: str) -> Description | None:
    """A Streams group; its members have tasks, SUBTOPOLOGY:PARTITION. None and errors are as in `share_group`."""
    row = _row(node, ApiKey.STREAMS_GROUP_DESCRIBE, StreamsGroupDescribeRequest([group_id]), group_id)
    if row is None:
        return None
    members = [
        Member(one.member_id, one.instance_id, one.client_id, one.client_host, _active(one.assignment),
               "classic" if one.is_classic else STREAMS, one.member_epoch, _active(one.target_assignment))
        for one in row.members
    ]  # fmt: skip
    return Description(group_id, STREAMS, row.group_state, STREAMS, "", row.group_epoch, row.assignment_epoch, members)


def share_offsets(cluster: Cluster, group_id: str) -> dict[Partition, tuple[int, int | None]]:
    """The start offset of each partition of a share group, and its lag if it is reported. Raises AskingFailed."""
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group_id, None)])
    _, answer = cluster.ask_coordinator(
        group_id, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, request, lambda answer: [one.error_code for one in answer.groups]
    )
    (row,) = answer.groups
    if row.error_code:
        why = sentence(row.error_code, row.error_message)
        raise AskingFailed(f"the offsets of group {group_id} cannot be read: {why}")
    return {
        (topic.topic_name, one.partition_index): (one.start_offset, one.lag if one.lag != NOT_KNOWN else None)
        for topic in sorted(row.topics, key=lambda topic: topic.topic_name)
        for one in sorted(topic.partitions, key=lambda one: one.partition_index)
        if not one.error_code and one.start_offset != NOT_KNOWN
    }


def _row(node: Connection, key: int, request: Any, group_id: str) -> Any:
    if not node.speaks(key):
        return None
    (row,) = node.ask(key, request).groups
    if row.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):  # or switched off
        return None
    if row.error_code:
        raise AskingFailed(f"group {group_id} cannot be described: {sentence(row.error_code, row.error_message)}")
    return row


def _by_topic(assignment: Any) -> dict[str, list[int]]:
    rows = () if assignment is None else assignment.topic_partitions
    return {one.topic_name: sorted(one.partitions) for one in rows}


def _active(assignment: Any) -> dict[str, list[int]]:
    rows = () if assignment is None else assignment.active_tasks
    return {one.subtopology_id: sorted(one.partitions) for one in rows}
