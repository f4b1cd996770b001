"""Offline partitions of `__consumer_offsets`, and why: their groups are neither listed nor served.

Kafka's protocol only says that a partition has no leader. Muster's answer to DescribeGroups has the reason.
"""

from __future__ import annotations

from itertools import count
from typing import Final, NamedTuple

from muster.client.connection import Connection, sentence
from muster.client.kafka_client import Cluster
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode
from muster.protocol.hashing import group_partition
from muster.protocol.messages.describe_groups import DescribeGroupsRequest

TOPIC: Final = "__consumer_offsets"


class Offline(NamedTuple):
    """One partition."""

    partition: int
    why: str


def offline_partitions(cluster: Cluster) -> list[Offline]:
    """The partitions without a leader, in order. Raises AskingFailed."""
    topic = cluster.topics([TOPIC]).get(TOPIC)
    rows = [] if topic is None else topic.partitions
    without = sorted(one.partition_index for one in rows if one.leader_id < 0)
    return [Offline(index, why_not(cluster.bootstrap, _group_on(index, len(rows)))) for index in without]


def why_not(node: Connection, group_id: str, error_code: int = ErrorCode.COORDINATOR_NOT_AVAILABLE) -> str:
    """Why a group is refused with `error_code`, if its coordinator gives a reason. Raises AskingFailed."""
    told = None
    if error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
        (row,) = node.ask(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest([group_id])).groups
        told = row.error_message
    return sentence(error_code, told)


def _group_on(partition: int, partitions: int) -> str:
    """The name of a group that would be in that partition."""
    return next(name for name in map(str, count()) if group_partition(name, partitions) == partition)
