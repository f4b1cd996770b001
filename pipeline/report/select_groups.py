"""Selects what the pages show of each group, from the tables (tables.schema.TABLES).

The number of rows for each group is bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muster.pipeline.episodes.claims import OF_COMMITS
from muster.pipeline.episodes.model import FORMATION, STOP
from muster.pipeline.episodes.thresholds import LOOPS
from muster.pipeline.episodes.verdict import FINE, LEVELS, UNKNOWN
from muster.pipeline.kept import ParquetTable
from muster.pipeline.report.content import Row, Some, Story
from muster.pipeline.report.selecting import (
    Batches,
    Ints,
    Newest,
    Room,
    Tables,
    down,
    grouped,
    in_order,
    newest,
    plain_rows,
    up,
    where,
    with_columns,
)

GROUPS: Final = 1_000
"""The largest number of groups on the pages: the worst ones are shown."""
FIRST: Final = 100
"""The number of first groups, which have more details."""
LANES: Final = 60
"""The largest number of members of one generation in a picture."""
EPISODES: Final = 60
"""The largest number of episodes of one group."""
_OF_FIRST: Final = {"shares": 40_000, "rebalances": 30_000}
"""The largest number of rows of the FIRST groups together. Of a long history the newest part is shown."""
_OF_ONE: Final = {"shares": 2_000, "rebalances": 1_000}
"""The largest number of rows of one of the FIRST groups."""
_OF_OTHERS: Final = {"shares": 40, "rebalances": 20}
"""The largest number of rows of a group that is not among the FIRST."""
_TOPICS_SHOWN: Final = 6
_NUMBERS_SHOWN: Final = 40
_LIKELY: Final = ("took_ms", "took_least_ms", "took_most_ms")


def kept(kind: str, place: int, groups: int) -> int:
    """The number of rows of a kind (`shares`, `rebalances`) that the group at this place gets."""
    return min(_OF_ONE[kind], _OF_FIRST[kind] // min(groups, FIRST)) if place < FIRST else _OF_OTHERS[kind]


def groups(tables: Tables, counted: pa.Table, committed: Iterable[str]) -> Some:
    """Rows of `Chosen.groups`. `counted`: rebalances by group and cause.

    `committed`: the groups of all commits, including groups whose offsets were all deleted or expired.
    """
    members = _by_group(grouped(tables["generations"].batches("group", "member_count"), ["group"],
                                members=("member_count", "max")), "members")  # fmt: skip
    lags = _lags(tables["lag"]) | (_lags(tables["share_partitions"]) if "share_partitions" in tables else {})
    sums = grouped(counted.to_batches(), ["group"], rebalances=("rebalances", "sum"),
                   paused_partition_ms=("paused_partition_ms", "sum"), moved=("moved", "sum"))  # fmt: skip
    rebalances = {row["group"]: row for row in plain_rows(sums)}
    verdicts = _rows_by_group(tables["verdicts"], "level", "verdict", "kind", "trouble_ms", "cost_ms", "claims")
    names = sorted({*members, *lags, *rebalances, *committed})
    rank = {level: place for place, level in enumerate(LEVELS)}
    nothing: Row = {}
    order = pa.table(
        {
            "rank": pa.array([rank.get(str(verdicts.get(name, nothing).get("level"))) for name in names], pa.int32()),
            **{
                key: pa.array([verdicts.get(name, nothing).get(key) for name in names], pa.int64())
                for key in ("trouble_ms", "cost_ms")
            },
            "rebalances": pa.array([rebalances.get(name, nothing).get("rebalances", 0) for name in names], pa.int64()),
            "lag": pa.array([lags.get(name) for name in names], pa.int64()),
            "group": pa.array(names, pa.string()),
        }
    )
    keys = (
        up("rank", nulls_first=False), down("trouble_ms"), down("cost_ms"), down("rebalances"), down("lag"), up("group")
    )  # fmt: skip
    worst: list[str] = order["group"].take(in_order(order, keys)[:GROUPS]).to_pylist()
    scores = _rows_by_group(tables["flapping"], "score", "top_trigger_client_id", "top_trigger_share")
    advice = _rows_by_group(tables["advice"], "sentence") if "advice" in tables else {}
    reasons = _rows_by_group(tables["fidelity"], "unadvised") if "fidelity" in tables else {}
    causes = top_causes(counted)
    longest = _longest(tables["rebalances"], counted, worst)
    rows = [
        {
            "group": name,
            "members": members.get(name),
            "rebalances": rebalances.get(name, nothing).get("rebalances", 0),
            **{key: rebalances.get(name, nothing).get(key) for key in ("paused_partition_ms", "moved")},
            "longest": longest.get(name),
            "top_cause": causes.get(name),
            **{
                key: scores.get(name, nothing).get(key)
                for key in ("score", "top_trigger_client_id", "top_trigger_share")
            },
            "lag": lags.get(name),
            **{
                key: verdicts.get(name, nothing).get(key)
                for key in ("level", "verdict", "trouble_ms", "cost_ms", "claims")
            },
            "advice": advice.get(name, nothing).get("sentence"),
            "unadvised": reasons.get(name, nothing).get("unadvised")
            if _rebalances_too_much(verdicts.get(name))
            else None,
        }
        for name in worst
    ]
    return Some(rows, len(names))


def _lags(table: ParquetTable) -> dict[str, Any]:
    return _by_group(grouped(table.batches("group", "lag"), ["group"], lag=("lag", "sum")), "lag")


def _rebalances_too_much(verdict: Row | None) -> bool:
    """Whether the group's rebalances are its trouble. For trouble with commits, no setting of the what-if helps."""
    return verdict is not None and verdict["level"] not in (UNKNOWN, FINE) and verdict["kind"] not in OF_COMMITS


