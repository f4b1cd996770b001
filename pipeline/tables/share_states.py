"""The tables of share groups: `share_partitions`, `deliveries` and `share_progress`, from `__share_group_state`.

All records of a group go to one task. Python follows the state of each share partition, as the share coordinator does
(`infer.share_deliveries`). It joins what became of records into episodes (`infer.share_episodes`).
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import translate
from typing import Any, Final, NamedTuple

import pyarrow as pa

from muster.coordinator.groups.common.events import DELIVERIES_FAILED
from muster.coordinator.share.in_flight import ARCHIVED, ARCHIVING, AVAILABLE, STATES
from muster.coordinator.share_state.persister import UNKNOWN, StateKey
from muster.pipeline.episodes.silence import STEP_MS
from muster.pipeline.frames import DataFrame, F, from_arrow_schema
from muster.pipeline.infer.share_deliveries import MAX_ENDS, Counts, Group, Partition
from muster.pipeline.infer.share_episodes import Episode, Episodes, Steps
from muster.pipeline.schema import RAW, columns
from muster.pipeline.tables import batches_of, by_group, keep, rows_of
from muster.pipeline.tables.schema import TABLES, conform
from muster.pipeline.wanted import ALL, Wanted
from muster.protocol.message import ProtocolError
from muster.protocol.records import SHARE_STATE

STATE_TOPIC: Final = "__share_group_state"
MADE: Final = ("share_partitions", "deliveries", "share_progress")
"""The tables that one pass over the log makes."""
MAX_SHOWN: Final = 100
"""The largest number of ranges of offsets in a value of `in_flight`."""

_ENTRY: Final = pa.schema(
    columns("group string, log_partition int, log_offset long, log_timestamp_ms long, key binary, value binary")
)
"""A readable record of the state log."""
_RESULT: Final = pa.schema(
    [("table", pa.string()), *{field.name: field for name in MADE for field in TABLES[name]}.values()]
)
"""A row of one of the tables MADE."""
_MALFORMED: Final = TABLES["malformed"]
Row = dict[str, Any]


class ShareInputs(NamedTuple):
    """The inputs about the deliveries of share groups.

    * `raw`: raw rows (schema.RAW) of the state log; None without this topic
    * `names`: the names of topics by their ids
    * `ends`: the present ends of partitions, by topic and number
    * `wanted`: which groups and which time are wanted. Older records show the state at the beginning of this time
    """

    raw: DataFrame | None = None
    names: Mapping[str, str] = {}
    ends: Mapping[tuple[str, int], int] = {}
    wanted: Wanted = ALL


NOTHING: Final = ShareInputs()


def share_tables(inputs: ShareInputs) -> dict[str, DataFrame] | None:
    """The tables MADE. None means that the source has no state log."""
    if inputs.raw is None:
        return None
    names, ends, wanted = dict(inputs.names), dict(inputs.ends), inputs.wanted
    entries = inputs.raw.select(*RAW.names).mapInArrow(
        lambda batches: batches_of(_entries(rows_of(batches), wanted), _ENTRY), from_arrow_schema(_ENTRY)
    )
    made = keep(
        by_group(entries, "log_offset", lambda group, rows: rows_of_group(group, rows, names, ends, wanted), _RESULT)
    )
    return {name: conform(made.where(F.col("table") == name), name) for name in MADE}


_FAILED: Final = "topic string, partition int, first_offset bigint, last_offset bigint, cause string, member string"
_LOCK_OVER: Final = "lock_over"
"""The cause of an event: a lock was over."""
_NEAR_MS: Final = 1_000
"""The server reports the end of a delivery within this time of its record in the state log."""


def with_locks(deliveries: DataFrame, events: DataFrame | None) -> DataFrame:
    """The table `deliveries` with the ends of locks, as rows of `__group_events` (tables.schema.EVENTS) have them."""
    if events is None:
        return deliveries
    failed = events.where(F.col("kind") == DELIVERIES_FAILED).withColumn("one", F.from_json("value", _FAILED))
    failed = failed.select(
        F.col("group").alias("its_group"), "time_ms", F.col("one.topic").alias("its_topic"),
        F.col("one.partition").alias("its_partition"), F.col("one.first_offset").alias("its_first"),
        F.col("one.last_offset").alias("its_last"), F.col("one.cause").alias("cause"),
        F.col("one.member").alias("its_member"),
    )  # fmt: skip
    span = ("from_ms", "until_ms", "first_offset", "last_offset")
    mine = ("group", "topic", "partition", "outcome", "deliveries", *span)
    is_its = (F.col("group") == F.col("its_group")) & (F.col("topic") == F.col("its_topic"))
    is_its &= F.col("partition") == F.col("its_partition")
    is_its &= (F.col("its_first") <= F.col("last_offset")) & (F.col("its_last") >= F.col("first_offset"))
    is_its &= (F.col("time_ms") >= F.col("from_ms") - _NEAR_MS) & (F.col("time_ms") <= F.col("until_ms") + _NEAR_MS)
    is_lock = F.col("cause") == _LOCK_OVER
    locks = deliveries.select(*mine).join(failed, is_its)
    counted = locks.groupBy(*mine).agg(
        F.count_if(is_lock).cast("int").alias("locks_over"),
        F.array_sort(F.array_distinct(F.collect_list(F.when(is_lock, F.col("its_member"))))).alias("lock_members"),
    )
    rows = deliveries.drop("locks_over", "lock_members").join(counted, list(mine), "left")
    return conform(rows, "deliveries")


def signs_of_life(states: DataFrame, when: str) -> DataFrame:
    """Times at which share groups did something: group (empty: all together), log_timestamp_ms. `when`: the time."""
    steps = states.where(F.col(when).isNotNull()).groupBy(F.floor(F.col(when) / STEP_MS).alias("step"))
    return steps.agg(F.min(when).alias("log_timestamp_ms")).select(F.lit("").alias("group"), "log_timestamp_ms")


def malformed_states(inputs: ShareInputs) -> DataFrame | None:
    """The unreadable rows of the state log, as rows of the table `malformed`. None without the topic."""
    if inputs.raw is None:
        return None
    return inputs.raw.select(*RAW.names).mapInArrow(
        lambda batches: batches_of(_unreadable(rows_of(batches)), _MALFORMED), from_arrow_schema(_MALFORMED)
    )


def _entries(rows: Iterable[Row], wanted: Wanted) -> Iterator[Row]:
    is_wanted = re.compile("|".join(map(translate, wanted.groups)) if wanted.groups else "").match
    for row in rows:
        if row["damage"] is not None or (wanted.until_ms is not None and row["timestamp_ms"] >= wanted.until_ms):
            continue
        try:
            group = _decoded(row["key"], row["value"])[0].group_id
        except ProtocolError:
            continue
        if is_wanted(group):
            yield {
                "group": group, "log_partition": row["partition"], "log_offset": row["offset"],
                "log_timestamp_ms": row["timestamp_ms"], "key": row["key"], "value": row["value"],
            }  # fmt: skip


def _decoded(key: bytes | None, value: bytes | None) -> tuple[Any, Any]:
    record_type, read = SHARE_STATE.decode_key(key or b"")
    return read, None if value is None else SHARE_STATE.decode_value(record_type, value)[1]


def _unreadable(rows: Iterable[Row]) -> Iterator[Row]:
    for row in rows:
        reason = row["damage"]
        if reason is None:
            try:
                _decoded(row["key"], row["value"])
                continue
            except ProtocolError as error:
                reason = str(error)
        yield {
            "log_topic": STATE_TOPIC, "log_partition": row["partition"], "log_offset": row["offset"],
            "log_timestamp_ms": row["timestamp_ms"], "reason": reason, "raw_key": row["key"],
            "raw_value": row["value"], "is_tombstone": row["value"] is None,
        }  # fmt: skip


def rows_of_group(
    group: str,
    entries: Iterable[Mapping[str, Any]],
    names: Mapping[str, str],
    ends: Mapping[tuple[str, int], int] = NOTHING.ends,
    wanted: Wanted = ALL,
) -> Iterator[Row]:
    """Rows of the tables MADE of one group. `entries` are in the order of each log partition."""
    followed, episodes, steps = Group(), Episodes(), Steps()
    since_ms = wanted.since_ms or 0

    def row_of(partition: StateKey, one: Episode) -> Iterator[Row]:
        if one.until_ms >= since_ms:
            yield {**_place(group, partition, names), **_episode(one)}

    for entry in entries:
        at_ms = entry["log_timestamp_ms"]
        partition, fates, counts = followed.take(at_ms, *_decoded(entry["key"], entry["value"]))
        if at_ms >= since_ms and counts != Counts():
            steps.add(at_ms, counts)
        for fate in fates:
            for place, one in episodes.add(partition, fate):
                yield from row_of(place, one)
    for partition, state in followed.partitions.items():
        for fate in state.waiting():
            for place, one in episodes.add(partition, fate):
                yield from row_of(place, one)
        known = _place(group, partition, names)
        yield {**known, **_partition(state, ends.get((known["topic"], known["partition"])))}
    for place, one in episodes.end():
        yield from row_of(place, one)
    for start_ms, until_ms, sums in steps.rows():
        yield {
            "table": "share_progress", "group": group, "start_ms": start_ms, "until_ms": until_ms, **sums._asdict()
        }  # fmt: skip


def _place(group: str, partition: StateKey, names: Mapping[str, str]) -> Row:
    topic_id = urlsafe_b64encode(partition.topic_id).rstrip(b"=").decode()
    return {"group": group, "topic": names.get(topic_id, topic_id), "partition": partition.partition}


def _episode(one: Episode) -> Row:
    return {
        "table": "deliveries",
        "outcome": one.outcome,
        "deliveries": one.deliveries,
        "records": one.records,
        "first_offset": one.first,
        "last_offset": one.last,
        "ranges": [{"first_offset": first, "last_offset": last} for first, last in one.ranges],
        "from_ms": one.from_ms,
        "until_ms": one.until_ms,
        "least_ms": one.least_ms,
        "most_ms": one.most_ms,
        "moments": len(one.moments),
        "held_ms": one.held_ms,
        "ends": sorted(one.moments)[:MAX_ENDS],
    }


def _partition(one: Partition, end: int | None) -> Row:
    state = one.state
    row: Row = {
        "table": "share_partitions",
        "accepted": one.sums.accepted,
        "archived": one.sums.archived,
        "ended": one.sums.ended,
        "redelivered": one.redelivered,
        "first_ms": one.first_ms,
        "changed_ms": one.changed_ms,
        "done_ms": one.done_ms,
        "idle_from_ms": None if one.idle is None else one.idle[0],
        "idle_until_ms": None if one.idle is None else one.idle[1],
        "deleted_ms": one.deleted_ms,
    }
    if state is None:
        return row
    waiting = one.waiting()
    start, done = state.start_offset, state.done_count
    lag = None if end is None or start == UNKNOWN or done == UNKNOWN else max(end - start - done, 0)
    open_rows = [each for each in state.rows if each.state in (AVAILABLE, ARCHIVING, ARCHIVED)]
    return row | {
        "state_epoch": state.state_epoch,
        "leader_epoch": state.leader_epoch,
        "start_offset": None if start == UNKNOWN else start,
        "done_count": None if done == UNKNOWN else done,
        "end_offset": end,
        "lag": 0 if end == 0 else lag,
        "waiting": sum(fate.last - fate.first + 1 for fate in waiting),
        "most_deliveries": max((fate.deliveries for fate in waiting), default=None),
        "oldest_ms": min((fate.ended_ms[0] for fate in waiting), default=None),
        "in_flight": [
            {"first_offset": each.first, "last_offset": each.last, "state": STATES[each.state].lower(),
             "deliveries": each.deliveries}
            for each in open_rows[:MAX_SHOWN]
        ],
    }  # fmt: skip
