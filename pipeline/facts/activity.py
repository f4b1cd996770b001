"""Who committed when in each state of a group: a summary for the inference, made by Spark alone, however many commits
there are.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.facts.inputs import Inputs, holdings, placed_commits

_PARTITION = ("group", "state", "topic", "partition")


def activity(inputs: Inputs) -> DataFrame:
    """group, state, activity: a list of member_id, commits, first_ms, last_ms, gap_ms (mean time between two commits
    of a partition; of the partition where it is least), max_gap_ms (the longest, likewise),
    last_gap_ms (the last one).

    A commit is that of the member that holds the partition: the log does not say who commits.
    """
    commits = placed_commits(inputs).where(F.col("state").isNotNull() & ~F.col("is_tombstone"))
    in_order = Window.partitionBy(*_PARTITION).orderBy("log_offset")
    commits = commits.withColumn("gap_ms", F.col("at_ms") - F.lag("at_ms").over(in_order))
    partitions = commits.groupBy(*_PARTITION).agg(
        F.count("*").alias("commits"),
        F.min("at_ms").alias("first_ms"),
        F.max("at_ms").alias("last_ms"),
        F.avg("gap_ms").cast("long").alias("gap_ms"),
        F.max("gap_ms").alias("max_gap_ms"),
        F.max_by("gap_ms", "log_offset").alias("last_gap_ms"),
    )
    owned = holdings(inputs).select(*_PARTITION, "member_id")
    members = (
        partitions.join(owned, list(_PARTITION))
        .groupBy("group", "state", "member_id")
        .agg(
            F.sum("commits").alias("commits"),
            F.min("first_ms").alias("first_ms"),
            F.max("last_ms").alias("last_ms"),
            F.min("gap_ms").alias("gap_ms"),
            F.min("max_gap_ms").alias("max_gap_ms"),
            F.max_by("last_gap_ms", "last_ms").alias("last_gap_ms"),
        )
    )
    row = F.struct("member_id", "commits", "first_ms", "last_ms", "gap_ms", "max_gap_ms", "last_gap_ms")
    return members.groupBy("group", "state").agg(F.collect_list(row).alias("activity"))
