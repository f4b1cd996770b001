"""The table `ownership`, and the input of `moves` and `rebalances`: the owner of each partition in each generation."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.facts.epoch_states import holds_of
from muster.pipeline.facts.inputs import HOLDER, held
from muster.pipeline.facts.schema import conform

_PARTITION = ("group", "topic", "partition")


def steps(generations: DataFrame) -> DataFrame:
    """Rows of the table `generations` with their number in the group (`step`: 1, 2, …), `next_generation` and
    `next_start_ms` of the row after, `previous_generation` and `previous_count` (of members) of the row before.
    """
    in_order = Window.partitionBy("group").orderBy("start_ms", F.col("log_offset").asc_nulls_last(), "generation")
    return generations.select(
        "*",
        F.row_number().over(in_order).alias("step"),
        F.lag("generation").over(in_order).alias("previous_generation"),
        F.lag("member_count").over(in_order).alias("previous_count"),
        F.lead("generation").over(in_order).alias("next_generation"),
        F.lead("start_ms").over(in_order).alias("next_start_ms"),
    )


def holders(generations: DataFrame) -> DataFrame:
    """The owner of each partition in each generation, and the one before: the columns of `held`, step, generation,
    log_offset, start_ms, end_ms, previous_generation, previous_count, next_generation, next_start_ms; `was_*` (step,
    end_ms and HOLDER of the last generation in which it had an owner), `next_step` in which it has one again.
    """
    numbered = steps(generations)
    times = numbered.select(
        *("group", "step", "generation", "log_offset", "start_ms", "end_ms", "previous_generation"),
        *("previous_count", "next_generation", "next_start_ms"),
    )
    rows = held(numbered, ("group", "step")).join(times, ["group", "step"])
    in_order = Window.partitionBy(*_PARTITION).orderBy("step")
    before = [F.lag(name).over(in_order).alias(f"was_{name}") for name in ("step", "end_ms", *HOLDER)]
    return rows.select("*", *before, F.lead("step").over(in_order).alias("next_step"))


def ownership(held_by: DataFrame, epochs: DataFrame | None = None) -> DataFrame:
    """Partition by owner and interval, from rows of `holders`: generations in a row with the same owner are one
    interval. In KIP-848 groups `epochs` (rows of EPOCHS) are exact to the ms.
    """
    if epochs is None:
        return conform(_intervals(held_by), "ownership")
    known = epochs.where("not is_tombstone").select("group", "log_offset")
    classic = _intervals(held_by.join(known, ["group", "log_offset"], "left_anti"))
    return conform(classic, "ownership").unionByName(conform(holds_of(epochs), "ownership"))


def _intervals(held_by: DataFrame) -> DataFrame:
    goes_on = (F.col("was_step") == F.col("step") - 1) & (F.col("was_member_id") == F.col("member_id"))
    in_order = Window.partitionBy(*_PARTITION).orderBy("step")
    rows = held_by.withColumn("begins", F.when(goes_on, 0).otherwise(1))
    rows = rows.withColumn("interval", F.sum("begins").over(in_order))
    return rows.groupBy(*_PARTITION, "interval").agg(
        *(F.first(name).alias(name) for name in HOLDER),
        F.min("start_ms").alias("start_ms"),
        F.max_by("end_ms", "step").alias("end_ms"),
        F.min_by("generation", "step").alias("first_generation"),
        F.max_by("generation", "step").alias("last_generation"),
    )
