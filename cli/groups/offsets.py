"""`muster groups offsets` prints committed offsets with the lag. Other modules use it to set and delete offsets."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from muster.cli.groups.option_values import as_csv, check_form, check_groups, group_names, output_form
from muster.cli.groups.read_groups import NoGroup, all_groups, find_group, share_offsets, why_refused
from muster.cli.output import print_rows, say
from muster.cli.running_server import with_client
from muster.client.connection import RequestFailed, sentence
from muster.client.kafka_client import KafkaClient, Partition
from muster.client.list_offsets import end_offsets
from muster.coordinator.history.words import ranges
from muster.coordinator.http.described_groups import Description
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode
from muster.protocol.messages import offset_commit, offset_delete
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

AT_ONCE: Final = 1_000
"""The most partitions in one request: so all commits of a request fit into one batch of `__consumer_offsets`."""
_HEAD: Final = ("GROUP", "TOPIC", "PARTITION", "OFFSET", "END", "LAG", "METADATA", "MEMBER")


class Committed(NamedTuple):
    """A committed offset with its metadata."""

    offset: int
    metadata: str


def fetch_committed(client: KafkaClient, group_id: str) -> dict[Partition, Committed]:
    """Every committed offset of a group, by partition. An unknown group has none. Raises RequestFailed."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, None, -1, None)])
    node, answer = client.ask_coordinator(
        group_id, ApiKey.OFFSET_FETCH, request, lambda answer: [one.error_code for one in answer.groups]
    )
    (row,) = answer.groups
    if row.error_code:
        why = why_refused(node, group_id, row.error_code)
        raise RequestFailed(f"the offsets of group {group_id} cannot be read: {why}")
    found = {
        (topic.name, one.partition_index): Committed(one.committed_offset, one.metadata or "")
        for topic in row.topics
        for one in topic.partitions
        if one.committed_offset >= 0
    }
    return dict(sorted(found.items()))


def commit(client: KafkaClient, group_id: str, offsets: Mapping[Partition, int]) -> dict[Partition, str]:
    """Commit offsets of an inactive group, without being a member. Returns why partitions were refused."""

    def part(topics: Mapping[str, list[int]]) -> Any:
        rows = [
            offset_commit.OffsetCommitRequestTopic(topic, partitions=[
                offset_commit.OffsetCommitRequestPartition(number, offsets[topic, number]) for number in numbers
            ])
            for topic, numbers in topics.items()
        ]  # fmt: skip
        _, answer = client.ask_coordinator(
            group_id, ApiKey.OFFSET_COMMIT, offset_commit.OffsetCommitRequest(group_id, topics=rows),
            lambda answer: [one.error_code for topic in answer.topics for one in topic.partitions],
        )  # fmt: skip
        return answer

    return _refused(sorted(offsets), part)


def delete(client: KafkaClient, group_id: str, partitions: Sequence[Partition]) -> dict[Partition, str]:
    """Delete committed offsets. Returns why partitions were refused. Raises RequestFailed if the request was."""

    def part(topics: Mapping[str, list[int]]) -> Any:
        rows = [
            offset_delete.OffsetDeleteRequestTopic(
                topic, [offset_delete.OffsetDeleteRequestPartition(number) for number in numbers]
            )
            for topic, numbers in topics.items()
        ]
        request = offset_delete.OffsetDeleteRequest(group_id, rows)
        _, answer = client.ask_coordinator(group_id, ApiKey.OFFSET_DELETE, request, lambda answer: [answer.error_code])
        if answer.error_code:
            raise RequestFailed(f"offsets of group {group_id} cannot be deleted: {_why(answer.error_code)}")
        return answer

    return _refused(partitions, part)


def _refused(partitions: Sequence[Partition], ask: Callable[[Mapping[str, list[int]]], Any]) -> dict[Partition, str]:
    """Send requests of `AT_ONCE` partitions each. Returns the reason for each refused partition."""
    return {
        (topic.name, one.partition_index): _why(one.error_code)
        for start in range(0, len(partitions), AT_ONCE)
        for topic in ask(by_topic(partitions[start : start + AT_ONCE])).topics
        for one in topic.partitions
        if one.error_code
    }


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """The partition numbers of each topic, in order."""
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found


