"""What the table `stalls` looks at: commits at a distance from each other, each with the window before it, and when
members came on.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.facts.commits import PLACE
from muster.pipeline.facts.log_times import DAY_MS
from muster.pipeline.facts.topic_ends import behind

WINDOW: Final = 10
"""Commits of a partition that are looked at together."""
MIN_DISTANCE_MS: Final = 1_000
"""Of commits within one such span of time the last one counts."""
SPAN_MS: Final = 10_000
"""In such spans of time it is told when members came on."""
LIFE: Final = (*PLACE, "life")
"""What makes up a partition of a group from one deletion to the next."""


def known_until(commits: DataFrame, ends: DataFrame | None) -> DataFrame:
    """One row: the last moment that is known of."""
    # by the last row of each group: the clock of a broker may have been ahead for a while
    each = commits.groupBy("group", "log_partition").agg(F.max_by("time_ms", "log_offset").alias("last_ms"))
    last = each.agg(F.max("last_ms").alias("until_ms"))
    if ends is None:
        return last
    # the times of records come from producers, whose clocks may be far out
    seen = F.least("seen_ms", F.col("until_ms") + DAY_MS)
    # of a topic without records the time is only that of its file
    rows = last.crossJoin(ends.where(F.col("end_offset") > 0).agg(F.max("time_ms").alias("seen_ms")))
    return rows.select(F.greatest("until_ms", seen).alias("until_ms"))


def thinned(commits: DataFrame) -> DataFrame:
    """The commits that are looked at. `life`: deletions before it; `gone_ms`, in the last of a life: when it ended."""
    in_order = Window.partitionBy(*PLACE).orderBy("log_offset")
    rows = commits.select(
        *PLACE,
        *("log_offset", "time_ms", "committed_offset", "is_deleted", "generation", "member_id", "client_id"),
    )
    rows = rows.select(
        "*",
        F.lead("is_deleted").over(in_order).alias("next_deleted"),
        F.lead("time_ms").over(in_order).alias("next_ms"),
        F.count_if("is_deleted").over(in_order.rowsBetween(Window.unboundedPreceding, 0)).alias("life"),
    )
    one_more = F.col("next_ms").isNotNull() & ~F.col("next_deleted")
    same_span = F.floor(F.col("next_ms") / MIN_DISTANCE_MS) == F.floor(F.col("time_ms") / MIN_DISTANCE_MS)
    rows = rows.where(~F.col("is_deleted") & ~(one_more & same_span))
    return rows.withColumn("gone_ms", F.when(F.col("next_deleted"), F.col("next_ms"))).drop("next_deleted", "next_ms")


def windowed(rows: DataFrame) -> DataFrame:
    """Each commit with what its window says: `commits` in it, `first_ms`, `least` and `most` (offsets), `lags`
    known and the least of them, `shrinks` (steps with which the lag got smaller), `longest_ms` (the longest step),
    `next_ms` (null: nothing came after) and `next_end` (how far the log reached then). `silence_ms`: the longest
    time between two commits of one member so far; a restart makes more than a window has, all soon after each
    other. `is_run_end`: the last one of some with the same offset, `run_ms`: when the first of those came,
    `run_commits`: how many.
    """
    in_order = Window.partitionBy(*LIFE).orderBy("log_offset")
    window = in_order.rowsBetween(1 - WINDOW, 0)
    rows = rows.withColumn("lag_then", behind(F.col("end_then")))
    rows = rows.select(
        "*",
        F.count("*").over(window).alias("commits"),
        F.first("time_ms").over(window).alias("first_ms"),
        F.min("committed_offset").over(window).alias("least"),
        F.max("committed_offset").over(window).alias("most"),
        F.count("lag_then").over(window).alias("lags"),
        F.min("lag_then").over(window).alias("least_lag"),
        (F.col("lag_then") < F.lag("lag_then").over(in_order)).alias("shrank"),
        (F.col("time_ms") - F.lag("time_ms").over(in_order)).alias("gap_ms"),
        F.lag("member_id").over(in_order).eqNullSafe(F.col("member_id")).alias("same_member"),
        F.coalesce(F.lead("time_ms").over(in_order), "gone_ms").alias("next_ms"),
        F.lead("end_then").over(in_order).alias("next_end"),
        F.row_number().over(in_order).alias("place"),
        _is_run_start(in_order).alias("is_run_start"),
        (~F.lead("committed_offset").over(in_order).eqNullSafe(F.col("committed_offset"))).alias("is_run_end"),
    )
    run = F.when(F.col("is_run_start"), F.struct("time_ms", "place"))
    so_far = in_order.rowsBetween(Window.unboundedPreceding, 0)
    steps = in_order.rowsBetween(2 - WINDOW, 0)
    rows = rows.select(
        *(name for name in rows.columns if name not in ("place", "shrank", "gap_ms", "same_member")),
        "place",
        F.last(run, ignorenulls=True).over(so_far).alias("run"),
        F.count_if("shrank").over(steps).alias("shrinks"),
        F.max("gap_ms").over(steps).alias("longest_ms"),
        F.max(F.when(F.col("same_member"), F.col("gap_ms"))).over(so_far).alias("silence_ms"),
    )
    return rows.select(
        *(name for name in rows.columns if name not in ("run", "place", "is_run_start", "lag_then")),
        F.col("run.time_ms").alias("run_ms"),
        (F.col("place") - F.col("run.place") + 1).alias("run_commits"),
    )


def _is_run_start(in_order: WindowSpec) -> Column:
    return ~F.lag("committed_offset").over(in_order).eqNullSafe(F.col("committed_offset"))


def at_work(thinned: DataFrame) -> DataFrame:
    """When members came on: for each `span` of so many ms the `first_ms` and the `last_ms` of it."""
    in_order = Window.partitionBy(*LIFE).orderBy("log_offset")
    rows = thinned.select("group", "member_id", "time_ms", _is_run_start(in_order).alias("is_run_start"))
    span = F.floor(F.col("time_ms") / SPAN_MS).alias("span")
    return (
        rows.where("is_run_start")
        .groupBy("group", member(), span)
        .agg(F.min("time_ms").alias("span_first_ms"), F.max("time_ms").alias("span_last_ms"))
    )


def member() -> Column:
    """The member, for joins; nobody is one too."""
    return F.coalesce("member_id", F.lit("")).alias("member")
