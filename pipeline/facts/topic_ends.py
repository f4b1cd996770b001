"""The ends of the topics' logs, joined to commits: how far the log reached then, and since when it reaches beyond the
committed offset.

`ends` has the columns topic, partition, end_offset, time_ms: from time_ms on the log reached end_offset at least.
Several rows of a partition are its history; the largest offset is the latest known end. For these partitions commits of
other groups are history too: no group reads what is not there yet.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

LARGEST: Final = (1 << 63) - 1
_FOUND: Final = "end_then bigint, beyond_ms bigint, not_beyond_ms bigint, end_offset bigint, end_ms bigint"


def with_ends(commits: DataFrame, ends: DataFrame | None) -> DataFrame:
    """Commits (with topic, partition, time_ms, committed_offset, of which none is null) and beside them

    * end_then: how far the log reached at least when it was committed,
    * beyond_ms: from when on the log surely reached beyond the committed offset, null: it never did, by what is known,
    * not_beyond_ms: the last time at which it surely did not, null: no such time is known,
    * end_offset, end_ms: how far the log is known to reach in the end, and since when.

    All are null where `ends` has nothing of the partition, or where there are none.
    """
    columns = _FOUND.split(", ")
    if ends is None:
        return commits.select("*", *(F.lit(None).cast(one.split()[1]).alias(one.split()[0]) for one in columns))
    rows = commits.unionByName(_marks(ends), allowMissingColumns=True)
    by_place = Window.partitionBy("topic", "partition")
    in_time = by_place.orderBy("time_ms", F.col("mark").isNull())
    is_mark = F.col("mark").isNotNull()
    rows = rows.select(
        "*",
        F.max("mark").over(in_time.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)).alias("latest"),
        F.max("committed_offset").over(in_time.rowsBetween(Window.unboundedPreceding, 0)).alias("reached"),
    )
    # what was committed beyond the end (of a log that was made anew, or by hand) proves nothing
    proven = F.when(F.col("committed_offset") <= F.col("latest.end_offset"), F.col("time_ms"))
    # the neighbours of the largest and the least long are none
    height = F.greatest(F.least("committed_offset", F.lit(LARGEST - 1)), F.lit(1 - LARGEST))
    higher = by_place.orderBy(height.desc()).rangeBetween(Window.unboundedPreceding, -1)
    # the last mark of those above is the one next above: it knows when the log was below it
    rows = rows.select(
        "*",
        F.min(proven).over(higher).alias("above_ms"),
        F.last("mark", ignorenulls=True).over(higher).alias("next_mark"),
    ).where(~is_mark)
    known = F.col("latest").isNotNull()
    return rows.select(
        *commits.columns,
        F.when(known, F.least("reached", "latest.end_offset")).alias("end_then"),
        F.when(known, F.col("above_ms")).alias("beyond_ms"),
        F.col("next_mark.below_ms").alias("not_beyond_ms"),
        F.col("latest.end_offset").alias("end_offset"),
        F.col("latest.end_ms").alias("end_ms"),
    )


def behind(end: Column) -> Column:
    """How many records lie between the committed offset and an end; null where that is not known."""
    return F.when(end.isNotNull(), F.greatest(minus(end, F.col("committed_offset")), F.lit(0)))


def _marks(ends: DataFrame) -> DataFrame:
    """The ends in columns of commits; `mark` also has the time at which the log was known to end lower, `below_ms`."""
    known = ends.where(F.col("end_offset").isNotNull() & F.col("time_ms").isNotNull())
    earliest = known.groupBy("topic", "partition", "end_offset").agg(
        F.min("time_ms").alias("time_ms"), F.max("time_ms").alias("still_ms")
    )
    upwards = Window.partitionBy("topic", "partition").orderBy("end_offset")
    below = F.lag("still_ms").over(upwards).alias("below_ms")
    return earliest.select(
        *("topic", "partition", "time_ms"),
        F.col("end_offset").alias("committed_offset"),
        F.struct("end_offset", F.col("time_ms").alias("end_ms"), below).alias("mark"),
    )


def minus(left: Column, right: Column) -> Column:
    """left - right, and where that is more than a long holds the largest or the least long; null for nulls."""
    beyond = F.when(left > right, F.lit(LARGEST)).when(left < right, F.lit(-LARGEST - 1))
    return F.coalesce(F.try_subtract(left, right), beyond)
