"""The table `lag`: how far each group is behind on each partition that it has a committed offset for."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.facts.commits import PLACE
from muster.pipeline.facts.schema import conform
from muster.pipeline.facts.topic_ends import behind, with_ends


def lag(commits: DataFrame, ends: DataFrame | None) -> DataFrame:
    """Rows of the table `lag` out of those of `commits` and what is known of the ends of the logs."""
    of_partition = commits.groupBy(*PLACE)
    last = F.struct("log_offset", "is_deleted", "committed_offset", "time_ms", "client_id")
    rows = of_partition.agg(F.max(last).alias("last")).where(~F.col("last.is_deleted"))
    rows = with_ends(
        rows.select("group", "topic", "partition", "last.committed_offset", "last.time_ms", "last.client_id"), ends
    )
    waited = F.when(F.col("not_beyond_ms").isNotNull(), F.col("end_ms") - F.col("beyond_ms"))
    return conform(
        rows.select(
            *("group", "topic", "partition", "committed_offset", "end_offset", "end_ms", "client_id"),
            F.col("time_ms").alias("committed_ms"),
            behind(F.col("end_offset")).alias("lag"),
            F.when(behind(F.col("end_offset")) == 0, F.lit(0)).otherwise(waited).alias("behind_ms"),
        ),
        "lag",
    )
