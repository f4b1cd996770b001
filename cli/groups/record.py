"""`muster groups record` says what became of one record in a share group, from the state log of any Kafka.

The log is read from a cluster, or from a data directory.

On Muster, the group's history says more: who held the record, and why a delivery ended.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from muster.cli.groups.option_values import check_group, whole_number
from muster.cli.groups.record_files import NO_RECORD_YET, NO_SUCH_STATE, events_in, life_in
from muster.cli.groups.share_log import STATE_LOG, entries, range_of
from muster.cli.log.files import WrongPath
from muster.cli.output import fail, print_json, printing, say_sentence
from muster.cli.running_server import with_client
from muster.client.connection import RequestFailed
from muster.client.event_reader import OF_GROUPS, Events, Value
from muster.client.kafka_client import KafkaClient, Partition
from muster.client.list_offsets import end_offsets
from muster.coordinator.config.checks import ConfigError
from muster.coordinator.groups.common.events import DELIVERIES_FAILED
from muster.coordinator.history.words import deliveries_failed
from muster.coordinator.share_state.persister import StateKey
from muster.coordinator.share_state.record_life import (
    NO_STATE,
    NOT_BEGUN,
    PASSED,
    WAITING,
    Moment,
    Position,
    life,
)
from muster.coordinator.system.wall_time import format_wall
from muster.protocol.hashing import group_partition

COMMAND: Final = "muster groups record"
_TIME: Final = "%Y-%m-%d %H:%M:%S"

_SENTENCES: Final = {
    "AVAILABLE": "delivery {} ended without success: its worker released it, or the lock was over; it is available",
    "ACQUIRED": "a worker holds it in delivery {}",
    "ACKNOWLEDGED": "it was accepted in delivery {}",
    "ARCHIVING": "it was given up in delivery {}, and goes to the dead-letter queue",
    "ARCHIVED": "it was archived in delivery {}: it was rejected, or delivered as often as the group allows",
    WAITING: "no delivery of it has ended: it waits, or a worker holds it",
    PASSED: "the group is done with it: its start offset is {start}",
    NOT_BEGUN: "the group has not begun with this partition",
    NO_STATE: "the group has no state for this partition any more",
}


def run_values(options: argparse.Namespace) -> tuple[Partition, int]:
    """The partition and the offset of the record. Raises ConfigError."""
    topic, dash, number = options.partition.rpartition("-")
    if not dash or not topic or not number.isascii() or not number.isdigit():
        raise ConfigError(f"{options.partition}: a topic and a partition, such as orders-0, were expected")
    return (topic, int(number)), whole_number("OFFSET", options.offset)


def run(options: argparse.Namespace) -> int:
    """Print the life of a record. Exit status 1: the group has no state for the partition."""
    if options.log is None:
        return _of_cluster(options)
    try:
        check_group(options)
        run_values(options)
    except ConfigError as error:
        return fail(COMMAND, error, 2)
    return printing(COMMAND, lambda: _of_directory(options))


@with_client(check_group, run_values)
def _of_cluster(client: KafkaClient, options: argparse.Namespace) -> int:
    place, offset = run_values(options)
    moments = find_life(client, options.group, place, offset)
    return _print(options, moments, _events(client, options.group))


def _of_directory(options: argparse.Namespace) -> int:
    place, offset = run_values(options)
    try:
        moments = life_in(options.log, options.group, place, offset)
        return _print(options, moments, events_in(options.log, options.group))
    except (WrongPath, OSError) as error:
        return fail(COMMAND, error)


def _print(options: argparse.Namespace, moments: Sequence[Moment], of_group: Iterable[Value]) -> int:
    """Print a life. `of_group`: the events in the history of the group."""
    (topic, number), offset = run_values(options)
    events = [one for one in of_group if _is_about(one, (topic, number), offset)]
    if options.json:
        print_json(
            {
                "group": options.group,
                "topic": topic,
                "partition": number,
                "offset": offset,
                "moments": [_as_json(moment) for moment in moments],
                "events": events,
            }
        )
        return 0
    for line in lines(moments, events):
        say_sentence(line)
    return 0


def _as_json(moment: Moment) -> dict[str, object]:
    return {
        "ms": moment.ms,
        "state": moment.position.what,
        "deliveries": moment.position.deliveries,
        "start_offset": moment.start_offset,
    }


def lines(moments: Sequence[Moment], events: Sequence[Value] = ()) -> list[str]:
    """The life of a record in sentences; the last line is its present state. `events`: those of the group's history."""
    by_end = {(one["deliveries"], one["state"]): deliveries_failed(one) for one in events}
    found = []
    for place, moment in enumerate(moments):
        since = " (the oldest entry of the log)" if place == 0 else ""
        what, deliveries = moment.position
        text = by_end.get((deliveries, what.lower())) or _sentence(moment)
        found.append(f"{format_wall(moment.ms, _TIME)}  {text}{since}")
    return [*found, f"now: {_summary([one.position for one in moments])}"]


def _sentence(moment: Moment) -> str:
    return _SENTENCES[moment.position.what].format(moment.position.deliveries, start=moment.start_offset)


def _summary(positions: Sequence[Position]) -> str:
    now = positions[-1]
    if now.what == PASSED:
        before = [one for one in positions if one.what != PASSED]
        if not before:
            return "the group is done with it, or began behind it"
        if before[-1].what in ("ACKNOWLEDGED", "ARCHIVED"):
            return f"done, {before[-1].what.lower()} after {_times(before[-1].deliveries)}"
        return f"done after {_times(before[-1].deliveries)} without success: accepted, archived or passed over"
    if now.deliveries:
        return f"{now.what.lower()} after {_times(now.deliveries)}"
    return _SENTENCES[now.what].format(0, start=0)


def _times(deliveries: int) -> str:
    return "1 delivery" if deliveries == 1 else f"{deliveries or 'no'} deliveries"


def _events(client: KafkaClient, group: str) -> list[Value]:
    """The events of the group's history; none where the history does not exist or cannot be read."""
    if OF_GROUPS.topic not in client.topics([OF_GROUPS.topic]):
        return []
    with suppress(RequestFailed):
        return [*Events(client).upto_now(group)]
    return []


def _is_about(event: Value, place: Partition, offset: int) -> bool:
    """Whether an event is about deliveries of the record."""
    return (
        event["kind"] == DELIVERIES_FAILED
        and (event["topic"], event["partition"]) == place
        and event["first_offset"] <= offset <= event["last_offset"]
    )


# ---- the log


def find_life(client: KafkaClient, group: str, place: Partition, offset: int) -> list[Moment]:
    """The life of a record. Raises RequestFailed if the cluster knows nothing of it."""
    topic, number = place
    topics = client.topics([topic, STATE_LOG])
    known = topics.get(topic)
    if known is None or number >= len(known.partitions):
        raise RequestFailed(f"{topic}-{number}: {client.address} has no such partition, or this user may not see it")
    if STATE_LOG not in topics:
        raise RequestFailed(f"{client.address} shows no topic {STATE_LOG}: no share group has begun there")
    end = end_offsets(client, [place]).get(place, 0)
    if offset >= end:
        raise RequestFailed(NO_RECORD_YET.format(place=f"{topic}-{number}", end=end, offset=offset))
    key = StateKey(group, known.topic_id, number)
    partition = group_partition(str(key), len(topics[STATE_LOG].partitions))
    moments = life(entries(client, partition, range_of(client, partition)), key, offset)
    if not moments:
        raise RequestFailed(NO_SUCH_STATE.format(group=group, place=f"{topic}-{number}"))
    return moments
