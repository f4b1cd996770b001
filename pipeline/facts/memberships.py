"""The table `memberships`: each member of a group from the first generation that has it to the last."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.facts.inputs import HOLDER
from muster.pipeline.facts.schema import conform


def memberships(generations: DataFrame) -> DataFrame:
    """Memberships by the generations alone."""
    rows = generations.select("group", "generation", "start_ms", "end_ms", "source", F.explode("members").alias("one"))
    rows = rows.select("*", *(F.col(f"one.{name}").alias(name) for name in HOLDER))
    found = rows.groupBy("group", "member_id").agg(
        *(F.first(name).alias(name) for name in HOLDER if name != "member_id"),
        F.min("start_ms").alias("start_ms"),
        F.max_by("end_ms", "start_ms").alias("end_ms"),
        F.min_by("generation", "start_ms").alias("first_generation"),
        F.max_by("generation", "start_ms").alias("last_generation"),
        F.count_distinct("generation").alias("generations"),
        F.lit(None).alias("end_cause"),
        F.first("source").alias("source"),
    )
    return conform(found, "memberships")
