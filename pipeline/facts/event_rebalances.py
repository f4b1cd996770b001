"""Rebalances from `__group_events`: exact."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.coordinator.groups.common import events as kinds
from muster.pipeline.facts.schema import EVENTS_LOG

_ENDS: Final = (kinds.REBALANCE_COMPLETED, kinds.GROUP_EMPTIED, kinds.GROUP_DELETED)
_TRIGGER: Final = {"member_id": "member", "instance_id": "instance", "client_id": "client_id", "host": "host"}


def told(events: DataFrame) -> DataFrame:
    """Each rebalance that ended: the columns of the table `rebalances` without `paused_partition_ms`, and leader,
    is_cooperative. Counts of partitions are null for one that left no members."""
    rows = events.where(F.col("kind").isin(kinds.REBALANCE_STARTED, kinds.REBALANCE_FAILED, *_ENDS))
    in_order = Window.partitionBy("group").orderBy("log_partition", "log_offset")
    ended = F.when(F.col("kind").isin(*_ENDS), 1).otherwise(0)
    rows = rows.withColumn(
        "round", F.coalesce(F.sum(ended).over(in_order.rowsBetween(Window.unboundedPreceding, -1)), F.lit(0))
    )
    is_end = F.col("kind").isin(kinds.REBALANCE_COMPLETED, kinds.GROUP_EMPTIED)
    started, failed = F.col("kind") == kinds.REBALANCE_STARTED, F.col("kind") == kinds.REBALANCE_FAILED
    ids = F.transform("members", lambda one: one.member)
    whole = F.struct(
        *("generation", "time_ms", "cause", "trigger", "join_phase_ms", "sync_phase_ms", "took_ms", "moves"),
        *("leader", "protocol"),
        ids.alias("ids"),
        "before",
        _owned().alias("owned"),
    )
    rounds = rows.groupBy("group", "round").agg(
        F.max(F.when(is_end, whole)).alias("end"),
        F.min_by(F.when(started, F.col("generation")), F.when(started, F.col("log_offset"))).alias("before_generation"),
        F.max_by(F.struct("cause", "trigger"), F.when(started, F.col("log_offset"))).alias("last"),
        F.max_by(F.when(started, F.col("member_count")), F.when(started, F.col("log_offset"))).alias("member_count"),
        F.sum(failed.cast("int")).alias("failed_attempts"),
    )
    rounds = rounds.where(F.col("end").isNotNull())
    emptied = F.col("end.ids").isNull()
    none = F.array().cast("array<string>")
    after = F.coalesce("end.ids", none)
    # the members before an empty group are those of the generation before
    in_turn = Window.partitionBy("group").orderBy("round")
    had = F.when(emptied, F.lag(after).over(in_turn)).otherwise(F.col("end.before"))
    lost = F.when(emptied, F.lag("end.owned").over(in_turn))
    rounds = rounds.withColumn("had", had).withColumn("lost_all", lost).withColumn("after", after)
    trigger = F.coalesce("end.trigger", "last.trigger")
    return rounds.select(
        "group",
        F.col("end.generation").alias("generation"),
        "before_generation",
        (F.col("end.time_ms") - F.col("end.took_ms")).alias("start_ms"),
        F.col("end.time_ms").alias("end_ms"),
        F.coalesce("end.cause", "last.cause").alias("cause"),
        *(trigger[field].alias(f"trigger_{name}") for name, field in _TRIGGER.items()),
        trigger["reason"].alias("reason"),
        F.coalesce("end.join_phase_ms", F.when(emptied, F.col("end.took_ms"))).alias("join_phase_ms"),
        F.coalesce("end.sync_phase_ms", F.when(emptied, F.lit(0))).alias("sync_phase_ms"),
        F.col("end.took_ms").alias("took_ms"),
        F.size("had").alias("members_before"),
        F.size("after").alias("members_after"),
        F.size(F.array_except("after", "had")).alias("members_joined"),
        F.size(F.array_except("had", "after")).alias("members_left"),
        *(_moved(name) for name in ("kept", "moved", "gained", "lost")),
        "failed_attempts",
        F.lit(EVENTS_LOG).alias("source"),
        F.lit(1.0).alias("confidence"),
        F.col("end.leader").alias("leader"),
        F.coalesce(F.contains("end.protocol", F.lit("cooperative")), F.lit(False)).alias("is_cooperative"),
    )


def _moved(name: str) -> Column:
    total = F.aggregate("end.moves", F.lit(0), lambda total, one: total + one[name])
    emptied = F.col("lost_all") if name == "lost" else F.when(F.col("lost_all").isNotNull(), 0)
    return F.coalesce(total, emptied).alias(name)


def _owned() -> Column:
    """How many partitions the members of a completed rebalance have; null if the event does not have it."""
    shares = F.flatten(F.transform("members", lambda one: one.assignment))
    return F.aggregate(shares, F.lit(0), lambda total, share: total + F.size(share.partitions))
