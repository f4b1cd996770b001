"""Selects the content of a page from the tables (tables.schema.TABLES): a bounded number of rows of each table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from muster.pipeline.episodes.comparison import JUDGEMENTS
from muster.pipeline.episodes.stream_facts import READY
from muster.pipeline.infer.share_deliveries import ACCEPTED
from muster.pipeline.report.content import About, Chosen, Row, Some
from muster.pipeline.report.select_groups import Planned, buckets, groups, progress, stories
from muster.pipeline.report.selecting import (
    LINES,
    Batches,
    Tables,
    down,
    grouped,
    in_order,
    mean,
    plain_rows,
    some_of,
    up,
    where,
    with_columns,
)
from muster.pipeline.schema import MALFORMED, UNKNOWN
from muster.pipeline.wording import DAY, HOUR, MINUTE, SECOND

MAX_SETTINGS: Final = 200
"""The largest number of settings on the page, and of groups in their answers."""
FEW_SETTINGS: Final = 3
"""If at most this number of settings was requested, each is answered group by group."""
_KINDS: Final = ("", "actual_")
_FIGURES: Final = ("rebalances", "moved_partitions", "paused_partition_s", "silent_partition_s", "unread_partition_s")


def what_if(tables: Tables, settings: int) -> dict[str, Any]:
    """`grid`, `advice`, `answers`, `fidelity` and `withheld` of `Chosen`."""
    if "whatif" not in tables:
        return {"grid": [], "advice": Some()}
    fidelity = tables["fidelity"]
    every = fidelity.schema.names
    judged = grouped(
        with_columns(fidelity.batches(*every), is_withheld=lambda batch: pc.cast(batch["withheld"], pa.int64())),
        ["source"], groups=("group", "count"), generations=("generations", "sum"), reproduced=("reproduced", "sum"),
        withheld=("is_withheld", "sum"),
    )  # fmt: skip
    return {
        "grid": _grid(tables),
        "advice": some_of(tables["advice"].batches(*tables["advice"].schema.names),
                          down("gain_s"), down("spared"), up("group")),
        "answers": _answers(tables) if 0 < settings <= FEW_SETTINGS else Some(),
        "fidelity": plain_rows(judged.take(in_order(judged, (up("source"),)))) if judged.num_rows else [],
        "withheld": some_of(
            where(fidelity.batches(*every), lambda batch: batch["withheld"]), down("generations"), up("group")
        ),
    }  # fmt: skip


def _grid(tables: Tables) -> list[Row]:
    rows = tables["whatif"]
    # the sums have only groups for which all settings could be played: sums over different groups cannot be compared
    counted = grouped(rows.batches("group", "setting", "rebalances"), ["group"],
                      asked=("setting", "count"), played=("rebalances", "count"))  # fmt: skip
    if not counted.num_rows:
        return []
    whole = counted.filter(pc.equal(counted["asked"], counted["played"]))["group"].combine_chunks()
    played = where(rows.batches(*rows.schema.names), lambda batch: pc.is_in(batch["group"], whole))
    # a setting with less pause may have more silence, and both are unread time
    with_unread = with_columns(played, unread_partition_s=_unread(""), actual_unread_partition_s=_unread("actual_"))
    changed = with_columns(
        with_unread,
        fewer=_counts_compared(pc.less, "rebalances"),
        more=_counts_compared(pc.greater, "rebalances"),
        less=_counts_compared(pc.less, "unread_partition_s"),
        longer=_counts_compared(pc.greater, "unread_partition_s"),
    )
    sums = {name: (name, "sum") for name in (*(kind + name for kind in _KINDS for name in _FIGURES),
                                             *("fewer", "more", "less", "longer"))}  # fmt: skip
    detects = {
        f"{kind}{name}": (f"{kind}detect_ms", how)
        for kind in _KINDS
        for name, how in (("detect_ms", "sum"), ("detects", "count"))
    }
    by_setting = grouped(changed, ["setting", "settings_json"], groups=("group", "count"), **sums, **detects)
    if not by_setting.num_rows:
        return []
    order = (up("unread_partition_s"), up("rebalances"), up("setting"))
    found = plain_rows(by_setting.take(in_order(by_setting, order)[:MAX_SETTINGS]))
    return [
        row | {f"{kind}detect_ms": mean(row[f"{kind}detect_ms"], row[f"{kind}detects"]) for kind in _KINDS}
        for row in found
    ]


def _unread(kind: str) -> Callable[[pa.RecordBatch], Any]:
    return lambda batch: pc.add(batch[f"{kind}paused_partition_s"], batch[f"{kind}silent_partition_s"])


def _counts_compared(compare: Callable[[Any, Any], Any], name: str) -> Callable[[pa.RecordBatch], Any]:
    return lambda batch: pc.cast(pc.fill_null(compare(batch[name], batch[f"actual_{name}"]), False), pa.int64())


def _answers(tables: Tables) -> Some:
    rows = tables["whatif"]
    spared: Batches = with_columns(
        rows.batches(*rows.schema.names),
        gain_s=lambda batch: pc.subtract(_unread("actual_")(batch), _unread("")(batch)),
        spared=lambda batch: pc.subtract(batch["actual_rebalances"], batch["rebalances"]),
    )
    return some_of(spared, down("gain_s"), down("spared"), up("group"), up("setting"), limit=MAX_SETTINGS)


MAX_COMPARED: Final = 200
"""The largest number of groups in a comparison."""
MAX_TRANSACTIONS: Final = 10
"""The largest number of transactions in the list of the longest ones."""
MAX_SILENCES: Final = 3
"""The largest number of times without a sign of life that the page names."""
MAX_BUCKETS: Final = 60
"""The largest number of columns in the picture of rebalances over time."""
_BUCKET_SIZES: Final = (
    *(5 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE),
    *(HOUR, 2 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 7 * DAY),
)

_PLACE: Final = (up("group"), up("topic"), up("partition"))


def select(tables: Tables, about: About) -> Chosen:
    """Select the content of the pages."""
    commits = _commits(tables)
    rebalances = _rebalances(tables)
    first_ms, last_ms = _span(tables, commits)
    bucket_ms = bucket_size((last_ms or 0) - (first_ms or 0))
    some = groups(tables, rebalances, commits["group"].to_pylist())
    return Chosen(
        about,
        first_ms,
        last_ms,
        pc.sum(commits["commits"]).as_py() or 0,
        some,
        _causes(rebalances),
        bucket_ms,
        buckets(tables, bucket_ms, (MAX_BUCKETS + 2) * LINES),
        stories(tables, some.rows),
        some_of(_all(tables, "regressions"), down("back"), up("time_ms"), *_PLACE),
        _stalls(tables),
        some_of(where(_all(tables, "lag"), lambda batch: pc.greater(batch["lag"], 0)), down("lag"), *_PLACE),
        some_of(_all(tables, "static_candidates"), down("returns"), up("group"), up("client_id")),
        **what_if(tables, len(about.what_if)),
        **_shares(tables),
        **_streams(tables),
        progress=progress(tables),
        silences=_silences(tables),
        odd_rows={kind: about.rows.get(kind, 0) for kind in (MALFORMED, UNKNOWN)},
        odd_reasons=_reasons(tables),
        odd_times=_odd_times(commits),
        levels={row["level"]: row["groups"] for row in _levels(tables)},
        **(_transactions(tables) | _comparison(tables)),
    )


def _all(tables: Tables, name: str) -> Any:
    return tables[name].batches(*tables[name].schema.names)


def _commits(tables: Tables) -> pa.Table:
    """For each group: the number of commits, the first and last time, and the commits with impossible times."""
    rows = with_columns(
        tables["commits"].batches("group", "time_ms", "is_deleted", "stated_ms"),
        is_there=lambda batch: pc.cast(pc.invert(batch["is_deleted"]), pa.int64()),
    )
    return grouped(
        rows, ["group"], first_ms=("time_ms", "min"), last_ms=("time_ms", "max"), commits=("is_there", "sum"),
        odd=("stated_ms", "count"), stated_ms=("stated_ms", "min"),
    )  # fmt: skip


def _rebalances(tables: Tables) -> pa.Table:
    """For each group and cause: the number of rebalances, and sums over them."""
    planned = Planned(tables["episodes"])
    rows = with_columns(
        tables["rebalances"].batches(
            "group",
            "cause",
            "end_ms",
            "took_ms",
            "took_least_ms",
            "took_most_ms",
            "confidence",
            "paused_partition_ms",
            "silent_partition_ms",
            "moved",
        ),
        one=_ones,
        is_planned=lambda batch: pc.cast(planned.has(batch), pa.int64()),
        least_ms=lambda batch: pc.coalesce(batch["took_least_ms"], batch["took_ms"]),
        most_ms=lambda batch: pc.coalesce(batch["took_most_ms"], batch["took_ms"]),
        # the time in which partitions were paused, or their owner was dead before anybody had noticed it
        unread_ms=lambda batch: pc.add(
            pc.fill_null(batch["paused_partition_ms"], 0), pc.fill_null(batch["silent_partition_ms"], 0)
        ),
    )
    return grouped(
        rows, ["group", "cause"], rebalances=("one", "sum"), took_ms=("took_ms", "sum"), took=("took_ms", "count"),
        longest_ms=("took_ms", "max"), confidence=("confidence", "sum"), sure=("confidence", "count"),
        unread_partition_ms=("unread_ms", "sum"), paused_partition_ms=("paused_partition_ms", "sum"),
        moved=("moved", "sum"), planned=("is_planned", "sum"),
        took_least_ms=("least_ms", "sum"), took_most_ms=("most_ms", "sum"),
    )  # fmt: skip


def _span(tables: Tables, commits: pa.Table) -> tuple[int | None, int | None]:
    """The time (from, to) about which the tables have facts."""
    rows = with_columns(
        tables["generations"].batches("start_ms", "end_ms"),
        until_ms=lambda batch: pc.coalesce(batch["end_ms"], batch["start_ms"]),
        all=lambda batch: pa.array([0] * batch.num_rows),
    )
    known = grouped(rows, ["all"], first_ms=("start_ms", "min"), last_ms=("until_ms", "max"))
    found = [
        [one for of in (commits, known) for one in of[name].to_pylist() if one is not None]
        for name in ("first_ms", "last_ms")
    ]
    return min(found[0], default=None), max(found[1], default=None)


def bucket_size(span_ms: int) -> int:
    """The width (ms) of a column of the picture, if the picture covers `span_ms`."""
    fitting = (size for size in _BUCKET_SIZES if span_ms <= size * MAX_BUCKETS)
    return next(fitting, -(-span_ms // MAX_BUCKETS // DAY) * DAY)


def _levels(tables: Tables) -> Sequence[Row]:
    return plain_rows(grouped(tables["verdicts"].batches("level", "group"), ["level"], groups=("group", "count")))


def _causes(rebalances: pa.Table) -> list[Row]:
    lengths = ("took_ms", "took_least_ms", "took_most_ms")
    sums = ("rebalances", *lengths, "took", "confidence", "sure", "unread_partition_ms")
    rows = grouped(rebalances.to_batches(), ["cause"], **{name: (name, "sum") for name in sums})
    found = plain_rows(rows.take(in_order(rows, (down("rebalances"), up("cause")))[:LINES]))
    return [
        {name: row[name] for name in ("cause", "rebalances", "unread_partition_ms")}
        | {name: mean(row[name], row["took"]) for name in lengths}
        | {"confidence": mean(row["confidence"], row["sure"])}
        for row in found
    ]


def _stalls(tables: Tables) -> Some:
    # commits that went back have a table of their own
    shown = pa.array(["STALL", "STOP", "WARN"])
    rows = with_columns(
        where(_all(tables, "stalls"), lambda batch: pc.is_in(batch["status"], shown)),
        is_slow=lambda batch: pc.equal(batch["status"], "WARN"),
    )
    return some_of(rows, up("is_slow"), up("end_ms"), down("lag"), down("start_ms"), *_PLACE)


def _shares(tables: Tables) -> dict[str, Any]:
    if "share_partitions" not in tables:
        return {}
    places = ("group", "topic", "partition", "lag", "accepted", "redelivered", "archived", "waiting", "oldest_ms")
    shown = ("outcome", "deliveries", "records", "first_offset", "last_offset", "from_ms", "until_ms", "most_ms")
    deliveries = with_columns(
        tables["deliveries"].batches("group", "topic", "partition", *shown),
        is_accepted=lambda batch: pc.equal(batch["outcome"], ACCEPTED),
    )
    return {
        "shared": some_of(
            tables["share_partitions"].batches(*places, "done_ms"), down("lag"), down("waiting"), *_PLACE
        ),
        "deliveries": some_of(deliveries, up("is_accepted"), down("until_ms"), *_PLACE, up("first_offset")),
    }


UNOWNED_MS: Final = SECOND
"""A task that nobody had for a shorter time is not shown."""


def _streams(tables: Tables) -> dict[str, Any]:
    if "tasks" not in tables:
        return {}
    unready = where(_all(tables, "topologies"), lambda batch: pc.not_equal(batch["state"], READY))
    unowned = where(
        _all(tables, "tasks"), lambda batch: pc.fill_null(pc.greater_equal(batch["unowned_ms"], UNOWNED_MS), False)
    )
    return {
        "unready": some_of(unready, down("from_ms"), up("group"), up("state")),
        "unowned": some_of(unowned, down("unowned_ms"), up("group"), up("subtopology"), up("partition")),
    }


def _silences(tables: Tables) -> Some:
    if "silences" not in tables:
        return Some()
    rows = with_columns(
        _all(tables, "silences"), lasted_ms=lambda batch: pc.subtract(batch["until_ms"], batch["from_ms"])
    )
    return some_of(rows, down("lasted_ms"), up("from_ms"), limit=MAX_SILENCES)


def _comparison(tables: Tables) -> dict[str, Any]:
    if "comparison" not in tables:
        return {}
    names = [f"{name}_{side}" for name in ("rebalances", "happenings", "cost_ms", "hours") for side in _SIDES]
    rows = with_columns(
        _all(tables, "comparison"),
        all=lambda batch: pa.array([0] * batch.num_rows),
        changed_ms=lambda batch: pc.abs(pc.subtract(batch["cost_ms_after"], batch["cost_ms_before"])),
        **{name: _counts("judgement", name) for name in JUDGEMENTS},
    )
    found = list(rows)
    sums = {name: (name, "sum") for name in (*names, *JUDGEMENTS)}
    all_of = plain_rows(grouped(found, ["all"], groups=("group", "count"), **sums))
    nothing = dict.fromkeys(names) | dict.fromkeys(("groups", *JUDGEMENTS), 0)
    order = (down("is_significant"), down("changed_ms"), up("p", nulls_first=False), up("group"))
    return {
        "comparison": some_of(found, *order, limit=MAX_COMPARED),
        "compared": all_of[0] if all_of else nothing,
    }


_SIDES: Final = ("before", "after")


def _transactions(tables: Tables) -> dict[str, Any]:
    if "transactions" not in tables:
        return {}
    rows = tables["transactions"]
    totals = {"transactions": ("one", "sum"), "longest_ms": ("took_ms", "max")}
    names = ("transactional_id", "producer_id", "outcome", "cause", "took_ms")
    counted = grouped(
        with_columns(rows.batches(*names), one=_ones),
        ["outcome", "cause"], **totals, sum_ms=("took_ms", "sum"), took=("took_ms", "count"),
    )  # fmt: skip
    if not counted.num_rows:
        return {}
    ends = plain_rows(counted.take(in_order(counted, (down("transactions"), up("outcome"), up("cause")))[:LINES]))
    ids = grouped(
        with_columns(
            rows.batches(*names),
            one=_ones,
            # a producer without a known transactional id is named by its number
            of=lambda batch: pc.if_else(pc.is_null(batch["transactional_id"]), batch["producer_id"], None),
            aborted=_counts("outcome", "aborted"),
            timed_out=_counts("cause", "timeout"),
            taken_over=_counts("cause", "new_producer"),
        ),
        ["transactional_id", "of"], **totals, producer_id=("producer_id", "max"),
        **{name: (name, "sum") for name in ("aborted", "timed_out", "taken_over")},
    )  # fmt: skip
    every = rows.schema.names
    return {
        "transaction_ends": [row | {"took_ms": mean(row["sum_ms"], row["took"])} for row in ends],
        "transactional_ids": some_of(
            ids.to_batches(), down("aborted"), down("longest_ms"), up("transactional_id"), up("producer_id")
        ),
        "longest": some_of(
            where(rows.batches(*every), lambda batch: pc.is_valid(batch["took_ms"])),
            down("took_ms"), up("start_ms"), limit=MAX_TRANSACTIONS,
        ),
        "aborted": some_of(
            where(rows.batches(*every), lambda batch: pc.equal(batch["outcome"], "aborted")),
            down("start_ms"), up("transactional_id"),
        ),
    }  # fmt: skip


def _ones(batch: pa.RecordBatch) -> pa.Array:
    return pa.array([1] * batch.num_rows, pa.int64())


def _counts(column: str, value: str) -> Any:
    return lambda batch: pc.cast(pc.fill_null(pc.equal(batch[column], value), False), pa.int64())


def _reasons(tables: Tables) -> list[Row]:
    found: list[Row] = []
    for kind in (MALFORMED, UNKNOWN):
        if kind in tables:
            rows = grouped(with_columns(tables[kind].batches("reason"), one=_ones), ["reason"], rows=("one", "sum"))
            found += [{"kind": kind} | row for row in plain_rows(rows)]
    return sorted(found, key=lambda row: (-row["rows"], row["reason"] or ""))[:LINES]


def _odd_times(commits: pa.Table) -> Some:
    rows = commits.filter(pc.greater(commits["odd"], 0)) if commits.num_rows else commits
    some = some_of(rows.to_batches(), down("odd"), up("group"))
    found = [{"group": row["group"], "commits": row["odd"], "stated_ms": row["stated_ms"]} for row in some.rows]
    return Some(found, some.total)
