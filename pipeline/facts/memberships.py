"""The table `memberships`: each member of a group from its beginning to its end."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.coordinator.groups.common import events as kinds
from muster.pipeline.facts.inputs import HOLDER
from muster.pipeline.facts.schema import EVENTS_LOG, conform

_HOW: Final = {
    kinds.MEMBER_LEFT: "left",
    kinds.MEMBER_EXPIRED: "expired",
    kinds.MEMBER_REMOVED: "removed",
    kinds.MEMBER_REPLACED: "replaced",
}


def memberships(generations: DataFrame, inferred: DataFrame, events: DataFrame | None) -> DataFrame:
    """Memberships by the generations that have the member. How they ended comes from the events or is inferred. Only
    the events know a member that came and went between two generations.
    """
    rows = generations.select("group", "generation", "start_ms", "end_ms", "source", F.explode("members").alias("one"))
    rows = rows.select("*", *(F.col(f"one.{name}").alias(name) for name in HOLDER))
    found = rows.groupBy("group", "member_id").agg(
        *(F.first(name).alias(name) for name in HOLDER if name != "member_id"),
        F.min("start_ms").alias("start_ms"),
        F.max_by("end_ms", "start_ms").alias("end_ms"),
        F.min_by("generation", "start_ms").alias("first_generation"),
        F.max_by("generation", "start_ms").alias("last_generation"),
        F.count_distinct("generation").alias("generations"),
        F.first("source").alias("source"),
    )
    gone = inferred.select("group", F.explode("gone").alias("one")).select("group", "one.*")
    gone = gone.withColumnRenamed("end_ms", "gone_ms").dropDuplicates(["group", "member_id"])
    found = found.join(gone, ["group", "member_id"], "left").withColumn("end_ms", F.coalesce("gone_ms", "end_ms"))
    # a static member that comes back in time gets a new id without a rebalance
    of_instance = Window.partitionBy("group", "instance_id").orderBy("start_ms", "last_generation")
    took_over = F.col("instance_id").isNotNull() & (F.lead("start_ms").over(of_instance) == F.col("end_ms"))
    replaced = F.when(took_over, _HOW[kinds.MEMBER_REPLACED])
    found = found.withColumn("end_cause", F.coalesce("end_cause", replaced))
    if events is None:
        return conform(found, "memberships")
    return _with_events(found, events)


def _with_events(found: DataFrame, events: DataFrame) -> DataFrame:
    told = _told(events)
    both = found.alias("log").join(told.alias("told"), ["group", "member_id"], "full")
    columns = {
        name: F.coalesce(f"told.{name}", f"log.{name}")
        for name in ("instance_id", "client_id", "host", "start_ms", "end_ms", "end_cause", "source")
    }
    merged = both.select(
        "group",
        "member_id",
        *(column.alias(name) for name, column in columns.items()),
        "first_generation",
        "last_generation",
        F.coalesce("generations", F.lit(0)).alias("generations"),
    )
    return conform(merged, "memberships")


def _told(events: DataFrame) -> DataFrame:
    """When members came and went by the events."""
    rows = events.where(F.col("kind").isin(kinds.MEMBER_JOINED, *_HOW)).where(F.col("member").isNotNull())
    how = F.create_map(*(F.lit(text) for pair in _HOW.items() for text in pair))[F.col("kind")]
    came = F.col("kind").isin(kinds.MEMBER_JOINED, kinds.MEMBER_REPLACED)
    # a static member that comes back begins a membership under its new id, and ends that of the old one
    ends = rows.where(F.col("kind") != kinds.MEMBER_JOINED).select(
        "group",
        F.when(F.col("kind") == kinds.MEMBER_REPLACED, F.col("replaced"))
        .otherwise(F.col("member.member"))
        .alias("member_id"),
        F.col("time_ms").alias("end_ms"),
        how.alias("end_cause"),
    )
    begins = rows.where(came).select(
        "group",
        F.col("member.member").alias("member_id"),
        F.col("member.instance").alias("instance_id"),
        F.col("member.client_id").alias("client_id"),
        F.col("member.host").alias("host"),
        F.col("time_ms").alias("start_ms"),
    )
    each = begins.unionByName(ends, allowMissingColumns=True).groupBy("group", "member_id")
    return each.agg(
        *(F.first(name, ignorenulls=True).alias(name) for name in ("instance_id", "client_id", "host")),
        F.min("start_ms").alias("start_ms"),
        F.max("end_ms").alias("end_ms"),
        F.max_by("end_cause", "end_ms").alias("end_cause"),
        F.lit(EVENTS_LOG).alias("source"),
    )
