"""The table `rebalances`: exact where `__group_events` tells of them, concluded from the offsets log elsewhere."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.facts.moves import GAINED, KEPT, LOST, MOVED
from muster.pipeline.facts.schema import INFERRED, conform
from muster.pipeline.facts.told import told

_WHICH = ("group", "generation", "leader")


def rebalances(inferred: DataFrame, changed: DataFrame, events: DataFrame | None) -> DataFrame:
    """Rebalances out of rows of `inferred.inferred`, of `moves.changes`, and EVENTS where there are any."""
    counts = _counts(changed)
    concluded = _with_counts(inferred.drop("gone").withColumn("source", F.lit(INFERRED)), counts)
    concluded = concluded.withColumn("reason", F.lit(None).cast("string"))
    if events is None:
        return _conform(concluded)
    exact = told(events).join(counts.select("group", "generation", "end_ms", "between_ms"), _KEY, "left")
    # the leader tells a generation from that of the same number before the group was deleted and came again
    same = [exact[name].eqNullSafe(concluded[name]) for name in _WHICH]
    unknown = concluded.join(exact.select(*_WHICH), same[0] & same[1] & same[2], "left_anti")
    return _conform(exact.unionByName(unknown))


_KEY = ["group", "generation", "end_ms"]


def _counts(changed: DataFrame) -> DataFrame:
    """What became of the partitions in each rebalance."""
    kinds = [F.count_if(F.col("kind") == kind).alias(kind) for kind in (KEPT, MOVED, GAINED, LOST)]
    rows = changed.groupBy("group", "generation", F.col("time_ms").alias("end_ms"))
    return rows.agg(*kinds, F.sum("between_ms").alias("between_ms"))


def _with_counts(rows: DataFrame, counts: DataFrame) -> DataFrame:
    return rows.join(counts, _KEY, "left").fillna(0, [KEPT, MOVED, GAINED, LOST])


def _conform(rows: DataFrame) -> DataFrame:
    """Under an eager protocol nobody consumes from the start to the end; under a cooperative one only what was given up
    in the round before waited for its new owner.
    """
    eager = F.col("took_ms") * (F.col(KEPT) + F.col(MOVED))
    paused = F.when(F.col("is_cooperative"), F.coalesce("between_ms", F.lit(0))).otherwise(eager)
    return conform(rows.withColumn("paused_partition_ms", paused), "rebalances")
