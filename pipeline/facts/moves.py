"""The table `moves`: partitions that got another owner in a rebalance."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.facts.schema import conform

KEPT: Final = "kept"
MOVED: Final = "moved"
GAINED: Final = "gained"
LOST: Final = "lost"


def changes(held_by: DataFrame, takes: DataFrame | None = None) -> DataFrame:
    """What became of every partition in every rebalance, `kept` ones too, from rows of `ownership.holders`: group, step
    (of the generation it led to), generation, topic, partition, kind, from_* and to_* (member_id, client_id), time_ms,
    moved_ms (when it had its new owner), idle_ms (gained: since its last owner lost it; null: it never had one),
    between_ms (the same, where it was lost in the rebalance before this one and the group was not empty in between: a
    cooperative second round). `takes` (`epoch_states.takes_of`) say it to the ms, of moved partitions too.
    """
    if takes is None:
        nothing = F.lit(None).cast("long")
        held_by = held_by.withColumns({"taken_ms": nothing, "paused_ms": nothing})
    else:
        held_by = held_by.join(takes, ["group", "log_offset", "topic", "partition"], "left")
    # a static member that comes back has another id and is the same owner
    same = F.coalesce("instance_id", "member_id") == F.coalesce("was_instance_id", "was_member_id")
    adjacent = F.col("was_step") == F.col("step") - 1
    # a record that is written again for a static member's new id is no rebalance
    rebalanced = ~F.col("generation").eqNullSafe(F.col("previous_generation"))
    idle = F.col("start_ms") - F.col("was_end_ms")
    is_between = (F.col("was_step") == F.col("step") - 2) & (F.col("previous_count") > 0)
    taken = held_by.where(rebalanced).select(
        *("group", "step", "generation", "topic", "partition"),
        F.when(adjacent & same, KEPT).when(adjacent, MOVED).otherwise(GAINED).alias("kind"),
        F.when(adjacent, F.col("was_member_id")).alias("from_member_id"),
        F.when(adjacent, F.col("was_client_id")).alias("from_client_id"),
        F.col("member_id").alias("to_member_id"),
        F.col("client_id").alias("to_client_id"),
        F.col("start_ms").alias("time_ms"),
        F.coalesce("taken_ms", "start_ms").alias("moved_ms"),
        F.coalesce("paused_ms", F.when(~adjacent, idle)).alias("idle_ms"),
        F.when(F.col("taken_ms").isNotNull(), F.col("paused_ms")).when(is_between, idle).alias("between_ms"),
    )
    is_lost = F.col("next_start_ms").isNotNull() & ~(F.col("next_step").eqNullSafe(F.col("step") + 1))
    lost = held_by.where(is_lost).select(
        "group",
        (F.col("step") + 1).alias("step"),
        F.col("next_generation").alias("generation"),
        "topic",
        "partition",
        F.lit(LOST).alias("kind"),
        F.col("member_id").alias("from_member_id"),
        F.col("client_id").alias("from_client_id"),
        F.col("next_start_ms").alias("time_ms"),
        F.col("next_start_ms").alias("moved_ms"),
    )
    return taken.unionByName(lost, allowMissingColumns=True)


def moves(changed: DataFrame, rebalances: DataFrame) -> DataFrame:
    """Rows of `changes` without `kept`. If no exact time is known, a moved partition paused as its rebalance did."""
    took = rebalances.select("group", "generation", F.col("end_ms").alias("time_ms"), "took_ms")
    rows = changed.where(F.col("kind") != KEPT).join(took, ["group", "generation", "time_ms"], "left")
    paused = F.when(F.col("kind") == MOVED, F.coalesce("idle_ms", "took_ms")).otherwise(F.col("idle_ms"))
    return conform(rows.withColumns({"paused_ms": paused, "time_ms": F.col("moved_ms")}), "moves")
