"""What is known of the ends of the topics' logs, found for commits: how far the log reached at that time, and since
when there has been something beyond the committed offset.

`ends` has the columns topic, partition, end_offset, time_ms: from time_ms on the log reached end_offset at least.
Several rows of a partition are its history; the one with the largest offset is how far the log is known to reach now.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

_FOUND: Final = "end_then bigint, beyond_ms bigint, not_beyond_ms bigint, end_offset bigint, end_ms bigint"


def with_ends(commits: DataFrame, ends: DataFrame | None) -> DataFrame:
    """Commits (with topic, partition, time_ms, committed_offset, of which none is null) and beside them

    * end_then: how far the log reached when it was committed,
    * beyond_ms: from when on the log surely reached beyond the committed offset, null: it never did, by what is known,
    * not_beyond_ms: where that is given, the last time at which it surely did not, null: no such time is known,
    * end_offset, end_ms: how far the log is known to reach in the end, and since when.

    All are null where nothing is known, as without `ends`.
    """
    columns = _FOUND.split(", ")
    if ends is None:
        return commits.select("*", *(F.lit(None).cast(one.split()[1]).alias(one.split()[0]) for one in columns))
    by_place = Window.partitionBy("topic", "partition")
    upwards = by_place.orderBy("end_offset", "end_time_ms")
    marks = (
        ends.where(F.col("end_offset").isNotNull() & F.col("time_ms").isNotNull())
        .select("topic", "partition", "end_offset", F.col("time_ms").alias("end_time_ms"))
        .withColumn("below_ms", F.lag("end_time_ms").over(upwards))
        .select(
            "topic",
            "partition",
            F.col("end_offset").alias("committed_offset"),
            F.col("end_time_ms").alias("time_ms"),
            F.struct("end_offset", "end_time_ms", "below_ms").alias("end"),
        )
    )
    rows = commits.unionByName(marks, allowMissingColumns=True)
    is_mark = F.col("end").isNotNull()
    # running windows: what lies beyond comes before, from far to near; at one offset the commit before the end
    downwards = by_place.orderBy(F.desc("committed_offset"), is_mark, F.desc("time_ms"))
    in_time = by_place.orderBy("time_ms", ~is_mark, "committed_offset")
    rows = rows.select("*", F.last("end", ignorenulls=True).over(_so_far(downwards)).alias("beyond"))
    rows = rows.select(
        "*",
        F.last("end", ignorenulls=True).over(_so_far(in_time)).alias("then"),
        F.max("end").over(in_time.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)).alias("latest"),
    ).where(~is_mark)
    return rows.select(
        *commits.columns,
        F.col("then.end_offset").alias("end_then"),
        F.col("beyond.end_time_ms").alias("beyond_ms"),
        F.col("beyond.below_ms").alias("not_beyond_ms"),
        F.col("latest.end_offset").alias("end_offset"),
        F.col("latest.end_time_ms").alias("end_ms"),
    )


def _so_far(window: WindowSpec) -> WindowSpec:
    return window.rowsBetween(Window.unboundedPreceding, 0)
