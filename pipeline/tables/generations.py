"""The tables `generations`, `ownership` and `balance`: the owner of each partition, and how even the shares are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from muster.assignors.measures import Owned, skew, stickiness
from muster.coordinator.groups.common.events import GROUP_DELETED, GROUP_EMPTIED, REBALANCE_COMPLETED
from muster.pipeline.frames import Column, DataFrame, F, Window, from_arrow_schema
from muster.pipeline.schema import SOURCE_EVENTS, SOURCE_LOG
from muster.pipeline.tables import batches_of, rows_of
from muster.pipeline.tables.epoch_states import holds_of
from muster.pipeline.tables.inputs import HOLDER, MEMBER_FIELDS, Inputs, held, states
from muster.pipeline.tables.schema import TABLES, conform

_NOT_IN_EVENTS = {"rack": "string", "topics": "array<string>"}
"""The fields that events have only as raw bytes, and their types."""
_IN_EVENTS = {"member_id": "member", "instance_id": "instance", "assigned": "assignment"}


def generations(inputs: Inputs) -> DataFrame:
    """The generations from the offsets log, and those that only the events have.

    Only the offsets log is compacted, so the events may have older generations.
    """
    logged = _of_log(inputs)
    if inputs.events is None:
        return logged
    of_events = _of_events(inputs.events)
    # a group that was deleted and created again uses the same numbers again, but never the same leaders
    known = ["group", "generation", "leader"]
    return logged.unionByName(of_events.join(logged.select(*known), known, "left_anti"))


def _of_log(inputs: Inputs) -> DataFrame:
    in_order = Window.partitionBy("group").orderBy("log_offset")
    kept = F.transform("members", lambda one: F.struct(*(one[name].alias(name) for name in MEMBER_FIELDS)))
    rows = states(inputs).withColumn("members", kept)
    of_events = F.struct("generation", "protocol_type", "protocol", "leader", "members", "is_tombstone")
    # a record is written again when a group is unloaded or upgraded, which is no new state
    rows = rows.withColumn("again", of_events.eqNullSafe(F.lag(of_events).over(in_order))).where(~F.col("again"))
    rows = rows.withColumn("end_ms", F.lead("at_ms").over(in_order)).where(~F.col("is_tombstone"))
    return _conform(rows.withColumn("start_ms", F.col("at_ms")).withColumn("source", F.lit(SOURCE_LOG)))


def _of_events(events: DataFrame) -> DataFrame:
    in_order = Window.partitionBy("group").orderBy("log_offset")
    rows = events.where(F.col("kind").isin(REBALANCE_COMPLETED, GROUP_EMPTIED, GROUP_DELETED))
    rows = rows.withColumn("end_ms", F.lead("time_ms").over(in_order)).where(F.col("kind") == REBALANCE_COMPLETED)
    members = F.transform("members", lambda one: F.struct(*(_event_field(one, name) for name in MEMBER_FIELDS)))
    rows = rows.withColumn("members", members).withColumn("start_ms", F.col("time_ms"))
    return _conform(rows.withColumn("log_offset", F.lit(None)).withColumn("source", F.lit(SOURCE_EVENTS)))


def _event_field(member: Column, name: str) -> Column:
    if name in _NOT_IN_EVENTS:
        return F.lit(None).cast(_NOT_IN_EVENTS[name]).alias(name)
    return member[_IN_EVENTS.get(name, name)].alias(name)


def _conform(rows: DataFrame) -> DataFrame:
    return conform(rows.withColumn("member_count", F.size("members")), "generations")


_PARTITION = ("group", "topic", "partition")


def steps(generations: DataFrame) -> DataFrame:
    """Rows of the table `generations`, with their number in the group (`step`: 1, 2, …) and values of the neighbours.

    `next_generation` and `next_start_ms` come from the row after. `previous_generation` and `previous_count` (of
    members) come from the row before.
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
    """The owner of each partition in each generation, and the partition's owner before.

    The columns are those of `held`, step, generation, log_offset, start_ms, end_ms, previous_generation,
    previous_count, next_generation and next_start_ms. `was_*` are step, end_ms and HOLDER of the last generation before
    in which the partition had an owner. `next_step` is the next step in which it has an owner.
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
    """The owners of each partition, with the intervals in which they had it, from rows of `holders`.

    Generations in a row with the same owner are one interval. For KIP-848 groups, the times in `epochs` (rows of
    EPOCHS) are exact to the ms.
    """
    if epochs is None:
        return conform(_intervals(held_by), "ownership")
    known = epochs.where("not is_tombstone").select("group", "log_offset")
    classic = _intervals(held_by.join(known, ["group", "log_offset"], "left_anti"))
    return conform(classic, "ownership").unionByName(conform(holds_of(epochs), "ownership"))


def _intervals(held_by: DataFrame) -> DataFrame:
    continues = (F.col("was_step") == F.col("step") - 1) & (F.col("was_member_id") == F.col("member_id"))
    in_order = Window.partitionBy(*_PARTITION).orderBy("step")
    rows = held_by.withColumn("begins", F.when(continues, 0).otherwise(1))
    rows = rows.withColumn("interval", F.sum("begins").over(in_order))
    return rows.groupBy(*_PARTITION, "interval").agg(
        *(F.first(name).alias(name) for name in HOLDER),
        F.min("start_ms").alias("start_ms"),
        F.max_by("end_ms", "step").alias("end_ms"),
        F.min_by("generation", "step").alias("first_generation"),
        F.max_by("generation", "step").alias("last_generation"),
    )


_SHARE: Final = ("member_id", "instance_id", "assigned")


def balance(generations: DataFrame) -> DataFrame:
    """Rows of the table `balance`: one for each row of `generations` whose members are consumers."""
    shares = F.transform("members", lambda one: F.struct(*(one[name].alias(name) for name in _SHARE)))
    in_order = Window.partitionBy("group").orderBy("start_ms", "generation")
    rows = generations.select("group", "generation", "start_ms", shares.alias("shares"))
    rows = rows.withColumn("before", F.lag("shares").over(in_order))
    rows = rows.where(F.exists("shares", lambda one: one["assigned"].isNotNull()))
    schema = TABLES["balance"]
    return rows.mapInArrow(
        lambda batches: batches_of(map(measure, rows_of(batches)), schema), from_arrow_schema(schema)
    )


def measure(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of `balance` for a generation. `shares` and `before` are lists of members, or None."""
    owned = _owned(row["shares"])
    even = skew(owned)
    return {
        "group": row["group"],
        "generation": row["generation"],
        "start_ms": row["start_ms"],
        "members": len(owned),
        "partitions": sum(len(partitions) for topics in owned.values() for partitions in topics.values()),
        "least": even.least,
        "most": even.most,
        "skew": even.coefficient,
        "stickiness": stickiness(_owned(row["before"]), owned) if row["before"] else None,
    }


def _owned(shares: Iterable[Mapping[str, Any]]) -> Owned:
    """The partitions by instance id or member id: a static member returns under another member id."""
    return {
        share["instance_id"] or share["member_id"]: {
            topic["topic"]: topic["partitions"] for topic in share["assigned"] or ()
        }
        for share in shares
    }
