"""Reads groups of any type, also share groups (KIP-932) and Streams groups (KIP-1071), which only Apache Kafka has."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import count
from typing import Any, Final, NamedTuple

from muster.cli.options.groups import GROUP_STATES, GROUP_TYPES
from muster.cli.output import print_rows, say
from muster.cli.running_server import one_of, with_client
from muster.client.connection import Connection, RequestFailed, sentence
from muster.client.kafka_client import KafkaClient, Partition
from muster.coordinator.http.described_groups import NEWER, Description, classic_group, newer_group
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode
from muster.protocol.hashing import group_partition
from muster.protocol.message import UnrepresentableField
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from muster.protocol.messages.list_groups import ListedGroup, ListGroupsRequest

TOPIC: Final = "__consumer_offsets"
NOT_KNOWN: Final = -1
"""The value in DescribeShareGroupOffsets for a start offset that is not set yet, and for an unknown lag."""


class Offline(NamedTuple):
    """A partition of `__consumer_offsets` that has no leader, and the reason."""

    partition: int
    why: str


def offline_partitions(client: KafkaClient) -> list[Offline]:
    """The partitions of `__consumer_offsets` without a leader, in order. Raises RequestFailed."""
    topic = client.topics([TOPIC]).get(TOPIC)
    rows = [] if topic is None else topic.partitions
    without = sorted(one.partition_index for one in rows if one.leader_id < 0)
    return [Offline(index, why_refused(client.bootstrap, _group_on(index, len(rows)))) for index in without]


def why_refused(node: Connection, group_id: str, error_code: int = ErrorCode.COORDINATOR_NOT_AVAILABLE) -> str:
    """The error in words, with the coordinator's reason in DescribeGroups, if any. Raises RequestFailed."""
    message = None
    if error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
        (row,) = node.ask(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest([group_id])).groups
        message = row.error_message
    return sentence(error_code, message)


def _group_on(partition: int, partitions: int) -> str:
    return next(name for name in map(str, count()) if group_partition(name, partitions) == partition)


def _check_list(options: argparse.Namespace) -> None:
    options.state = one_of("--state", options.state, GROUP_STATES)
    options.type = one_of("--type", options.type, GROUP_TYPES)


@with_client(_check_list)
def run_list(client: KafkaClient, options: argparse.Namespace) -> int:
    """Print all groups, sorted by name. Exit status 1: a partition is offline, so its groups are missing."""
    groups = all_groups(client, options.state, options.type)
    missing = offline_partitions(client)
    rows = [(one.group_id, one.group_type, one.group_state, one.protocol_type) for one in groups]
    print_rows(("GROUP", "TYPE", "STATE", "PROTOCOL TYPE"), rows, as_json=options.json)
    if not groups and not options.json:
        kind = " of that kind" if options.state or options.type else ""
        say(f"no groups{kind} can be seen: not all partitions are online" if missing else f"there are no groups{kind}")
    for partition, why in missing:
        message = f"partition {partition} of __consumer_offsets is offline, its groups are not listed"
        say(f"muster groups list: {message}: {why}", sys.stderr)
    return 1 if missing else 0


def all_groups(client: KafkaClient, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
    """The groups of every node, sorted by name. Raises RequestFailed."""
    found: list[ListedGroup] = []
    for node in client.every_node():
        try:
            answer = node.ask(ApiKey.LIST_GROUPS, ListGroupsRequest(list(states), list(types)))
        except UnrepresentableField as error:
            raise RequestFailed(f"{node.address} cannot list groups by state or type: it is too old") from error
        if answer.error_code:
            raise RequestFailed(f"{node.address} does not list its groups: {sentence(answer.error_code)}")
        found.extend(answer.groups)
    return sorted(found, key=lambda one: one.group_id)


class NoGroup(RequestFailed):
    """Raised when no group has the name that the user gave."""

    def __init__(self, group_id: str) -> None:
        super().__init__(f"there is no group {group_id}: muster groups list shows the groups of the cluster")


def find_group(client: KafkaClient, group_id: str) -> Description | None:
    """Describe one group of any type; None if the group does not exist. Raises RequestFailed."""
    request = DescribeGroupsRequest([group_id])
    node, answer = client.ask_coordinator(
        group_id, ApiKey.DESCRIBE_GROUPS, request, lambda answer: [one.error_code for one in answer.groups]
    )
    (row,) = answer.groups
    if row.error_code == ErrorCode.GROUP_ID_NOT_FOUND or (not row.error_code and row.group_state == "Dead"):
        return _of_another_type(node, group_id, row)
    if row.error_code:
        raise RequestFailed(f"group {group_id} cannot be described: {sentence(row.error_code, row.error_message)}")
    return classic_group(row)


def _of_another_type(node: Connection, group_id: str, classic: Any) -> Description | None:
    """Describe a group that DescribeGroups does not find; None if the group does not exist. Raises RequestFailed."""
    for group_type, (key, request, _) in NEWER.items():
        if not node.supports(key):
            continue
        (row,) = node.ask(key, request([group_id])).groups
        switched_off = row.error_code == ErrorCode.UNSUPPORTED_VERSION and group_type != "consumer"
        if row.error_code == ErrorCode.GROUP_ID_NOT_FOUND or switched_off:
            continue
        if row.error_code:
            raise RequestFailed(f"group {group_id} cannot be described: {sentence(row.error_code, row.error_message)}")
        return newer_group(group_type, row)
    if classic.error_message and "not a classic group" in classic.error_message:
        raise RequestFailed(f"{classic.error_message.rstrip('.')}: muster groups list shows its type and state")
    return None


def share_offsets(client: KafkaClient, group_id: str) -> dict[Partition, tuple[int, int | None]]:
    """Start offset and lag of each partition in which a share group has begun. Lag None: not reported. Raises
    RequestFailed.
    """
    return {place: row for place, row in share_partitions(client, group_id).items() if row[0] != NOT_KNOWN}


def share_partitions(client: KafkaClient, group_id: str) -> dict[Partition, tuple[int, int | None]]:
    """Start offset (NOT_KNOWN: the group has not begun there) and lag of each partition of a share group."""
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group_id, None)])
    _, answer = client.ask_coordinator(
        group_id, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, request, lambda answer: [one.error_code for one in answer.groups]
    )
    (row,) = answer.groups
    if row.error_code:
        why = sentence(row.error_code, row.error_message)
        raise RequestFailed(f"the offsets of group {group_id} cannot be read: {why}")
    return {
        (topic.topic_name, one.partition_index): (one.start_offset, one.lag if one.lag != NOT_KNOWN else None)
        for topic in sorted(row.topics, key=lambda topic: topic.topic_name)
        for one in sorted(topic.partitions, key=lambda one: one.partition_index)
        if not one.error_code
    }