def say_refused(command: str, group_id: str, done: str, refused: Mapping[Partition, str]) -> None:
    """Print the refused partitions, a line for each topic and reason. `done`: "committed" or "deleted"."""
    reasons: dict[tuple[str, str], list[int]] = {}
    for (topic, number), why in sorted(refused.items()):
        reasons.setdefault((topic, why), []).append(number)
    for (topic, why), numbers in reasons.items():
        say(f"{command}: offsets of {group_id} in {topic}:{ranges(numbers)} were not {done}: {why}", sys.stderr)


def _why(error_code: int) -> str:
    """Kafka's name of an error, and what to do about the error if that is known."""
    text = sentence(error_code)
    if error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
        return f"{text}: stop its members, or have them subscribe to another topic"
    if error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH,
                      ErrorCode.NON_EMPTY_GROUP):  # fmt: skip
        return f"{text}: the group has members now; stop them first"
    return text


def say_csv(rows: Iterable[tuple[str, Partition, int]], *, with_group: bool) -> None:
    """Print offsets as lines of CSV."""
    for line in as_csv(rows, with_group=with_group).splitlines():
        say(line)


class Row(NamedTuple):
    """A partition of a group. `offset`: committed, or a share group's start. `lag` None: it is end minus `offset`."""

    group: str
    topic: str
    partition: int
    offset: int
    lag: int | None
    metadata: str
    member: str | None


@with_client(check_groups, check_form)
def run_offsets(client: KafkaClient, options: argparse.Namespace) -> int:
    """Run `muster groups offsets`, and return the exit status."""
    return offsets(client, group_names(options), form=output_form(options))


def offsets(client: KafkaClient, group_ids: Sequence[str] | None, *, form: str) -> int:
    """Print committed offsets of these groups (None: all). `form`: text, json, csv. Exit status 1: a group has none."""
    names = [one.group_id for one in all_groups(client)] if group_ids is None else list(dict.fromkeys(group_ids))
    rows: list[Row] = []
    status = 0
    for name in names:
        try:
            found = _rows(client, name)
            if not found and group_ids is not None:
                raise RequestFailed(f"group {name} has no committed offsets")
        except RequestFailed as failure:
            say(f"muster groups offsets: {failure}", sys.stderr)
            status = 1
            continue
        rows += found
    _print(client, rows, form, with_group=len(names) > 1 or group_ids is None)
    if not rows and not status:
        say("no group has committed offsets" if names else "there are no groups", sys.stderr)
    return status


def _rows(client: KafkaClient, group_id: str) -> list[Row]:
    committed = fetch_committed(client, group_id)
    try:
        found = find_group(client, group_id)
        if found is None and not committed:
            raise NoGroup(group_id)
    except NoGroup:
        raise
    except RequestFailed:  # a user may be allowed to read offsets, but not to describe the group
        found = None
    if found is not None and found.type == "share" and not committed:
        starts = share_offsets(client, group_id)
        if not starts:
            raise RequestFailed(
                f"share group {group_id} has no start offsets yet: its members have acknowledged nothing"
            )
        return [Row(group_id, *one, start, lag, "", None) for one, (start, lag) in starts.items()]
    owners = {} if found is None else _owners(found)
    return [Row(group_id, *one, it.offset, None, it.metadata, owners.get(one)) for one, it in committed.items()]


def _owners(found: Description) -> Mapping[Partition, str]:
    return {
        (topic, partition): one.instance or one.member
        for one in found.members
        for topic, partitions in one.partitions.items()
        for partition in partitions
    }


def _print(client: KafkaClient, rows: Iterable[Row], form: str, *, with_group: bool) -> None:
    found = list(rows)
    if form == "csv":
        say_csv([(one.group, (one.topic, one.partition), one.offset) for one in found], with_group=with_group)
        return
    ends = end_offsets(client, {(one.topic, one.partition) for one in found})
    cells = [_cells(one, ends.get((one.topic, one.partition))) for one in found]
    first = 0 if with_group or form == "json" else 1
    print_rows(_HEAD[first:], [row[first:] for row in cells], as_json=form == "json")


def _cells(row: Row, end: int | None) -> tuple[object, ...]:
    lag = row.lag
    if lag is None and end is not None:
        lag = max(end - row.offset, 0)
    return (*row[:4], end, lag, row.metadata, row.member)
