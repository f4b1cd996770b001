"""The table `generations`: what a group was like from one of its records to the next."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.coordinator.groups.common.events import GROUP_DELETED, GROUP_EMPTIED, REBALANCE_COMPLETED
from muster.pipeline.facts.inputs import MEMBER_FIELDS, Inputs, states
from muster.pipeline.facts.schema import EVENTS_LOG, LOG, conform

_NOT_TOLD = {"rack": "string", "topics": "array<string>"}
"""What events have only in raw bytes, and its type."""
_IN_EVENTS = {"member_id": "member", "instance_id": "instance", "assigned": "assignment"}


def generations(inputs: Inputs) -> DataFrame:
    """Generations by the offsets log, and those that only the events know (the log is compacted, they are not)."""
    logged = _of_log(inputs)
    if inputs.events is None:
        return logged
    told = _of_events(inputs.events)
    # a group that was deleted and came again has its numbers again, but never its leaders
    known = ["group", "generation", "leader"]
    return logged.unionByName(told.join(logged.select(*known), known, "left_anti"))


def _of_log(inputs: Inputs) -> DataFrame:
    in_order = Window.partitionBy("group").orderBy("log_offset")
    kept = F.transform("members", lambda one: F.struct(*(one[name].alias(name) for name in MEMBER_FIELDS)))
    rows = states(inputs).withColumn("members", kept)
    told = F.struct("generation", "protocol_type", "protocol", "leader", "members", "is_tombstone")
    # a record is written again when a group is unloaded or upgraded: that is no new state
    rows = rows.withColumn("again", told.eqNullSafe(F.lag(told).over(in_order))).where(~F.col("again"))
    rows = rows.withColumn("end_ms", F.lead("at_ms").over(in_order)).where(~F.col("is_tombstone"))
    return _conform(rows.withColumn("start_ms", F.col("at_ms")).withColumn("source", F.lit(LOG)))


def _of_events(events: DataFrame) -> DataFrame:
    in_order = Window.partitionBy("group").orderBy("log_offset")
    rows = events.where(F.col("kind").isin(REBALANCE_COMPLETED, GROUP_EMPTIED, GROUP_DELETED))
    rows = rows.withColumn("end_ms", F.lead("time_ms").over(in_order)).where(F.col("kind") == REBALANCE_COMPLETED)
    members = F.transform("members", lambda one: F.struct(*(_told(one, name) for name in MEMBER_FIELDS)))
    rows = rows.withColumn("members", members).withColumn("start_ms", F.col("time_ms"))
    return _conform(rows.withColumn("log_offset", F.lit(None)).withColumn("source", F.lit(EVENTS_LOG)))


def _told(member: Column, name: str) -> Column:
    if name in _NOT_TOLD:
        return F.lit(None).cast(_NOT_TOLD[name]).alias(name)
    return member[_IN_EVENTS.get(name, name)].alias(name)


def _conform(rows: DataFrame) -> DataFrame:
    return conform(rows.withColumn("member_count", F.size("members")), "generations")