def _by_group(rows: pa.Table, value: str) -> dict[str, Any]:
    return dict(zip(rows["group"].to_pylist(), rows[value].to_pylist(), strict=True))


def _rows_by_group(table: ParquetTable, *columns: str) -> dict[str, Row]:
    """The rows of a table, by group. The table has one row for each group."""
    return {row["group"]: row for batch in table.batches("group", *columns) for row in batch.to_pylist()}


def top_causes(counted: pa.Table) -> dict[str, str]:
    """The cause of most rebalances, besides formations and stops on purpose. Few rebalances have no usual cause."""
    found: dict[str, Counter[str]] = {}
    for row in plain_rows(counted.select(["group", "cause", "rebalances", "planned"])):
        if row["cause"] is not None:
            found.setdefault(row["group"], Counter())[row["cause"]] += row["rebalances"] - row["planned"]
    top = {group: max(causes, key=lambda one: (causes[one], one)) for group, causes in found.items()}
    return {group: cause for group, cause in top.items() if found[group][cause] >= LOOPS}


def _longest(rebalances: ParquetTable, counted: pa.Table, names: Sequence[str]) -> dict[str, Row]:
    """The longest rebalance of each of these groups: the length, and the bounds between which it lies."""
    most = _by_group(grouped(counted.to_batches(), ["group"], most=("longest_ms", "max")), "most")
    wanted, longest = pa.array(names, pa.string()), pa.array([most.get(name) for name in names], pa.int64())
    found: dict[str, Row] = {}
    for batch in rebalances.batches("group", *_LIKELY):
        is_longest = pc.equal(batch["took_ms"], longest.take(pc.index_in(batch["group"], wanted)))
        for row in batch.filter(is_longest).to_pylist():
            other = found.get(row["group"])
            if other is None or _bounds(row) > _bounds(other):
                found[row["group"]] = {name: row[name] for name in _LIKELY}
    return found


def _bounds(row: Row) -> tuple[int, int]:
    return row["took_least_ms"] or 0, row["took_most_ms"] or 0


