"""Committed offsets of groups: fetched, set and deleted by Kafka's own requests."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from muster.cli.groups.offline import why_not
from muster.cli.output import say
from muster.cli.table import ranges
from muster.client.connection import AskingFailed, sentence
from muster.client.kafka_client import Cluster
from muster.client.list_offsets import Partition
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

AT_ONCE: Final = 1_000
"""Partitions in one request: its commits fit into one batch of `__consumer_offsets`."""


class Committed(NamedTuple):
    """One committed offset."""

    offset: int
    metadata: str


def fetch_committed(cluster: Cluster, group_id: str) -> dict[Partition, Committed]:
    """Every committed offset of a group, by topic and partition; empty if the group does not exist. Raises
    AskingFailed.
    """
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, None, -1, None)])
    node, answer = cluster.ask_coordinator(
        group_id, ApiKey.OFFSET_FETCH, request, lambda answer: [one.error_code for one in answer.groups]
    )
    (row,) = answer.groups
    if row.error_code:
        why = why_not(node, group_id, row.error_code)
        raise AskingFailed(f"the offsets of group {group_id} cannot be read: {why}")
    found = {
        (topic.name, one.partition_index): Committed(one.committed_offset, one.metadata or "")
        for topic in row.topics
        for one in topic.partitions
        if one.committed_offset >= 0
    }
    return dict(sorted(found.items()))


def commit(cluster: Cluster, group_id: str, offsets: Mapping[Partition, int]) -> dict[Partition, str]:
    """Commit without being a member of the group, which must be inactive. Returns the reason for each refused
    partition.
    """
    refused: dict[Partition, str] = {}
    for some in _slices(sorted(offsets)):
        topics = [
            OffsetCommitRequestTopic(topic, partitions=[
                OffsetCommitRequestPartition(number, offsets[topic, number]) for number in numbers
            ])
            for topic, numbers in by_topic(some).items()
        ]  # fmt: skip
        request = OffsetCommitRequest(group_id, topics=topics)
        _, answer = cluster.ask_coordinator(
            group_id, ApiKey.OFFSET_COMMIT, request,
            lambda answer: [one.error_code for topic in answer.topics for one in topic.partitions],
        )  # fmt: skip
        for topic in answer.topics:
            for one in topic.partitions:
                if one.error_code:
                    refused[topic.name, one.partition_index] = _why(one.error_code)
    return refused


def delete(cluster: Cluster, group_id: str, partitions: Sequence[Partition]) -> dict[Partition, str]:
    """Delete committed offsets. Returns the reason for each refused partition. Raises AskingFailed if all are."""
    refused: dict[Partition, str] = {}
    for some in _slices(partitions):
        topics = [
            OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(number) for number in numbers])
            for topic, numbers in by_topic(some).items()
        ]
        request = OffsetDeleteRequest(group_id, topics)
        _, answer = cluster.ask_coordinator(group_id, ApiKey.OFFSET_DELETE, request, lambda answer: [answer.error_code])
        if answer.error_code:
            raise AskingFailed(f"offsets of group {group_id} cannot be deleted: {_why(answer.error_code)}")
        for topic in answer.topics:
            for one in topic.partitions:
                if one.error_code:
                    refused[topic.name, one.partition_index] = _why(one.error_code)
    return refused


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """The partitions of each topic, in order."""
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found


def say_refused(command: str, group_id: str, done: str, refused: Mapping[Partition, str]) -> None:
    """Print what was not `done` ("committed", "deleted"), and why: a line for each topic and reason."""
    reasons: dict[tuple[str, str], list[int]] = {}
    for (topic, number), why in sorted(refused.items()):
        reasons.setdefault((topic, why), []).append(number)
    for (topic, why), numbers in reasons.items():
        say(f"{command}: offsets of {group_id} in {topic}:{ranges(numbers)} were not {done}: {why}", sys.stderr)


def _slices(partitions: Sequence[Partition]) -> Iterator[Sequence[Partition]]:
    for start in range(0, len(partitions), AT_ONCE):
        yield partitions[start : start + AT_ONCE]


def _why(error_code: int) -> str:
    """What to do, if that is known, with Kafka's name of the error."""
    told = sentence(error_code)
    if error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
        return f"{told}: stop its members, or have them subscribe to another topic"
    if error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH,
                      ErrorCode.NON_EMPTY_GROUP):  # fmt: skip
        return f"{told}: the group has members now; stop them first"
    return told
