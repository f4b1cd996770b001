"""The table `memberships`: each member of a group from its beginning to its end. A client of a KIP-848 group keeps its
member id when it comes again: then it has several.
"""

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
    in_order = F.row_number().over(Window.partitionBy("group").orderBy("start_ms", "generation"))
    rows = generations.select(
        *("group", "generation", "start_ms", "end_ms", "source", "members"), in_order.alias("place")
    )
    rows = rows.withColumn("one", F.explode("members")).drop("members")
    rows = rows.select("*", *(F.col(f"one.{name}").alias(name) for name in HOLDER))
    # generations in a row are one stay
    of_member = Window.partitionBy("group", "member_id").orderBy("place")
    rows = rows.withColumn("stay", F.col("place") - F.row_number().over(of_member))
    found = rows.groupBy("group", "member_id", "stay").agg(
        *(F.first(name).alias(name) for name in HOLDER if name != "member_id"),
        F.min("start_ms").alias("start_ms"),
        F.max_by("end_ms", "start_ms").alias("end_ms"),
        F.min_by("generation", "start_ms").alias("first_generation"),
        F.max_by("generation", "start_ms").alias("last_generation"),
        F.count_distinct("generation").alias("generations"),
        F.first("source").alias("source"),
    )
    found = _with_ends(found, inferred).withColumn("end_ms", F.coalesce("gone_ms", "end_ms"))
    # a static member that comes back in time gets a new id without a rebalance
    of_instance = Window.partitionBy("group", "instance_id").orderBy("start_ms", "last_generation")
    took_over = F.col("instance_id").isNotNull() & (F.lead("start_ms").over(of_instance) == F.col("end_ms"))
    replaced = F.when(took_over, _HOW[kinds.MEMBER_REPLACED])
    found = found.withColumn("end_cause", F.coalesce("end_cause", replaced))
    if events is None:
        return conform(found, "memberships")
    return _with_events(found, events)


def _with_ends(found: DataFrame, inferred: DataFrame) -> DataFrame:
    """How each stay ended: by the first rebalance after it began that the member did not outlive, and before it came
    again.
    """
    gone = inferred.select("group", F.col("end_ms").alias("told_ms"), F.explode("gone").alias("one")).select(
        F.col("group").alias("its_group"),
        F.col("one.member_id").alias("its_id"),
        "told_ms",
        "one.end_cause",
        F.col("one.end_ms").alias("gone_ms"),
    )
    stays = Window.partitionBy("group", "member_id").orderBy("start_ms", "stay")
    rows = found.withColumns({"again_ms": F.lead("start_ms").over(stays), "number": F.row_number().over(stays)})
    is_its = (F.col("group") == F.col("its_group")) & (F.col("member_id") == F.col("its_id"))
    is_its &= (F.col("number") == 1) | (F.col("told_ms") > F.col("start_ms"))
    is_its &= F.col("again_ms").isNull() | (F.col("told_ms") <= F.col("again_ms"))
    both = rows.join(gone, is_its, "left")
    soonest = Window.partitionBy("group", "member_id", "stay").orderBy("told_ms")
    return both.withColumn("place", F.row_number().over(soonest)).where("place = 1")


def _with_events(found: DataFrame, events: DataFrame) -> DataFrame:
    told = _told(events)
    both = found.alias("log").join(told.alias("told"), ["group", "member_id", "number"], "full")
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
    each = begins.unionByName(ends, allowMissingColumns=True)
    # one that comes again under its id begins another stay
    so_far = Window.partitionBy("group", "member_id").orderBy(
        F.coalesce("start_ms", "end_ms"), F.col("start_ms").isNotNull()
    )
    each = each.withColumn("number", F.greatest(F.count("start_ms").over(so_far), F.lit(1)).cast("int"))
    return each.groupBy("group", "member_id", "number").agg(
        *(F.first(name, ignorenulls=True).alias(name) for name in ("instance_id", "client_id", "host")),
        F.min("start_ms").alias("start_ms"),
        F.max("end_ms").alias("end_ms"),
        F.max_by("end_cause", "end_ms").alias("end_cause"),
        F.lit(EVENTS_LOG).alias("source"),
    )
