"""The records of a share group for `muster groups describe`: lag, records in flight, the oldest unacknowledged record.

Any Kafka reports the lag. The state log says how far a group is, and which records were delivered in vain. Only Muster
says who holds records now.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from muster.cli.groups.read_groups import NOT_KNOWN, share_partitions
from muster.cli.groups.share_log import STATE_LOG, entries, range_of
from muster.client.connection import RequestFailed
from muster.client.fetch import first_record
from muster.client.kafka_client import KafkaClient, Partition
from muster.client.list_offsets import end_offsets
from muster.coordinator.history.words import MAX_NAMED, plural, seconds, short
from muster.coordinator.share.figures import CONFIG, Figures, figures
from muster.coordinator.share_state.persister import StateKey
from muster.coordinator.share_state.state import States
from muster.protocol.api import ApiKey
from muster.protocol.hashing import group_partition
from muster.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

GROUP: Final = 32
"""ConfigResource.Type.GROUP."""
NEWEST: Final = 200_000
"""The most records of one partition of the state log that are read. With more records, the figures are unknown."""
HEAD: Final = ("TOPIC", "PARTITION", "START", "END", "LAG", "IN FLIGHT", "RETRIED", "OLDEST", "AGE")


class PartitionRecords(NamedTuple):
    """The records of one partition. None stands for what is not known; no oldest record: all are done. Without a start
    offset, the group has not begun there.

    `in_flight`: records that members hold; `held`: how many each of them holds. `retried`: records with
    failed deliveries that are not done. `oldest_offset`: the oldest unacknowledged record, with its time.
    """

    topic: str
    partition: int
    start_offset: int | None
    end_offset: int | None
    lag: int | None
    in_flight: int | None
    retried: int | None
    oldest_offset: int | None
    oldest_ms: int | None
    held: Mapping[str, int] | None


class _Known(NamedTuple):
    """What is known of the records of a partition. `in_flight` None, `first_open` -1: not known.

    `start_offset` and `done` are only those of a leader of Muster.
    """

    held: Mapping[str, int] | None
    in_flight: int | None
    retried: int | None
    first_open: int
    start_offset: int = 0
    done: int = 0


_NOTHING_OPEN: Final = _Known({}, 0, 0, -1)
_UNKNOWN: Final = _Known(None, None, None, -1)


def share_records(client: KafkaClient, group_id: str) -> list[PartitionRecords]:
    """The records of each partition of the group. Raises RequestFailed.

    Kafka reports no start offset before the first acknowledgement; a leader of Muster does.
    """
    every = share_partitions(client, group_id)
    starts = {place: row for place, row in every.items() if row[0] != NOT_KNOWN}
    live = _live(client, group_id)
    begun = {place: (its.start_offset, None) for place, its in (live or {}).items() if place not in starts}
    ends = end_offsets(client, [*starts, *begun])
    for place, (start, _) in begun.items():
        starts[place] = start, ends[place] - start - live[place].done if live and place in ends else None
    topics = client.topics(sorted({topic for topic, _ in starts}))
    is_open = [place for place, (_, lag) in starts.items() if lag != 0]
    known = dict.fromkeys(starts, _NOTHING_OPEN) | dict.fromkeys(is_open, _UNKNOWN)
    known |= {place: its for place, its in (live or {}).items() if place in is_open}
    keys = {
        StateKey(group_id, topics[topic].topic_id, number): (topic, number)
        for topic, number in is_open
        if known[topic, number] is _UNKNOWN and topic in topics
    }
    for place, found in _logged(client, keys):
        # a leader of Muster that has not loaded the partition has given no record to a member
        base = _UNKNOWN if live is None else _NOTHING_OPEN
        known[place] = base._replace(retried=found.retried, first_open=found.first_open)
    leaders = {(name, one.partition_index): one.leader_id for name, its in topics.items() for one in its.partitions}
    rows = [
        _row(client, place, start, ends.get(place), lag, known[place], leaders.get(place, -1))
        for place, (start, lag) in starts.items()
    ]
    rows += [PartitionRecords(*place, *[None] * 8) for place in every if place not in starts]
    return sorted(rows, key=lambda row: row[:2])


def _row(
    client: KafkaClient, place: Partition, start: int, end: int | None, lag: int | None, known: _Known, leader: int
) -> PartitionRecords:
    oldest_offset = oldest_ms = None
    if known.first_open >= 0 and end is not None and known.first_open < end:
        oldest = None if leader < 0 else first_record(client, place, leader, known.first_open)
        oldest_offset = known.first_open if oldest is None else oldest.offset
        oldest_ms = None if oldest is None or oldest.timestamp < 0 else oldest.timestamp
    return PartitionRecords(
        *place, start, end, lag, known.in_flight, known.retried, oldest_offset, oldest_ms, known.held
    )


def _live(client: KafkaClient, group_id: str) -> dict[Partition, _Known] | None:
    """What leaders of Muster say of their partitions. None: the cluster is another Kafka, or refuses the request."""
    found: dict[Partition, _Known] = {}
    request = DescribeConfigsRequest([DescribeConfigsResource(GROUP, group_id, [CONFIG])])
    for node in client.every_node():
        try:
            (result,) = node.ask(ApiKey.DESCRIBE_CONFIGS, request).results
        except RequestFailed:
            return None
        if result.error_code or not result.configs:
            return None
        for row in json.loads(result.configs[0].value):
            found[row["topic"], row["partition"]] = _Known(
                row["held"], row["in_flight"], row["retried"], row["first_open"], row["start"], row["done"]
            )
    return found


def _logged(client: KafkaClient, keys: Mapping[StateKey, Partition]) -> Iterator[tuple[Partition, Figures]]:
    """The figures of partitions, from the state log. Partitions that cannot be read are left out."""
    log = client.topics([STATE_LOG]).get(STATE_LOG) if keys else None
    if log is None:
        return
    by_partition: dict[int, list[StateKey]] = {}
    for key in keys:
        by_partition.setdefault(group_partition(str(key), len(log.partitions)), []).append(key)
    for partition, wanted in by_partition.items():
        try:
            start, end = range_of(client, partition)
            if end - start > NEWEST:
                continue
            states = States(updates_per_snapshot=1 << 31)
            for entry in entries(client, partition, (start, end)):
                states.evolve(entry.key, entry.value)
        except RequestFailed:  # the user may not read the state log
            continue
        for one in wanted:
            if one in states.partitions:
                state = states.partitions[one]
                yield keys[one], figures(state.start_offset, state.rows)


# ---- words


def as_json(rows: Sequence[PartitionRecords], now_ms: int) -> dict[str, Any]:
    """The rows, and their sums, for JSON."""
    oldest, begun = _oldest(rows), [one for one in rows if one.start_offset is not None]
    return {
        "lag": _sum(one.lag for one in begun),
        "in_flight": _sum(one.in_flight for one in begun),
        "retried": _sum(one.retried for one in begun),
        "oldest_age_ms": None if oldest is None else _age_ms(oldest, now_ms),
        "not_begun": len(rows) - len(begun),
        "partitions": [one._asdict() for one in rows],
    }


def cells(rows: Iterable[PartitionRecords], now_ms: int) -> list[tuple[object, ...]]:
    """The rows of a table with `HEAD`."""
    found: list[tuple[object, ...]] = []
    for one in rows:
        age_ms = _age_ms(one, now_ms)
        found.append((*one[:8], None if age_ms is None else seconds(age_ms)))
    return found


def sentence(rows: Sequence[PartitionRecords], now_ms: int) -> str:
    """The sums of all partitions, in words."""
    begun = [one for one in rows if one.start_offset is not None]
    lag, in_flight, retried = (_sum(one[place] for one in begun) for place in (4, 5, 6))
    parts = [
        "the lag is not known" if lag is None else f"lag {plural(lag, 'record')}",
        "how many are in flight is not known" if in_flight is None else f"{in_flight} in flight{_holders(rows)}",
    ]
    if retried:
        parts.append(f"{retried} delivered before in vain")
    oldest = _oldest(rows)
    if oldest is not None:
        place = f"offset {oldest.oldest_offset} of {oldest.topic}-{oldest.partition}"
        parts.append(f"the oldest unacknowledged record is {seconds(_age_ms(oldest, now_ms) or 0)} old ({place})")
    if len(begun) < len(rows):
        parts.append(f"the group has not begun in {plural(len(rows) - len(begun), 'partition')}")
    return ", ".join(parts)


def _holders(rows: Iterable[PartitionRecords]) -> str:
    """The members that hold most records, in brackets."""
    found: dict[str, int] = {}
    for row in rows:
        for member, count in (row.held or {}).items():
            found[member] = found.get(member, 0) + count
    most = sorted(found.items(), key=lambda one: (-one[1], one[0]))
    parts = [f"{count} with {short(member)}" for member, count in most[:MAX_NAMED]]
    if len(most) > MAX_NAMED:
        parts.append(f"the others with {len(most) - MAX_NAMED} more")
    return f" ({', '.join(parts)})" if parts else ""


def _sum(numbers: Iterable[Any]) -> int | None:
    found = [*numbers]
    return None if None in found else sum(found)


def _oldest(rows: Iterable[PartitionRecords]) -> PartitionRecords | None:
    timed = [one for one in rows if one.oldest_ms is not None]
    return min(timed, key=lambda one: one.oldest_ms or 0, default=None)


def _age_ms(row: PartitionRecords, now_ms: int) -> int | None:
    return None if row.oldest_ms is None else max(now_ms - row.oldest_ms, 0)
