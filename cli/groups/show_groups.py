"""`muster groups describe`, `history` and `watch` show a group's members, events, episodes and verdict."""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from threading import Event
from typing import Any, Final

from muster.cli.clients import Report, reports_of_members, says
from muster.cli.groups.option_values import check_group, check_groups, group_names
from muster.cli.groups.read_groups import NoGroup, all_groups, find_group
from muster.cli.groups.share_records import HEAD, PartitionRecords, as_json, cells, sentence, share_records
from muster.cli.groups.streams_topology import topology_lines
from muster.cli.output import print_json, print_table, say, say_sentence, table_width, terminal_width
from muster.cli.running_server import with_client
from muster.client.connection import RequestFailed
from muster.client.event_reader import OF_GROUPS, Events, Value
from muster.client.kafka_client import KafkaClient
from muster.coordinator.history.timeline import Timeline
from muster.coordinator.history.words import short
from muster.coordinator.http.described_groups import SHARE, Description, partition_words, pending_revocations
from muster.coordinator.http.described_tasks import task_lines
from muster.coordinator.system.wall_time import wall_now_ms
from muster.pipeline.episodes.from_events import EventEpisodes, episodes_of_events
from muster.pipeline.episodes.verdict import Verdict
from muster.pipeline.episodes.verdict import describe as episode_sentence

SAME: Final = "="
"""The cell in the column TARGET when a member's target assignment is its current one."""
RETRY_S: Final = 0.5
"""How long `watch` waits before it tries again to reach a server."""
NEWEST: Final = 20_000
"""The most events that are read from the partition of a group."""


@with_client(check_group)
def run_history(client: KafkaClient, options: argparse.Namespace) -> int:
    """Run `muster groups history`, and return the exit status."""
    if options.episodes:
        return print_episodes(client, options.group, as_json=options.json)
    return history(client, options.group, as_json=options.json, everything=options.all, last=options.last)


@with_client(check_groups)
def run_describe(client: KafkaClient, options: argparse.Namespace) -> int:
    """Describe the named groups, or every group. Exit status 1: a group does not exist, or cannot be described."""
    group_ids = group_names(options)
    names = [one.group_id for one in all_groups(client)] if group_ids is None else group_ids
    status = 0
    if not names:
        say("there are no groups", sys.stderr)
    reported = reports_of_members(client) if names else {}
    for number, group_id in enumerate(dict.fromkeys(names)):
        try:
            found = find_group(client, group_id)
            if found is None:
                raise NoGroup(group_id)
        except RequestFailed as failure:
            say(f"muster groups describe: {failure}", sys.stderr)
            status = 1
            continue
        judged = verdict_of(client, group_id)
        records = _records(client, found)
        if options.json:
            verdict = None if judged is None else {"level": judged.level, "text": judged.text}
            members = [one._asdict() | _figures(reported.get((group_id, one.member))) for one in found.members]
            parts = None if found.subtopologies is None else [one._asdict() for one in found.subtopologies]
            shown = found._asdict() | {"members": members, "subtopologies": parts, "verdict": verdict}
            print_json(shown if records is None else shown | {"records": as_json(records, wall_now_ms())})
        else:
            if number:
                say("")
            print_group(found, None if judged is None else judged.text)
            for line in topology_lines(client, found):
                say_sentence(line)
            for member in sorted(one.member for one in found.members):
                report = reported.get((group_id, member))
                if report is not None and report["figures"]:
                    say_sentence(says(member, report))
            if records:
                print_records(records)
    return status


def _records(client: KafkaClient, found: Description) -> list[PartitionRecords] | None:
    """The records of a share group. None: the group is of another type, or its offsets cannot be read."""
    if found.type != SHARE:
        return None
    with suppress(RequestFailed):
        return share_records(client, found.group)
    return None


def print_records(records: Sequence[PartitionRecords]) -> None:
    """Print the records of a share group: the sums, and each partition."""
    now_ms = wall_now_ms()
    say_sentence(sentence(records, now_ms))
    print_table(HEAD, cells(records, now_ms))


def _figures(report: Report | None) -> dict[str, object]:
    return {} if report is None else {"figures": report["figures"], "reported": report["pushed_ms"]}


def print_group(found: Description, verdict: str | None) -> None:
    """Print one group, with the verdict before the members. Long lines are wrapped or shortened for a terminal."""
    about: list[Any] = [f"type {found.type}", f"protocol type {found.protocol_type}" if found.protocol_type else "",
                        found.protocol, f"epoch {found.epoch}" if found.epoch is not None else ""]  # fmt: skip
    known = ", ".join(one for one in about if one)
    count = len(found.members)
    say(f"group {found.group}: {found.state}, {count} member{'' if count == 1 else 's'} ({known})")
    if verdict is not None:
        say_sentence(f"verdict: {verdict}")
    if not found.members:
        return
    members = sorted(found.members, key=lambda one: one.member)
    head, rows = _members_table(found)
    wide = terminal_width()
    if wide is not None and table_width(head, rows) > wide:
        rows = [(short(str(row[0])), *row[1:]) for row in rows]
    print_table(head, rows)
    for line in (*pending_revocations(found), *task_lines(members)):
        say_sentence(line)


