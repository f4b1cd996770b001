"""The table `progress`: how each group read over time, in at most sixty steps: commits, records, how far behind.

Where the end of a topic at a moment is not known, `lag` is null: it is told only between two ends that were seen at
most eight steps apart (on a straight line), between two equal ones, and after the last one.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.facts.commit_windows import known_until
from muster.pipeline.facts.commits import PLACE
from muster.pipeline.facts.schema import conform
from muster.pipeline.facts.topic_ends import minus
from muster.pipeline.wording import DAY, HOUR, MINUTE, SECOND

STEPS: Final = 60
"""At most so many steps from the first commit of all to the end."""
SIZES: Final = (
    *(5 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE),
    *(HOUR, 2 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 7 * DAY),
)
"""How long a step may be."""
_NEAR: Final = 8
"""Ends that were seen so many steps apart tell what was between them."""
_TOPIC: Final = ("topic", "partition")


def progress(commits: DataFrame, ends: DataFrame | None) -> DataFrame:
    """Rows of the table out of those of `commits` and what is known of the ends of the logs."""
    steps = _steps(commits, ends)
    rows = _committed(commits, steps)
    if ends is None:
        unknown = F.lit(None).cast("long")
        rows = rows.select("*", unknown.alias("lag"), unknown.alias("written"), F.lit(False).alias("is_known"))
    else:
        rows = _behind(rows, ends)
    # of a partition whose end nobody ever saw nothing can be told; of one that is not known just now, nothing of all
    lacking = F.count_if(F.col("is_known") & F.col("committed_offset").isNotNull() & F.col("lag").isNull())
    not_written = F.count_if(F.col("is_known") & F.col("written").isNull())
    told = rows.groupBy("group", "start_ms", "until_ms").agg(
        F.sum("commits").alias("commits"),
        _sum("records").alias("records"),
        F.when(not_written == 0, _sum("written")).alias("written"),
        F.when(lacking == 0, _sum("lag")).alias("lag"),
    )
    return conform(told, "progress")


def _sum(name: str) -> Column:
    """Offsets that a tool set may be as large as a long holds."""
    return F.try_sum(name)


def _steps(commits: DataFrame, ends: DataFrame | None) -> DataFrame:
    """One row: size_ms, first_ms (where the first step begins), known_ms (until when there is anything to tell)."""
    first = commits.where(~F.col("is_deleted")).agg(F.min("time_ms").alias("first_ms"))
    both = first.crossJoin(known_until(commits, ends).withColumnRenamed("until_ms", "known_ms"))
    span = F.col("known_ms") - F.col("first_ms")
    largest = F.ceil(span / STEPS / DAY).cast("long") * DAY
    size = F.coalesce(*(F.when(span < one * (STEPS - 1), F.lit(one)) for one in SIZES), largest).cast("long")
    begin = (F.floor(F.col("first_ms") / F.col("size_ms")) * F.col("size_ms")).cast("long")
    return F.broadcast(both.where("first_ms is not null").withColumn("size_ms", size).withColumn("first_ms", begin))


def _committed(commits: DataFrame, steps: DataFrame) -> DataFrame:
    """A row for each partition and step, from its first commit on: start_ms, until_ms, commits, records, and the
    committed_offset at the end of the step, null after a deletion.
    """
    rows = commits.crossJoin(steps)
    start = (F.floor((F.col("time_ms") - F.col("first_ms")) / F.col("size_ms")) * F.col("size_ms")).cast("long")
    start = (F.greatest(start, F.lit(0)) + F.col("first_ms")).alias("start_ms")
    # a commit of a deleted offset has none
    state = F.struct("log_offset", "committed_offset")
    stepped = rows.groupBy(*PLACE, start, "first_ms", "known_ms", "size_ms").agg(
        F.count_if(~F.col("is_deleted")).alias("commits"), F.min(state).alias("first"), F.max(state).alias("last")
    )
    place = Window.partitionBy(*PLACE)
    following = F.lead("start_ms").over(place.orderBy("start_ms"))
    before = F.lag("last").over(place.orderBy("start_ms"))["committed_offset"]
    read = minus(F.col("last.committed_offset"), F.coalesce(before, F.col("first.committed_offset")))
    held = stepped.select(
        *PLACE,
        *("size_ms", "known_ms", "commits", "start_ms"),
        F.col("last.committed_offset").alias("committed_offset"),
        F.greatest(read, F.lit(0)).alias("records"),
        # the steps without a commit of it that come after
        F.greatest(
            F.col("start_ms"), F.coalesce(following, F.col("known_ms") + F.col("size_ms")) - F.col("size_ms")
        ).alias("held_ms"),
    )
    each = F.explode(F.sequence("start_ms", "held_ms", "size_ms")).alias("at_ms")
    is_first = F.col("at_ms") == F.col("start_ms")
    return (
        held.select("*", each)
        .where((F.col("at_ms") < F.col("known_ms")) | is_first)
        .select(
            *PLACE,
            *("size_ms", "committed_offset"),
            F.when(is_first, F.col("commits")).otherwise(0).alias("commits"),
            F.when(is_first, F.coalesce("records", F.lit(0))).otherwise(0).alias("records"),
            F.col("at_ms").alias("start_ms"),
            F.greatest(F.least(F.col("at_ms") + F.col("size_ms"), F.col("known_ms")), F.col("at_ms")).alias("until_ms"),
        )
    )


def _rise(low: Column, high: Column) -> Column:
    """From one to the other, at least 0; null if one of them is."""
    return F.when(low.isNotNull() & high.isNotNull(), F.greatest(minus(high, low), F.lit(0)))


def _behind(rows: DataFrame, ends: DataFrame) -> DataFrame:
    """With `lag` and `written`, how far the end moved in the step; `is_known`: the partition's end was ever seen."""
    seen = ends.where(F.col("end_offset").isNotNull() & F.col("time_ms").isNotNull())
    marks = seen.groupBy(*_TOPIC, F.col("time_ms").alias("at_ms")).agg(F.max("end_offset").alias("end_offset"))
    marks = marks.withColumn("seen", F.struct("at_ms", "end_offset")).drop("end_offset")
    points = rows.select(*_TOPIC, F.col("until_ms").alias("at_ms"), "size_ms").distinct()
    in_time = Window.partitionBy(*_TOPIC).orderBy("at_ms", F.col("seen").isNull())
    both = points.unionByName(marks, allowMissingColumns=True).select(
        *(*_TOPIC, "at_ms", "size_ms"),
        F.last("seen", ignorenulls=True).over(in_time).alias("a"),
        F.first("seen", ignorenulls=True).over(in_time.rowsBetween(1, Window.unboundedFollowing)).alias("b"),
    )
    gap = F.col("b.at_ms") - F.col("a.at_ms")
    grown = minus(F.col("b.end_offset"), F.col("a.end_offset"))
    share = (F.col("at_ms") - F.col("a.at_ms")) / gap
    between = F.when(gap <= _NEAR * F.col("size_ms"), F.col("a.end_offset") + F.floor(grown * share).cast("long"))
    still = F.col("b").isNull() | (F.col("b.end_offset") == F.col("a.end_offset"))
    end = F.when(still, F.col("a.end_offset")).otherwise(between)
    known = both.where(F.col("size_ms").isNotNull()).select(
        *_TOPIC, F.col("at_ms").alias("until_ms"), end.alias("end_offset")
    )
    ever = marks.select(*_TOPIC).distinct().withColumn("is_known", F.lit(True))
    joined = rows.join(known, [*_TOPIC, "until_ms"], "left").join(F.broadcast(ever), list(_TOPIC), "left")
    before = F.lag("end_offset").over(Window.partitionBy(*PLACE).orderBy("start_ms"))
    return joined.select(
        *("group", "start_ms", "until_ms", "commits", "records", "committed_offset"),
        _rise(F.col("committed_offset"), F.col("end_offset")).alias("lag"),
        _rise(before, F.col("end_offset")).alias("written"),
        F.coalesce("is_known", F.lit(False)).alias("is_known"),
    )
