"""`muster groups offsets reset`: new committed offsets of inactive groups, shown or committed.

The scenarios are those of `kafka-consumer-groups --reset-offsets`. Partitions without a committed offset, and offsets
outside of their partitions, are treated alike, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from muster.cli.groups.changing import consumer_groups, inactive, say_nothing_changed
from muster.cli.groups.committed import Committed, commit, fetch_committed, say_refused
from muster.cli.groups.plans import Chosen, Planned, as_csv
from muster.cli.output import say
from muster.cli.table import print_json, print_table
from muster.client.connection import AskingFailed
from muster.client.kafka_client import Cluster
from muster.client.list_offsets import EARLIEST, LATEST, Partition, offsets_at

COMMAND: Final = "muster groups offsets reset"


class Scenario(NamedTuple):
    """The new place of offsets. `name`: Kafka's option without `--`; `value`: offset, shift or time (wall ms)."""

    name: str
    value: int = 0


class Asked(NamedTuple):
    """The reset that a user wants."""

    groups: tuple[str, ...] | None
    """None: all groups of consumers."""
    topics: tuple[Chosen, ...] | None
    """None: all partitions with a committed offset. A plan does not use it."""
    scenario: Scenario
    plan: tuple[Planned, ...]
    """The lines of a file, for the scenario from-file."""
    execute: bool
    form: str
    """text, json or csv."""


class Row(NamedTuple):
    """One partition of a group. `before`: its committed offset, or None."""

    group: str
    partition: Partition
    before: int | None
    offset: int


def reset(cluster: Cluster, asked: Asked) -> int:
    """Print the new offsets of the groups, and commit them if the user wants that. Exit status 1: one was refused."""
    groups = consumer_groups(cluster) if asked.groups is None else asked.groups
    if asked.groups is None and asked.plan:
        groups = [one for one in groups if any(line.group == one for line in asked.plan)]
    chosen = None if asked.topics is None else all_partitions(cluster, asked.topics)
    rows: list[Row] = []
    status = 0
    for group in dict.fromkeys(groups):
        try:
            inactive(cluster, group, "reset")
            planned = _rows(cluster, group, asked, chosen)
            refused = commit(cluster, group, {one.partition: one.offset for one in planned}) if asked.execute else {}
        except AskingFailed as failure:
            say(f"{COMMAND}: {failure}", sys.stderr)
            status = 1
            continue
        say_refused(COMMAND, group, "committed", refused)
        status = 1 if refused else status
        rows += [one for one in planned if one.partition not in refused]
    _print(rows, asked, with_group=asked.groups is None or len(groups) > 1)
    if rows and not asked.execute:
        say_nothing_changed(COMMAND)
    return status


def all_partitions(cluster: Cluster, chosen: Iterable[Chosen]) -> list[Partition]:
    """The partitions that `--topic` names. Raises AskingFailed when the topic or partition does not exist."""
    wanted = list(chosen)
    found: dict[Partition, None] = {}
    known = cluster.topics(sorted({one.topic for one in wanted}))
    for topic, partitions in wanted:
        if topic not in known:
            raise AskingFailed(f"--topic {topic}: {cluster.why_no_topic(topic)}")
        there = sorted(one.partition_index for one in known[topic].partitions)
        for number in there if partitions is None else partitions:
            if number not in there:
                raise AskingFailed(f"--topic {topic}:{number}: the partitions of {topic} are 0 to {len(there) - 1}")
            found[topic, number] = None
    return sorted(found)


def _rows(cluster: Cluster, group: str, asked: Asked, chosen: Sequence[Partition] | None) -> list[Row]:
    committed = fetch_committed(cluster, group)
    if asked.scenario.name == "from-file":
        wanted = {
            (one.topic, one.partition): one.offset for one in asked.plan if one.group is None or one.group == group
        }
        if not wanted:
            raise AskingFailed(f"no line of --from-file is of group {group}")
        partitions: Sequence[Partition] = sorted(wanted)
    else:
        wanted = {}
        partitions = list(committed) if chosen is None else chosen
    if not partitions:
        if asked.groups is None:
            return []
        raise AskingFailed(f"group {group} has no committed offsets: name topics with --topic")
    offsets = _offsets(cluster, group, asked.scenario, partitions, committed, wanted)
    return [
        Row(group, one, committed[one].offset if one in committed else None, offset) for one, offset in offsets.items()
    ]