def _members_table(found: Description) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    members = sorted(found.members, key=lambda one: one.member)
    rows: list[tuple[object, ...]] = [
        (one.member, one.instance, one.client_id, one.host.lstrip("/"), partition_words(one.assignment))
        for one in members
    ]
    head: tuple[str, ...] = ("MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS")
    if found.epoch is None:
        return head, rows
    for number, one in enumerate(members):
        target = SAME if one.target == one.assignment else None if one.target is None else partition_words(one.target)
        rows[number] = (*rows[number][:4], one.protocol, one.epoch, rows[number][4], target)
    # the members of a Streams group have tasks (SUBTOPOLOGY:PARTITION), not partitions
    has = "TASKS" if found.type == "streams" else "PARTITIONS"
    return (*head[:4], "PROTOCOL", "EPOCH", has, "TARGET"), rows


def history(client: KafkaClient, group_id: str, *, as_json: bool, everything: bool, last: int | None) -> int:
    """Print the history of a group. Exit status 1: the history has no event of this group."""
    values: Iterable[Value] = Events(client).upto_now(group_id)
    if last is not None:
        values = deque(values, last)
    timeline = Timeline(everything=everything)
    count = 0
    for value in values:
        count += 1
        if as_json:
            print_json(value)
        else:
            _print(timeline, value, "")
    if not count:
        raise RequestFailed(
            f"there is no history of a group {group_id}: no member has joined it since its events are kept; "
            "muster groups list shows the existing groups"
        )
    return 0


@with_client(check_group)
def run_watch(client: KafkaClient, options: argparse.Namespace) -> int:
    """Print the events of all groups from now on, until the user interrupts."""
    group_id = options.group
    events = Events(client)
    ends = events.ends()
    position = ends if group_id is None else {(one := events.partition_of(group_id)): ends[one]}
    timelines: dict[str | None, Timeline] = {}
    for value in _follow(client, events, position):
        group = value["group"]
        if group_id is not None and group != group_id:
            continue
        if options.json:
            print_json(value)
            continue
        # otherwise the memory would grow with each group that exists only for a short time
        timeline = timelines.setdefault(group, Timeline(dates=False, everything=options.all))
        _print(timeline, value, "" if group_id is not None or group is None else f"{group}: ")
        if value["kind"] == "group_deleted":
            del timelines[group]
    return 0


def _follow(client: KafkaClient, events: Events, position: dict[int, int]) -> Iterator[Value]:
    """Every event from `position` on, also events from a time when the server did not answer."""
    while True:
        try:
            yield from events.follow(position)
        except RequestFailed:
            where = client.address
            say(f"muster groups watch: the connection to {where} was lost; waiting until it is back", sys.stderr)
            events = _reconnected(client)
            say(f"muster groups watch: {where} is back", sys.stderr)


def _reconnected(client: KafkaClient) -> Events:
    patience = Event()
    while True:
        try:
            client.reconnect()
            return Events(client)
        except RequestFailed:
            patience.wait(RETRY_S)


def _print(timeline: Timeline, value: Value, group: str) -> None:
    for line in timeline.feed(value):
        time, space, text = line.partition(" ")
        say(f"{time}{space}{group}{text}")


def verdict_of(client: KafkaClient, group_id: str) -> Verdict | None:
    """The verdict on a group, in one sentence; None: the cluster has no events of this group."""
    if client.topics([OF_GROUPS.topic]).get(OF_GROUPS.topic) is None:
        return None
    return _episodes(client, group_id).verdict


def print_episodes(client: KafkaClient, group_id: str, *, as_json: bool) -> int:
    """Print the episodes of a group, and the verdict. Raises RequestFailed when the group has no recent rebalance."""
    found = _episodes(client, group_id)
    if found.verdict is None:
        raise RequestFailed(f"no rebalance of a group {group_id} is among the last {NEWEST:,} events of its partition")
    now_ms = wall_now_ms()
    for one in found.episodes:
        if as_json:
            print_json(
                {"kind": one.kind, "from": one.from_ms, "until": one.until_ms, "members": one.members,
                 "rebalances": one.rebalances, "cost_ms": one.cost_ms, "confidence": one.confidence}
            )  # fmt: skip
        else:
            say_sentence(episode_sentence(one, now_ms))
    if as_json:
        print_json({"verdict": found.verdict.text, "level": found.verdict.level})
    else:
        say_sentence(f"verdict: {found.verdict.text}")
    return 0


def _episodes(client: KafkaClient, group_id: str) -> EventEpisodes:
    return episodes_of_events(Events(client).newest(group_id, NEWEST), wall_now_ms())
