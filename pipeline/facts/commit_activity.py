"""Which member committed when in each state of a group: a summary for the inference, made in Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.facts.commits import PLACE


def activity(commits: DataFrame) -> DataFrame:
    """group, state, activity: a list of member_id, commits, first_ms, last_ms, gap_ms (mean time between two commits
    of a partition; of the partition where it is least), max_gap_ms (the longest, likewise), last_gap_ms (the last one).
    `commits`: rows of `commits.placed`. The log does not say who commits: the member is the one that had the partition.
    """
    rows = commits.where(F.col("member_id").isNotNull() & F.col("state").isNotNull() & ~F.col("is_deleted"))
    in_order = Window.partitionBy(*PLACE).orderBy("log_offset")
    earlier = F.when(F.lag("state").over(in_order) == F.col("state"), F.lag("time_ms").over(in_order))
    rows = rows.select(*PLACE, "log_offset", "time_ms", "state", "member_id", (F.col("time_ms") - earlier).alias("gap"))
    partitions = rows.groupBy(*PLACE, "state", "member_id").agg(
        F.count("*").alias("commits"),
        F.min("time_ms").alias("first_ms"),
        F.max("time_ms").alias("last_ms"),
        F.avg("gap").cast("long").alias("gap_ms"),
        F.max("gap").alias("max_gap_ms"),
        F.max_by("gap", "log_offset").alias("last_gap_ms"),
    )
    members = partitions.groupBy("group", "state", "member_id").agg(
        F.sum("commits").alias("commits"),
        F.min("first_ms").alias("first_ms"),
        F.max("last_ms").alias("last_ms"),
        F.min("gap_ms").alias("gap_ms"),
        F.min("max_gap_ms").alias("max_gap_ms"),
        F.max_by("last_gap_ms", "last_ms").alias("last_gap_ms"),
    )
    row = F.struct("member_id", "commits", "first_ms", "last_ms", "gap_ms", "max_gap_ms", "last_gap_ms")
    return members.groupBy("group", "state").agg(F.collect_list(row).alias("activity"))
