"""The table `flapping`: how unstable each group is. docs/pipeline-tables.md has the formula."""

from __future__ import annotations

from typing import Final

from muster.pipeline.episodes.score import BY_RATE, BY_REPEATS, BY_SHORT, HALF_RATE, SHORT_MS
from muster.pipeline.frames import Column, DataFrame, F
from muster.pipeline.tables.commit_activity import SEEN
from muster.pipeline.tables.findings import unpacked
from muster.pipeline.tables.schema import conform

HOUR_MS: Final = 3_600_000


def flapping(rebalances: DataFrame, generations: DataFrame, walk: DataFrame) -> DataFrame:
    """Rows of the table `flapping`: one for each group of the table `rebalances`. `walk`: rows of `commits.walked`."""
    hours = ((F.col("last_ms") - F.col("first_ms")) / HOUR_MS).alias("hours")
    rows = _triggers(rebalances).join(observed(generations, walk).select("group", hours), "group", "left")
    rows = rows.join(_short(generations), "group", "left")
    known = F.coalesce("hours", F.lit(0.0))
    rows = rows.select(
        *("group", "rebalances", "distinct_triggers", "triggered"),
        F.col("top.client_id").alias("top_trigger_client_id"),
        (F.col("top.count") / F.col("rebalances")).alias("top_trigger_share"),
        known.alias("hours"),
        (F.col("rebalances") / F.greatest(known, F.lit(1.0))).alias("rebalances_per_hour"),
        F.coalesce("short_generations", F.lit(0)).alias("short_generations"),
    )
    return conform(rows.withColumn("score", _score()), "flapping")


def _triggers(rebalances: DataFrame) -> DataFrame:
    """For each group: the rebalances, those with a known trigger (`triggered`), the distinct triggers, and the top one.

    The instance id identifies a member, or else client id and host: it returns under another member id.
    """
    static = F.concat(F.lit("instance "), "trigger_instance_id")
    placed = F.concat_ws("@", "trigger_client_id", "trigger_host")
    known = F.coalesce(static, F.when(F.col("trigger_client_id").isNotNull(), placed), "trigger_member_id")
    each = rebalances.groupBy("group", known.alias("who")).agg(
        F.count("*").alias("count"), F.max("trigger_client_id").alias("client_id")
    )
    is_known = F.col("who").isNotNull()
    return each.groupBy("group").agg(
        F.sum("count").alias("rebalances"),
        F.coalesce(F.sum(F.when(is_known, F.col("count"))), F.lit(0)).alias("triggered"),
        F.count("who").alias("distinct_triggers"),
        F.max(F.when(is_known, F.struct("count", "client_id"))).alias("top"),
    )


def observed(generations: DataFrame, walk: DataFrame) -> DataFrame:
    """group; first_ms and last_ms: from when to when the log has the group; end_ms: the end of the log.

    If the last generation is still current, last_ms is the end of the log.
    """
    of_group = generations.groupBy("group").agg(
        F.min("start_ms").alias("first_ms"),
        F.max(F.coalesce("end_ms", "start_ms")).alias("last_ms"),
        # in the log, the generation of an empty group has no end
        F.bool_or(F.col("end_ms").isNull() & (F.col("member_count") > 0)).alias("in_force"),
    )
    by_commits = unpacked(walk, "seen", SEEN).select("group", "first_ms", "last_ms")
    every = of_group.unionByName(by_commits.withColumn("in_force", F.lit(False)))
    spans = every.groupBy("group").agg(
        F.min("first_ms").alias("first_ms"), F.max("last_ms").alias("last_ms"), F.bool_or("in_force").alias("in_force")
    )
    until = every.agg(F.max("last_ms").alias("end_ms"))
    last = F.when(F.col("in_force"), F.col("end_ms")).otherwise(F.col("last_ms")).alias("last_ms")
    return spans.crossJoin(F.broadcast(until)).select("group", "first_ms", last, "end_ms")


def _short(generations: DataFrame) -> DataFrame:
    short = F.col("end_ms") - F.col("start_ms") < SHORT_MS
    return (
        generations.where((F.col("member_count") > 0) & short)
        .groupBy("group")
        .agg(F.count("*").alias("short_generations"))
    )


def _score() -> Column:
    rate = F.col("rebalances_per_hour") / (F.col("rebalances_per_hour") + HALF_RATE)
    short = F.least(F.col("short_generations") / F.col("rebalances"), F.lit(1.0))
    several = F.col("triggered") > 1
    repeats = F.when(several, (F.col("triggered") - F.col("distinct_triggers")) / (F.col("triggered") - 1)).otherwise(
        0.0
    )
    return F.round(100 * rate * (BY_RATE + BY_SHORT * short + BY_REPEATS * repeats), 1)