def buckets(tables: Tables, bucket_ms: int, limit: int) -> Sequence[Row]:
    """Rows of `Chosen.buckets`."""
    known = where(
        tables["rebalances"].batches("group", "start_ms", "end_ms", "cause"),
        lambda batch: pc.is_valid(batch["start_ms"]),
    )
    rows = with_columns(
        known,
        bucket_ms=lambda batch: pa.array(batch["start_ms"].to_numpy() // bucket_ms * bucket_ms),
        is_planned=Planned(tables["episodes"]).has,
    )
    keys = ["bucket_ms", "cause", "is_planned"]
    by_group = grouped(rows, [*keys, "group"], rebalances=("start_ms", "count"))
    if not by_group.num_rows:
        return []
    most_first = by_group.take(in_order(by_group, (down("rebalances"), up("group"))))
    # threads would change the order of the rows, and then the first group would not have the most rebalances
    sums = most_first.group_by(keys, use_threads=False).aggregate([("rebalances", "sum"), ("group", "first")])
    counted = pa.table(
        [sums[name] for name in (*keys, "rebalances_sum", "group_first")], [*keys, "rebalances", "group"]
    )
    return plain_rows(counted.take(in_order(counted, (up("bucket_ms"), up("cause"), up("is_planned")))[:limit]))


def progress(tables: Tables) -> list[Row]:
    """Rows of `Chosen.progress`."""
    if "progress" not in tables:
        return []
    names = ("start_ms", "until_ms", "commits", "records", "lag")
    batches = [one for one in tables["progress"].batches("group", *names) if one.num_rows]
    steps = grouped(batches, ["group"], steps=("start_ms", "count"), lags=("lag", "count"))
    whole = steps.filter(pc.equal(steps["steps"], steps["lags"]))["group"].combine_chunks() if steps.num_rows else None
    known = with_columns(
        batches, whole_lag=lambda batch: pc.if_else(pc.is_in(batch["group"], whole), batch["lag"], None)
    )
    sums = {"commits": ("commits", "sum"), "records": ("records", "sum"), "lag": ("whole_lag", "sum")}
    found = grouped(known, ["start_ms"], until_ms=("until_ms", "max"), **sums)
    return [row | {"written": None} for row in plain_rows(found.take(in_order(found, (up("start_ms"),))))]


class Planned:
    """The times of first formations, and of stops on purpose, by group."""

    def __init__(self, episodes: ParquetTable) -> None:
        rows = where(
            episodes.batches("group", "kind", "from_ms", "until_ms", "has_died"),
            lambda batch: pc.or_(
                pc.equal(batch["kind"], FORMATION),
                pc.and_(pc.equal(batch["kind"], STOP), pc.invert(pc.fill_null(batch["has_died"], True))),
            ),
        )
        spans: dict[str, list[tuple[int, int]]] = {}
        for row in (row for batch in rows for row in batch.to_pylist()):
            spans.setdefault(row["group"], []).append((row["from_ms"], row["until_ms"]))
        self._groups = pa.array(list(spans), pa.string())
        flat = [(code, *span) for code, of in enumerate(spans.values()) for span in _united(of)]
        codes, self._from, self._until = np.array(flat or [(0, 1, 0)], dtype=np.int64).T
        self._from, self._until = _one_number(codes, self._from), _one_number(codes, self._until)

    def has(self, batch: pa.RecordBatch) -> pa.Array:
        """Whether each rebalance of a batch ended in one of these times."""
        codes = pc.fill_null(pc.index_in(batch["group"], self._groups), -1).to_numpy().astype(np.int64)
        ends = _one_number(codes, pc.fill_null(batch["end_ms"], 0).to_numpy())
        place = np.searchsorted(self._from, ends, "right") - 1
        return pa.array((place >= 0) & (ends <= self._until[place]))


def _united(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same times as intervals that do not overlap."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def _one_number(codes: Ints, times_ms: Ints) -> Ints:
    """Group and time as one number. These numbers have the order of groups, and of times within a group.

    Times must be before the year 2109.
    """
    numbers: Ints = (codes << _TIME_BITS) + np.clip(times_ms, 0, (1 << _TIME_BITS) - 1)
    return numbers


_TIME_BITS: Final = 42


def stories(tables: Tables, about: Sequence[Row]) -> list[Story]:
    """The stories of these groups (rows of `Chosen.groups`, the worst first)."""
    if not about:
        return []
    names = [row["group"] for row in about]
    shares = _shares(tables["generations"], names)
    happened = newest(tables["rebalances"], tables["rebalances"].schema.names, _room("rebalances", names),
                      down("generation"), down("start_ms"))  # fmt: skip
    episodes = newest(tables["episodes"], tables["episodes"].schema.names, Room(names, [EPISODES] * len(names)),
                      down("from_ms"), down("until_ms"), up("kind"))  # fmt: skip
    progress: dict[str, list[Row]] = {}
    if "progress" in tables:
        wanted = pa.array(names, pa.string())
        of = tables["progress"]
        for batch in where(of.batches(*of.schema.names), lambda batch: pc.is_in(batch["group"], wanted)):
            for row in batch.to_pylist():
                progress.setdefault(row["group"], []).append(row)
    return [
        Story(
            group,
            shares.rows.get(group, ()),
            Some(happened.rows.get(group, ()), happened.totals.get(group, 0)),
            row,
            Some(episodes.rows.get(group, ()), episodes.totals.get(group, 0)),
            sorted(progress.get(group, ()), key=lambda one: one["start_ms"]),
            shares.totals.get(group, 0) > kept("shares", place, len(names)),
        )
        for place, (group, row) in enumerate(zip(names, about, strict=True))
    ]


def _room(kind: str, names: Sequence[str]) -> Room:
    return Room(names, [kept(kind, place, len(names)) for place in range(len(names))])


def _shares(generations: ParquetTable, names: Sequence[str]) -> Newest:
    """The members of each generation, by group."""
    columns = ("generation", "start_ms", "end_ms", "members")
    return newest(
        generations, columns, _room("shares", names), down("log_offset"),
        weight=lambda batch: pc.min_element_wise(batch["member_count"], LANES).cast(pa.int64()),
        weighed=("member_count",), made=_members,
    )  # fmt: skip


def _members(batches: Batches) -> Iterator[pa.RecordBatch]:
    """A row for each member, with at most LANES members of each generation."""
    for batch in batches:
        some = pc.list_slice(batch["members"], 0, LANES)
        parents, members = pc.list_parent_indices(some), pc.list_flatten(some)
        of_generation = {name: batch[name].take(parents) for name in ("group", "generation", "start_ms", "end_ms")}
        of_member = {name: pc.struct_field(members, name) for name in ("member_id", "instance_id", "client_id", "host")}
        assigned = pc.struct_field(members, "assigned")
        yield pa.RecordBatch.from_pydict(
            of_generation | of_member | {"partitions": _partitions(assigned), "assigned": _shortened(assigned)}
        )


def _partitions(assigned: pa.Array) -> pa.Array:
    """The number of partitions of each member."""
    sizes = pc.fill_null(pc.list_value_length(pc.struct_field(pc.list_flatten(assigned), "partitions")), 0)
    owners = pc.list_parent_indices(assigned)
    counts = np.zeros(len(assigned), dtype=np.int64)
    np.add.at(counts, owners.to_numpy(), sizes.to_numpy())
    return pa.array(counts)


def _shortened(assigned: pa.Array) -> pa.Array:
    """The first partitions of the first topics of each member."""
    some = pc.list_slice(assigned, 0, _TOPICS_SHOWN)
    topics = pc.list_flatten(some)
    shown = pa.StructArray.from_arrays(
        [pc.struct_field(topics, "topic"), pc.list_slice(pc.struct_field(topics, "partitions"), 0, _NUMBERS_SHOWN)],
        names=["topic", "partitions"],
    )
    sizes = pc.fill_null(pc.list_value_length(some), 0).to_numpy()
    return pa.ListArray.from_arrays(pa.array(np.r_[0, np.cumsum(sizes)], pa.int32()), shown, mask=pc.is_null(some))
