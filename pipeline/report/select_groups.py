"""What the pages tell of each group, from the tables (facts.schema.TABLES): of each group a bounded number of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.episodes.model import FORMATION, STOP
from muster.pipeline.episodes.verdict import LEVELS
from muster.pipeline.report.content import Row, Some, Story
from muster.pipeline.report.selecting import Tables, rows_of, some_of

GROUPS: Final = 1_000
"""Groups that are told of: the worst ones."""
FIRST: Final = 100
"""Of so many of them more is told."""
LANES: Final = 60
"""Members of one generation in a picture."""
EPISODES: Final = 60
"""Episodes of one group."""
_OF_FIRST: Final = {"shares": 40_000, "rebalances": 30_000}
"""Rows of the FIRST groups together. Of a long history the newest part is told."""
_OF_ONE: Final = {"shares": 2_000, "rebalances": 1_000}
"""Rows of one group."""
_OF_OTHERS: Final = {"shares": 40, "rebalances": 20}
"""Rows of a group that is not among the first."""
_TOPICS_SHOWN: Final = 6
_NUMBERS_SHOWN: Final = 40


def kept(kind: str, place: int, groups: int) -> int:
    """How many rows of a kind (`shares`, `rebalances`) the group at this place has."""
    return min(_OF_ONE[kind], _OF_FIRST[kind] // min(groups, FIRST)) if place < FIRST else _OF_OTHERS[kind]


def groups(tables: Tables) -> Some:
    """Rows of `Chosen.groups`."""
    members = tables["generations"].groupBy("group").agg(F.max("member_count").alias("members"))
    longest = F.when(F.col("took_ms").isNotNull(), F.struct("took_ms", "took_least_ms", "took_most_ms"))
    counted = (
        tables["rebalances"]
        .groupBy("group")
        .agg(
            F.count("*").alias("rebalances"),
            F.sum("paused_partition_ms").alias("paused_partition_ms"),
            F.sum("moved").alias("moved"),
            F.max(longest).alias("longest"),
            F.mode("cause").alias("top_cause"),
        )
    )
    scores = tables["flapping"].select("group", "score", "top_trigger_client_id", "top_trigger_share")
    lags = tables["lag"].groupBy("group").agg(F.sum("lag").alias("lag"))
    # a group whose offsets were all deleted or expired counts too
    committed = tables["commits"].select("group").distinct()
    rows = members.join(counted, "group", "full").join(scores, "group", "left").join(lags, "group", "full")
    rows = rows.join(committed, "group", "full")
    told = tables["verdicts"].select("group", "level", "verdict", "trouble_ms", "cost_ms")
    rows = rows.join(told, "group", "left")
    if "advice" in tables:
        rows = rows.join(tables["advice"].select("group", F.col("told").alias("advice")), "group", "left")
    else:
        rows = rows.withColumn("advice", F.lit(None).cast("string"))
    rank = F.array_position(F.array(*map(F.lit, LEVELS)), F.col("level"))
    return some_of(
        rows.withColumn("rebalances", F.coalesce("rebalances", F.lit(0))),
        F.asc_nulls_last(rank),
        F.desc_nulls_last("trouble_ms"),
        F.desc_nulls_last("cost_ms"),
        F.desc("rebalances"),
        F.desc_nulls_last("lag"),
        F.asc("group"),
        limit=GROUPS,
    )


def buckets(tables: Tables, bucket_ms: int, limit: int) -> list[Row]:
    """Rows of `Chosen.buckets`."""
    planned = tables["episodes"].where((F.col("kind") == FORMATION) | ((F.col("kind") == STOP) & ~F.col("has_died")))
    spans = planned.groupBy("group").agg(F.collect_list(F.struct("from_ms", "until_ms")).alias("spans"))
    within = F.exists("spans", lambda one: F.col("end_ms").between(one["from_ms"], one["until_ms"]))
    start = (F.floor(F.col("start_ms") / bucket_ms) * bucket_ms).cast("long").alias("bucket_ms")
    rows = tables["rebalances"].where("start_ms is not null").join(spans, "group", "left")
    counted = rows.groupBy(start, "cause", F.coalesce(within, F.lit(False)).alias("is_planned"))
    return rows_of(counted.agg(F.count("*").alias("rebalances")).orderBy("bucket_ms", "cause").limit(limit))


def stories(tables: Tables, about: Sequence[Row]) -> list[Story]:
    """What is told of each of these groups (rows of `Chosen.groups`, the worst first)."""
    if not about:
        return []
    wanted = _wanted(tables["verdicts"], about)
    shares, cut = _shares(tables["generations"], wanted)
    happened = _newest(tables["rebalances"], wanted, "rebalances", F.desc("generation"), F.desc("start_ms"))
    episodes = _newest(tables["episodes"], wanted, "episodes", F.desc("from_ms"), F.desc("until_ms"), "kind")
    progress: dict[str, list[Row]] = {}
    if "progress" in tables:
        for row in rows_of(tables["progress"].join(wanted.select("group"), "group").orderBy("group", "start_ms")):
            progress.setdefault(row["group"], []).append(row)
    return [
        Story(
            group,
            shares.get(group, ()),
            happened.get(group, Some()),
            row,
            episodes.get(group, Some()),
            progress.get(group, ()),
            group in cut,
        )
        for row in about
        if (group := row["group"]) is not None
    ]


def _wanted(table: DataFrame, about: Sequence[Row]) -> DataFrame:
    """The groups, with how much is told of each."""
    count = len(about)
    columns = {
        "group": pa.array([row["group"] for row in about], pa.string()),
        **{kind: pa.array([kept(kind, place, count) for place in range(count)], pa.int32()) for kind in _OF_ONE},
        "episodes": pa.array([EPISODES] * count, pa.int32()),
    }
    return F.broadcast(table.sparkSession.createDataFrame(pa.table(columns)))


def _newest(rows: DataFrame, wanted: DataFrame, kind: str, *order: Column | str) -> dict[str, Some]:
    by_group = Window.partitionBy("group")
    counted = rows.join(wanted.select("group", F.col(kind).alias("room")), "group").select(
        "*", F.row_number().over(by_group.orderBy(*order)).alias("place"), F.count("*").over(by_group).alias("total")
    )
    found: dict[str, list[Row]] = {}
    for row in rows_of(counted.where("place <= room").orderBy("group", "place")):
        found.setdefault(row["group"], []).append(row)
    return {group: Some(some, some[0]["total"]) for group, some in found.items()}


def _shares(generations: DataFrame, wanted: DataFrame) -> tuple[Mapping[str, Sequence[Row]], set[str]]:
    """Members of generations by group, and the groups of which older ones are left out."""
    newest = Window.partitionBy("group").orderBy(F.desc("log_offset"))
    of_generation = ("group", "generation", "start_ms", "end_ms", "is_cut")
    drawn = (
        generations.where("member_count > 0")
        .join(wanted.select("group", F.col("shares").alias("room")), "group")
        .withColumn("so_far", F.sum(F.least("member_count", F.lit(LANES))).over(newest))
        .withColumn("is_cut", F.max("so_far").over(Window.partitionBy("group")) > F.col("room"))
        .where("so_far <= room")
        .select(*of_generation, F.explode(F.slice("members", 1, LANES)).alias("one"))
    )
    rows = drawn.select(
        *of_generation,
        *(F.col(f"one.{name}").alias(name) for name in ("member_id", "instance_id", "client_id", "host")),
        F.aggregate(
            F.coalesce("one.assigned", F.array()), F.lit(0), lambda total, topic: total + F.size(topic["partitions"])
        ).alias("partitions"),
        F.transform(F.slice("one.assigned", 1, _TOPICS_SHOWN), _shortened).alias("assigned"),
    )
    found: dict[str, list[Row]] = {}
    cut: set[str] = set()
    for row in rows_of(rows):
        found.setdefault(row["group"], []).append(row)
        if row["is_cut"]:
            cut.add(row["group"])
    return found, cut


def _shortened(topic: Column) -> Column:
    return F.struct(topic["topic"].alias("topic"), F.slice(topic["partitions"], 1, _NUMBERS_SHOWN).alias("partitions"))
