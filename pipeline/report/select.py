"""The content of a page, from the tables (facts.schema.TABLES): of each a bounded number of rows."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.episodes.comparison import JUDGEMENTS
from muster.pipeline.report.content import About, Chosen, Row, Some
from muster.pipeline.report.select_groups import buckets, groups, stories
from muster.pipeline.report.selecting import LINES, Tables, row_of, rows_of, some_of
from muster.pipeline.schema import MALFORMED, UNKNOWN
from muster.pipeline.wording import DAY, HOUR, MINUTE, SECOND

SETTINGS: Final = 200
"""Settings of the what-if; groups in its answers, and in a comparison."""
FEW_SETTINGS: Final = 3
"""If no more were asked for, each is answered group by group."""
TRANSACTIONS: Final = 10
"""The longest transactions."""
BUCKETS: Final = 60
"""Columns of the picture of rebalances over time, at most."""
_BUCKET_SIZES: Final = (
    *(5 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE),
    *(HOUR, 2 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 7 * DAY),
)


def select(tables: Tables, about: About) -> Chosen:
    """See the module."""
    facts = row_of(
        tables["commits"].agg(
            F.min("time_ms").alias("first_ms"),
            F.max("time_ms").alias("last_ms"),
            F.count_if(~F.col("is_deleted")).alias("commits"),
        )
    )
    known = row_of(
        tables["generations"].agg(
            F.min("start_ms").alias("first_ms"), F.max(F.coalesce("end_ms", "start_ms")).alias("last_ms")
        )
    )
    first_ms = _either(min, facts["first_ms"], known["first_ms"])
    last_ms = _either(max, facts["last_ms"], known["last_ms"])
    bucket_ms = bucket_size((last_ms or 0) - (first_ms or 0))
    some = groups(tables)
    return Chosen(
        about,
        first_ms,
        last_ms,
        facts["commits"],
        some,
        _causes(tables["rebalances"]),
        bucket_ms,
        buckets(tables, bucket_ms, (BUCKETS + 2) * LINES),
        stories(tables, some.rows),
        some_of(tables["regressions"], F.desc("back"), F.asc("time_ms")),
        some_of(
            # a commit that went back is told as such
            tables["stalls"].where("status in ('STALL', 'STOP', 'WARN')"),
            F.asc(F.col("status") == "WARN"),
            F.asc_nulls_first("end_ms"),
            F.desc_nulls_last("lag"),
            F.desc("start_ms"),
        ),
        some_of(tables["lag"].where("lag > 0"), F.desc("lag")),
        some_of(tables["static_candidates"], F.desc("returns"), F.asc("group"), F.asc("client_id")),
        *_what_if(tables, len(about.what_if)),
        odd_rows={kind: about.rows.get(kind, 0) for kind in (MALFORMED, UNKNOWN)},
        odd_reasons=_reasons(tables),
        odd_times=_odd_times(tables["commits"]),
        levels={row["level"]: row["groups"] for row in _levels(tables["verdicts"])},
        **(_transactions(tables) | _comparison(tables)),
    )


def bucket_size(span_ms: int) -> int:
    """The width of a column of the picture over so long a time."""
    fitting = (size for size in _BUCKET_SIZES if span_ms <= size * BUCKETS)
    return next(fitting, -(-span_ms // BUCKETS // DAY) * DAY)


def _levels(verdicts: DataFrame) -> list[Row]:
    return rows_of(verdicts.groupBy("level").agg(F.count("*").alias("groups")))


def _causes(rebalances: DataFrame) -> list[Row]:
    rows = rebalances.groupBy("cause").agg(
        F.count("*").alias("rebalances"),
        F.avg("took_ms").alias("took_ms"),
        F.sum(_unread()).alias("unread_partition_ms"),
        F.avg("confidence").alias("confidence"),
    )
    return rows_of(rows.orderBy(F.desc("rebalances"), "cause").limit(LINES))


def _unread() -> Column:
    """For how long partitions were paused, or their owner was dead and nobody knew."""
    return F.coalesce("paused_partition_ms", F.lit(0)) + F.coalesce("silent_partition_ms", F.lit(0))


_FIGURES: Final = ("rebalances", "moved_partitions", "paused_partition_s", "silent_partition_s", "unread_partition_s")


def _what_if(tables: Tables, settings: int) -> tuple[list[Row], Some, Some, list[Row], Some]:
    if "whatif" not in tables:
        return [], Some(), Some(), [], Some()
    # sums over groups for which all settings could be played: otherwise they cannot be compared
    rows = tables["whatif"]
    whole = rows.groupBy("group").agg(F.count("*").alias("n"), F.count("rebalances").alias("played"))
    rows = rows.join(whole.where("n = played").select("group"), "group")
    # a setting with less pause may have more silence: the partition is not read in either
    for prefix in ("", "actual_"):
        unread = F.col(f"{prefix}paused_partition_s") + F.col(f"{prefix}silent_partition_s")
        rows = rows.withColumn(f"{prefix}unread_partition_s", unread)
    sums = [F.sum(prefix + name).alias(prefix + name) for prefix in ("", "actual_") for name in _FIGURES]
    detects = [F.avg(prefix + "detect_ms").alias(prefix + "detect_ms") for prefix in ("", "actual_")]
    unread, was = F.col("unread_partition_s"), F.col("actual_unread_partition_s")
    changed = (
        F.count_if(F.col("rebalances") < F.col("actual_rebalances")).alias("fewer"),
        F.count_if(F.col("rebalances") > F.col("actual_rebalances")).alias("more"),
        F.count_if(unread < was).alias("less"),
        F.count_if(unread > was).alias("longer"),
    )
    by_setting = rows.groupBy("setting", "settings_json").agg(F.count("*").alias("groups"), *changed, *sums, *detects)
    grid = rows_of(by_setting.orderBy("unread_partition_s", "rebalances", "setting").limit(SETTINGS))
    fidelity = tables["fidelity"]
    judged = fidelity.groupBy("source").agg(
        F.count("*").alias("groups"),
        F.sum("generations").alias("generations"),
        F.sum("reproduced").alias("reproduced"),
        F.sum(F.col("withheld").cast("long")).alias("withheld"),
    )
    withheld = some_of(fidelity.where("withheld"), F.desc_nulls_last("generations"), F.asc("group"))
    best = some_of(tables["advice"], F.desc("gain_s"), F.desc("spared"), F.asc("group"))
    answers = Some()
    if 0 < settings <= FEW_SETTINGS:
        paused, silent = (f"actual_{kind}_partition_s - {kind}_partition_s" for kind in ("paused", "silent"))
        answers = some_of(
            tables["whatif"],
            F.desc_nulls_last(F.expr(f"{paused} + {silent}")),
            F.desc_nulls_last(F.expr("actual_rebalances - rebalances")),
            *("group", "setting"),
            limit=SETTINGS,
        )
    return grid, best, answers, rows_of(judged.orderBy("source")), withheld


def _comparison(tables: Tables) -> dict[str, Any]:
    rows = tables.get("comparison")
    if rows is None:
        return {}
    sums = [
        F.sum(f"{name}_{side}").alias(f"{name}_{side}")
        for name in ("rebalances", "happenings", "cost_ms", "hours")
        for side in ("before", "after")
    ]
    judged = (F.count_if(F.col("judgement") == name).alias(name) for name in JUDGEMENTS)
    changed = F.abs(F.col("cost_ms_after") - F.col("cost_ms_before"))
    order = (F.desc("is_significant"), F.desc_nulls_last(changed), F.asc_nulls_last("p"), F.asc("group"))
    return {
        "comparison": some_of(rows, *order, limit=SETTINGS),
        "compared": row_of(rows.agg(*sums, *judged, F.count("*").alias("groups"))),
    }


def _transactions(tables: Tables) -> dict[str, Any]:
    rows = tables.get("transactions")
    if rows is None:
        return {}
    totals = (F.count("*").alias("transactions"), F.max("took_ms").alias("longest_ms"))
    ends = rows.groupBy("outcome", "cause").agg(*totals, F.avg("took_ms").alias("took_ms"))
    found = rows_of(ends.orderBy(F.desc("transactions"), "outcome", "cause").limit(LINES))
    if not found:
        return {}
    # a producer without a known id is told by its own
    by_id = rows.groupBy(
        "transactional_id", F.when(F.col("transactional_id").isNull(), F.col("producer_id")).alias("of")
    )
    ids = by_id.agg(
        *totals,
        F.max("producer_id").alias("producer_id"),
        F.count_if(F.col("outcome") == "aborted").alias("aborted"),
        F.count_if(F.col("cause") == "timeout").alias("timed_out"),
        F.count_if(F.col("cause") == "new_producer").alias("taken_over"),
    ).drop("of")
    aborted = rows.where(F.col("outcome") == "aborted")
    return {
        "transaction_ends": found,
        "transactional_ids": some_of(
            ids, F.desc("aborted"), F.desc_nulls_last("longest_ms"), F.asc("transactional_id"), F.asc("producer_id")
        ),
        "longest": some_of(rows.where("took_ms is not null"), F.desc("took_ms"), F.asc("start_ms"), limit=TRANSACTIONS),
        "aborted": some_of(aborted, F.desc("start_ms"), F.asc("transactional_id")),
    }


def _reasons(tables: Tables) -> list[Row]:
    rows = None
    for kind in (MALFORMED, UNKNOWN):
        if kind in tables:
            counted = tables[kind].groupBy("reason").agg(F.count("*").alias("rows")).withColumn("kind", F.lit(kind))
            rows = counted if rows is None else rows.unionByName(counted)
    return [] if rows is None else rows_of(rows.orderBy(F.desc("rows"), "reason").limit(LINES))


def _odd_times(commits: DataFrame) -> Some:
    rows = commits.where("stated_ms is not null").groupBy("group")
    counted = rows.agg(F.count("*").alias("commits"), F.min("stated_ms").alias("stated_ms"))
    return some_of(counted, F.desc("commits"), F.asc("group"))


def _either(choose: Any, one: int | None, other: int | None) -> int | None:
    there = [value for value in (one, other) if value is not None]
    return choose(there) if there else None
