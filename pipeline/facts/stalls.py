"""The table `stalls`: how each partition's commits went on, by the rules of LinkedIn's Burrow
(docs/pipeline-tables.md), over a window that slides over the whole history.

If the ends of the topics are not known, only REWIND is checked, and `lag_known` is false.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.facts.commits import PLACE
from muster.pipeline.facts.log_times import DAY_MS
from muster.pipeline.facts.schema import conform
from muster.pipeline.facts.topic_ends import behind, with_ends

OK: Final = "OK"
WARN: Final = "WARN"
STOP: Final = "STOP"
STALL: Final = "STALL"
REWIND: Final = "REWIND"

WINDOW: Final = 10
"""Commits of a partition that are looked at together."""
MIN_DISTANCE_MS: Final = 1_000
"""Of commits within one such span of time the last one counts."""
SETTLE_MS: Final = 100_000
"""A consumer that had read everything has so long to commit what came after."""

_LIFE: Final = (*PLACE, "life")


def stalls(commits: DataFrame, ends: DataFrame | None) -> DataFrame:
    """Rows of the table `stalls` out of those of `commits` and what is known of the ends of the logs."""
    rows = with_ends(_thinned(commits), ends)
    until = _until(commits, ends)
    rows = _judged(_windowed(rows).crossJoin(F.broadcast(until)))
    return conform(_intervals(rows), "stalls")


def _until(commits: DataFrame, ends: DataFrame | None) -> DataFrame:
    """One row: the last moment that is known of."""
    last = commits.agg(F.max("time_ms").alias("until_ms"))
    if ends is None:
        return last
    # the times of records come from producers, whose clocks may be far out
    seen = F.least("seen_ms", F.col("until_ms") + DAY_MS)
    rows = last.crossJoin(ends.agg(F.max("time_ms").alias("seen_ms")))
    return rows.select(F.greatest("until_ms", seen).alias("until_ms"))


def _thinned(commits: DataFrame) -> DataFrame:
    """The commits that are looked at. `life`: deletions before it; `gone_ms`, in the last of a life: when it ended."""
    in_order = Window.partitionBy(*PLACE).orderBy("log_offset")
    rows = commits.select(
        *PLACE,
        *("log_offset", "time_ms", "committed_offset", "is_deleted", "member_id", "client_id"),
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


def _windowed(rows: DataFrame) -> DataFrame:
    """Each commit with what its window says: `commits` in it, `first_ms`, `least` and `most` (offsets), `lags` known
    and the least of them, `shrinks` (steps with which the lag got smaller), `next_ms` (null: nothing came after)
    and `next_end` (how far the log reached then).
    """
    in_order = Window.partitionBy(*_LIFE).orderBy("log_offset")
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
        F.coalesce(F.lead("time_ms").over(in_order), "gone_ms").alias("next_ms"),
        F.lead("end_then").over(in_order).alias("next_end"),
    )
    steps = in_order.rowsBetween(2 - WINDOW, 0)
    return rows.withColumn("shrinks", F.count_if("shrank").over(steps))


def _judged(rows: DataFrame) -> DataFrame:
    """Each commit with the `status` that it leads to, and `stop_ms`: from when on it is STOP instead (null: never)."""
    full = F.col("commits") == WINDOW
    never_shrank = (F.col("lags") == WINDOW) & (F.col("least_lag") > 0) & (F.col("shrinks") == 0)
    status = (
        F.when(F.col("committed_offset") < F.col("most"), REWIND)
        .when(full & (F.col("least") == F.col("most")) & (F.col("beyond_ms") <= F.col("first_ms")), STALL)
        .when(full & never_shrank & (F.col("least") < F.col("most")), WARN)
        .otherwise(OK)
    )
    is_last = F.col("next_ms").isNull()
    stop = _stop_ms(is_last)
    enough = full | (is_last & (F.col("commits") > 1))
    is_stop = F.col("beyond_ms").isNotNull() & enough & (stop < F.coalesce("next_ms", "until_ms"))
    return rows.select("*", status.alias("status"), F.when(is_stop, stop).alias("stop_ms"), is_last.alias("is_last"))


def _stop_ms(is_last: Column) -> Column:
    """Silent for longer than the window spans. A consumer that had read everything has `SETTLE_MS` to go on. If it is
    not known when there was nothing to read, the time when there surely was something counts; long ago if it never went
    on.
    """
    too_long = F.col("time_ms") + (F.col("time_ms") - F.col("first_ms"))
    settled = F.greatest("beyond_ms", F.col("not_beyond_ms") + SETTLE_MS)
    return (
        F.when(F.col("not_beyond_ms").isNotNull(), F.greatest(too_long, settled))
        .when(is_last, too_long)
        .otherwise(F.greatest(too_long, F.col("beyond_ms") + SETTLE_MS))
    )


def _intervals(rows: DataFrame) -> DataFrame:
    """Commits of one status after each other as one row; a STOP is one of its own, it ends with the next commit."""
    in_order = Window.partitionBy(*_LIFE).orderBy("log_offset")
    is_stopped = F.col("stop_ms").isNotNull()
    rows = rows.select(
        "*",
        F.lag("status").over(in_order).alias("status_before"),
        F.lag(is_stopped).over(in_order).alias("stopped_before"),
        F.lead("status").over(in_order).alias("status_next"),
    ).withColumns(
        {
            "begins": F.col("stopped_before").isNull()
            | F.col("stopped_before")
            | (F.col("status") != F.col("status_before")),
            "ends": F.col("status_next").isNull() | is_stopped | (F.col("status") != F.col("status_next")),
        }
    )
    # most commits neither begin nor end an interval, and are left out of what follows
    rows = rows.where(F.col("begins") | F.col("ends"))
    start = F.when(F.col("begins"), F.struct("time_ms", "committed_offset"))
    so_far = in_order.rowsBetween(Window.unboundedPreceding, 0)
    rows = rows.select("*", F.last(start, ignorenulls=True).over(so_far).alias("start"))
    reached = F.when(F.col("is_last"), F.col("end_offset")).otherwise(F.col("next_end"))
    lag = behind(reached)
    told = (F.col("status") != OK) | (F.col("is_last") & ~is_stopped)
    running = _interval(F.col("start.time_ms"), F.coalesce("stop_ms", "next_ms"), "status", "start.committed_offset")
    stop = _interval(F.col("stop_ms"), F.col("next_ms"), F.lit(STOP), "committed_offset")
    found = F.array_compact(F.array(F.when(F.col("ends") & told, running), F.when(is_stopped, stop)))
    rows = rows.select(
        *("group", "topic", "partition", "member_id", "client_id"),
        F.col("committed_offset").alias("last_offset"),
        (F.col("commits") / WINDOW).alias("complete"),
        lag.alias("lag"),
        F.col("end_offset").isNotNull().alias("lag_known"),
        F.explode(found).alias("interval"),
    )
    return rows.select("*", "interval.*")


def _interval(start: Column, end: Column, status: Column | str, first_offset: str) -> Column:
    status = F.col(status) if isinstance(status, str) else status
    return F.struct(
        start.alias("start_ms"),
        end.alias("end_ms"),
        status.alias("status"),
        F.col(first_offset).alias("first_offset"),
    )
