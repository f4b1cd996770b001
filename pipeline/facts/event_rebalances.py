"""Rebalances from `__group_events`: exact."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.coordinator.groups.common import events as kinds
from muster.pipeline.facts.schema import EVENTS_LOG

_ENDS: Final = (kinds.REBALANCE_COMPLETED, kinds.GROUP_EMPTIED, kinds.GROUP_DELETED)
_TRIGGER: Final = {"member_id": "member", "instance_id": "instance", "client_id": "client_id", "host": "host"}


_MEMBERS: Final = {kinds.MEMBER_JOINED: "came", kinds.MEMBER_LEFT: "went", kinds.MEMBER_EXPIRED: "died"}
"""Events of members, and the columns that name these."""


def _named(kind: str) -> Column:
    """What is told of a member in its rebalance."""
    if kind != kinds.MEMBER_EXPIRED:
        return F.col("member.client_id")
    return F.struct(
        *(F.col(f"member.{field}").alias(name) for name, field in _TRIGGER.items()),
        F.col("member.heard").alias("last_ms"),
        F.col("time_ms").alias("end_ms"),
    )


def _held() -> Column:
    """What each member has since a completed rebalance; null if the event does not have it."""
    return F.transform(
        "members",
        lambda one: F.struct(
            one.member.alias("member"), one.instance.alias("instance"), _count(one.assignment).alias("partitions")
        ),
    )


def _with_partitions(died: Column, held: Column) -> Column:
    """Those who died, with how many partitions they had: their own events do not tell it."""

    def had(one: Column) -> Column:
        its = F.filter(held, lambda other: (other.member == one.member_id) | (other.instance == one.instance_id))
        return F.coalesce(F.try_element_at(its, F.lit(1))["partitions"], F.lit(0))

    return F.transform(died, lambda one: one.withField("partitions", had(one)))


def _count(shares: Column) -> Column:
    return F.aggregate(shares, F.lit(0), lambda total, share: total + F.size(share.partitions))


def _silent_ms(one: Column, until_ms: Column) -> Column:
    """How long what a dead member had was not read before the rebalance began, summed over the partitions."""
    return F.coalesce(one.partitions * F.greatest(until_ms - one.last_ms, F.lit(0)), F.lit(0)).cast("long")


def told(events: DataFrame) -> DataFrame:
    """Each rebalance that ended: the columns of the table `rebalances` without `paused_partition_ms`, and leader,
    is_cooperative. Counts of partitions are null for one that left no members."""
    wanted = (kinds.REBALANCE_STARTED, kinds.REBALANCE_FAILED, *_ENDS, *_MEMBERS)
    rows = events.where(F.col("kind").isin(*wanted))
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
        _held().alias("held"),
    )
    rounds = rows.groupBy("group", "round").agg(
        F.max(F.when(is_end, whole)).alias("end"),
        F.min_by(F.when(started, F.col("generation")), F.when(started, F.col("log_offset"))).alias("before_generation"),
        F.max_by(F.struct("cause", "trigger"), F.when(started, F.col("log_offset"))).alias("last"),
        F.max_by(F.when(started, F.col("member_count")), F.when(started, F.col("log_offset"))).alias("member_count"),
        F.sum(failed.cast("int")).alias("failed_attempts"),
        *(F.collect_list(F.when(F.col("kind") == kind, _named(kind))).alias(name) for kind, name in _MEMBERS.items()),
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
    rounds = rounds.withColumn("died", _with_partitions(F.col("died"), F.lag("end.held").over(in_turn)))
    trigger = F.coalesce("end.trigger", "last.trigger")
    start_ms = F.col("end.time_ms") - F.col("end.took_ms")
    return rounds.select(
        "group",
        F.col("end.generation").alias("generation"),
        "before_generation",
        *(start_ms.alias(name) for name in ("start_ms", "start_earliest_ms", "start_latest_ms")),
        *("came", "went", "died"),
        F.array_min(F.transform("died", lambda one: one.last_ms)).alias("silent_from_ms"),
        F.aggregate("died", F.lit(0).cast("long"), lambda total, one: total + _silent_ms(one, start_ms)).alias(
            "silent_partition_ms"
        ),
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
    return _count(F.flatten(F.transform("members", lambda one: one.assignment)))
