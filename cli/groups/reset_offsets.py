"""`muster groups offsets reset` has the scenarios of `kafka-consumer-groups --reset-offsets`; `--execute` commits."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from muster.cli.groups.delete_groups import all_partitions, check_inactive, consumer_groups, say_nothing_changed
from muster.cli.groups.offsets import Committed, commit, fetch_committed, say_csv, say_refused
from muster.cli.groups.option_values import ResetPlan, Scenario, check_form, reset_plan
from muster.cli.output import print_json, print_table, say
from muster.cli.running_server import with_client
from muster.client.connection import RequestFailed
from muster.client.kafka_client import KafkaClient, Partition
from muster.client.list_offsets import EARLIEST, LATEST, offsets_at

COMMAND: Final = "muster groups offsets reset"


class Row(NamedTuple):
    """A partition of a group with its new `offset`. `before`: the committed offset until now; None: there was none."""

    group: str
    partition: Partition
    before: int | None
    offset: int


def _check(options: argparse.Namespace) -> None:
    check_form(options)
    options.plan = reset_plan(options)


@with_client(_check)
def run_reset(client: KafkaClient, options: argparse.Namespace) -> int:
    """Print the new offsets of groups; --execute commits them. Exit status 1: a group or partition was refused."""
    plan: ResetPlan = options.plan
    groups = consumer_groups(client) if plan.groups is None else plan.groups
    if plan.groups is None and plan.lines:
        groups = [one for one in groups if any(line.group == one for line in plan.lines)]
    chosen = None if plan.topics is None else all_partitions(client, plan.topics)
    rows: list[Row] = []
    status = 0
    for group in dict.fromkeys(groups):
        try:
            check_inactive(client, group)
            planned = _rows(client, group, plan, chosen)
            refused = commit(client, group, {one.partition: one.offset for one in planned}) if plan.execute else {}
        except RequestFailed as failure:
            say(f"{COMMAND}: {failure}", sys.stderr)
            status = 1
            continue
        say_refused(COMMAND, group, "committed", refused)
        status = 1 if refused else status
        rows += [one for one in planned if one.partition not in refused]
    _print(rows, plan, with_group=plan.groups is None or len(groups) > 1)
    if rows and not plan.execute:
        say_nothing_changed(COMMAND)
    return status


def _rows(client: KafkaClient, group: str, plan: ResetPlan, chosen: Sequence[Partition] | None) -> list[Row]:
    committed = fetch_committed(client, group)
    if plan.scenario.name == "from-file":
        wanted = {
            (one.topic, one.partition): one.offset for one in plan.lines if one.group is None or one.group == group
        }
        if not wanted:
            raise RequestFailed(f"no line of --from-file is of group {group}")
        partitions: Sequence[Partition] = sorted(wanted)
    else:
        wanted = {}
        partitions = list(committed) if chosen is None else chosen
    if not partitions:
        if plan.groups is None:
            return []
        raise RequestFailed(f"group {group} has no committed offsets: name topics with --topic")
    offsets = _offsets(client, group, plan.scenario, partitions, committed, wanted)
    return [
        Row(group, one, committed[one].offset if one in committed else None, offset) for one, offset in offsets.items()
    ]


def _offsets(
    client: KafkaClient,
    group: str,
    scenario: Scenario,
    partitions: Sequence[Partition],
    committed: Mapping[Partition, Committed],
    planned: Mapping[Partition, int],
) -> dict[Partition, int]:
    name = scenario.name
    if name == "to-earliest":
        return _at(client, partitions, EARLIEST)
    if name == "to-latest":
        return _at(client, partitions, LATEST)
    if name in ("to-datetime", "by-duration"):
        return _at_time(client, partitions, scenario.value)
    if name == "to-current":
        without = [one for one in partitions if one not in committed]
        ends = _at(client, without, LATEST)
        return {one: committed[one].offset if one in committed else ends[one] for one in partitions}
    if name == "to-offset":
        planned = dict.fromkeys(partitions, scenario.value)
    elif name == "shift-by":
        for topic, number in partitions:
            if (topic, number) not in committed:
                raise RequestFailed(
                    f"group {group} has no committed offset in {topic}-{number} that could be shifted: leave the "
                    "partition out, or give --to-earliest, --to-latest or --to-offset for it"
                )
        planned = {one: committed[one].offset + scenario.value for one in partitions}
    return _within(client, planned)


def _at(client: KafkaClient, partitions: Sequence[Partition], timestamp: int) -> dict[Partition, int]:
    """Read the offset of each partition at a timestamp. Raises RequestFailed when a partition has no known offset."""
    if not partitions:
        return {}
    found = offsets_at(client, partitions, timestamp)
    for topic, number in partitions:
        if (topic, number) not in found:
            raise RequestFailed(f"{topic}-{number} does not exist, or has no leader: its offsets are not known")
    return {one: found[one] for one in partitions}


def _at_time(client: KafkaClient, partitions: Sequence[Partition], time_ms: int) -> dict[Partition, int]:
    """The first offset of each partition at or after a time; if none, the end, as in Kafka's tool."""
    found = _at(client, partitions, max(time_ms, 0))
    without = [one for one, offset in found.items() if offset < 0]
    ends = _at(client, without, LATEST)
    for topic, number in without:
        say(f"{COMMAND}: {topic}-{number} has no record from that time on: its end is taken", sys.stderr)
    return {one: ends.get(one, offset) for one, offset in found.items()}


def _within(client: KafkaClient, planned: Mapping[Partition, int]) -> dict[Partition, int]:
    """The planned offsets. An offset outside its partition becomes start or end, as in Kafka's tool."""
    partitions = list(planned)
    starts, ends = _at(client, partitions, EARLIEST), _at(client, partitions, LATEST)
    found: dict[Partition, int] = {}
    for one, offset in planned.items():
        topic, number = one
        found[one] = min(max(offset, starts[one]), ends[one])
        if offset < starts[one]:
            say(f"{COMMAND}: {offset} is before the beginning of {topic}-{number}: {starts[one]} is taken", sys.stderr)
        elif offset > ends[one]:
            say(f"{COMMAND}: {offset} is behind the end of {topic}-{number}: {ends[one]} is taken", sys.stderr)
    return found


def _print(rows: Sequence[Row], plan: ResetPlan, *, with_group: bool) -> None:
    if plan.form == "csv":
        say_csv([(one.group, one.partition, one.offset) for one in rows], with_group=with_group)
    elif plan.form == "json":
        for one in rows:
            topic, number = one.partition
            print_json({"group": one.group, "topic": topic, "partition": number, "offset": one.before,
                        "new_offset": one.offset, "executed": plan.execute})  # fmt: skip
    elif rows:
        head = ("GROUP", "TOPIC", "PARTITION", "OFFSET", "NEW OFFSET")
        print_table(head, [(one.group, *one.partition, one.before, one.offset) for one in rows])