def _offsets(
    cluster: Cluster,
    group: str,
    scenario: Scenario,
    partitions: Sequence[Partition],
    committed: Mapping[Partition, Committed],
    planned: Mapping[Partition, int],
) -> dict[Partition, int]:
    """The new offset of each partition. Raises AskingFailed."""
    name = scenario.name
    if name == "to-earliest":
        return _at(cluster, partitions, EARLIEST)
    if name == "to-latest":
        return _at(cluster, partitions, LATEST)
    if name in ("to-datetime", "by-duration"):
        return _at_time(cluster, partitions, scenario.value)
    if name == "to-current":
        without = [one for one in partitions if one not in committed]
        ends = _at(cluster, without, LATEST)
        return {one: committed[one].offset if one in committed else ends[one] for one in partitions}
    if name == "to-offset":
        planned = dict.fromkeys(partitions, scenario.value)
    elif name == "shift-by":
        for topic, number in partitions:
            if (topic, number) not in committed:
                raise AskingFailed(
                    f"group {group} has no committed offset in {topic}-{number} that could be shifted: leave the "
                    "partition out, or give --to-earliest, --to-latest or --to-offset for it"
                )
        planned = {one: committed[one].offset + scenario.value for one in partitions}
    return _within(cluster, planned)


def _at(cluster: Cluster, partitions: Sequence[Partition], timestamp: int) -> dict[Partition, int]:
    """Raises AskingFailed when the offset of a partition is not known."""
    if not partitions:
        return {}
    found = offsets_at(cluster, partitions, timestamp)
    for topic, number in partitions:
        if (topic, number) not in found:
            raise AskingFailed(f"{topic}-{number} is not there, or has no leader: its offsets are not known")
    return {one: found[one] for one in partitions}


def _at_time(cluster: Cluster, partitions: Sequence[Partition], time_ms: int) -> dict[Partition, int]:
    """The first offsets that are not older; the end if a partition has none, as in Kafka's tool."""
    found = _at(cluster, partitions, max(time_ms, 0))
    without = [one for one, offset in found.items() if offset < 0]
    ends = _at(cluster, without, LATEST)
    for topic, number in without:
        say(f"{COMMAND}: {topic}-{number} has no record from that time on: its end is taken", sys.stderr)
    return {one: ends.get(one, offset) for one, offset in found.items()}


def _within(cluster: Cluster, planned: Mapping[Partition, int]) -> dict[Partition, int]:
    """These offsets, moved into their partitions if they are outside, as in Kafka's tool."""
    partitions = list(planned)
    starts, ends = _at(cluster, partitions, EARLIEST), _at(cluster, partitions, LATEST)
    found: dict[Partition, int] = {}
    for one, offset in planned.items():
        topic, number = one
        found[one] = min(max(offset, starts[one]), ends[one])
        if offset < starts[one]:
            say(f"{COMMAND}: {offset} is before the beginning of {topic}-{number}: {starts[one]} is taken", sys.stderr)
        elif offset > ends[one]:
            say(f"{COMMAND}: {offset} is behind the end of {topic}-{number}: {ends[one]} is taken", sys.stderr)
    return found


def _print(rows: Sequence[Row], asked: Asked, *, with_group: bool) -> None:
    if asked.form == "csv":
        say_csv([(one.group, one.partition, one.offset) for one in rows], with_group=with_group)
    elif asked.form == "json":
        for one in rows:
            topic, number = one.partition
            print_json({"group": one.group, "topic": topic, "partition": number, "offset": one.before,
                        "new_offset": one.offset, "executed": asked.execute})  # fmt: skip
    elif rows:
        head = ("GROUP", "TOPIC", "PARTITION", "OFFSET", "NEW OFFSET")
        print_table(head, [(one.group, *one.partition, one.before, one.offset) for one in rows])


def say_csv(rows: Iterable[tuple[str, Partition, int]], *, with_group: bool) -> None:
    """Print lines of CSV."""
    for line in as_csv(rows, with_group=with_group).splitlines():
        say(line)
