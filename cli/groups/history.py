"""`muster groups history` and `muster groups watch`: the timeline of a group."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from threading import Event
from typing import Final

from muster.cli.output import say
from muster.cli.table import print_json
from muster.client.connection import AskingFailed
from muster.client.event_reader import Events, Value
from muster.client.kafka_client import Cluster
from muster.coordinator.history.timeline import Timeline

RETRY_S: Final = 0.5
"""How long `watch` waits before it looks again for a server that does not answer."""


def history(cluster: Cluster, group_id: str, *, as_json: bool, everything: bool, last: int | None) -> int:
    """Print the history of a group; exit status 1 when nothing is known of it."""
    values: Iterable[Value] = Events(cluster).upto_now(group_id)
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
        raise AskingFailed(
            f"there is no history of a group {group_id}: no member has joined it since its events are kept; "
            "muster groups list shows the groups that there are"
        )
    return 0


def watch(cluster: Cluster, group_id: str | None, *, as_json: bool, everything: bool) -> int:
    """Print events from now on, until interrupted."""
    events = Events(cluster)
    ends = events.ends()
    position = ends if group_id is None else {(one := events.partition_of(group_id)): ends[one]}
    timelines: dict[str | None, Timeline] = {}
    for value in _follow(cluster, events, position):
        group = value["group"]
        if group_id is not None and group != group_id:
            continue
        if as_json:
            print_json(value)
            continue
        # groups that exist only for a short time must not be remembered for ever
        timeline = timelines.setdefault(group, Timeline(dates=False, everything=everything))
        _print(timeline, value, "" if group_id is not None or group is None else f"{group}: ")
        if value["kind"] == "group_deleted":
            del timelines[group]
    return 0


def _follow(cluster: Cluster, events: Events, position: dict[int, int]) -> Iterator[Value]:
    """Every event from `position` on, also those that were written while the server did not answer."""
    while True:
        try:
            yield from events.follow(position)
        except AskingFailed:
            where = cluster.address
            say(f"muster groups watch: the connection to {where} was lost; waiting until it is back", sys.stderr)
            events = _found_again(cluster)
            say(f"muster groups watch: {where} is back", sys.stderr)


def _found_again(cluster: Cluster) -> Events:
    patience = Event()
    while True:
        try:
            cluster.reconnect()
            return Events(cluster)
        except AskingFailed:
            patience.wait(RETRY_S)


def _print(timeline: Timeline, value: Value, group: str) -> None:
    for line in timeline.feed(value):
        time, space, text = line.partition(" ")
        say(f"{time}{space}{group}{text}")
