"""Which member had which partition of a KIP-848 group when, from rows of EPOCHS; exact to the record."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

_OWNER = ("member_id", "instance_id", "client_id")


def holds_of(epochs: DataFrame) -> DataFrame:
    """What each member had from when to when: the columns of the table `ownership`."""
    return epochs.select("group", F.explode("holds").alias("one")).select("group", "one.*")


def takes_of(epochs: DataFrame) -> DataFrame:
    """Partitions that got an owner: group, log_offset (of the epoch), topic, partition, taken_ms (when), paused_ms (for
    how long nobody had had it; null: nobody was to).
    """
    rows = epochs.select("group", "log_offset", F.explode("takes").alias("one"))
    # somebody may have had it twice in one epoch
    return rows.groupBy("group", "log_offset", "one.topic", "one.partition").agg(
        F.max("one.at_ms").alias("taken_ms"), F.sum("one.paused_ms").alias("paused_ms")
    )


def owners_of(epochs: DataFrame, states: DataFrame, commits: DataFrame) -> DataFrame:
    """`commits` (group, state, topic, partition, log_offset, and the owner in a classic group: member_id, instance_id,
    client_id) with the owners in KIP-848 groups. A change of owner within an epoch is looked up by the offset, so each
    commit is joined with one row.
    """
    numbers = states.where("is_epoch").select("group", "log_offset", "state")
    rows = epochs.join(numbers, ["group", "log_offset"])
    who = F.map_from_entries(
        F.transform("members", lambda one: F.struct(one.member_id, F.struct(*(one[name] for name in _OWNER[1:]))))
    )
    each = rows.select("group", "state", F.explode("owners").alias("one"), who.alias("who"))
    of_one = F.struct(
        F.col("one.from_offset").alias("from_offset"),
        F.col("one.member_id").alias("member_id"),
        *(F.col("who")[F.col("one.member_id")][name].alias(name) for name in _OWNER[1:]),
    )
    lines = each.groupBy("group", "state", "one.topic", "one.partition").agg(
        F.sort_array(F.collect_list(of_one)).alias("line")
    )
    rows = commits.join(lines, ["group", "state", "topic", "partition"], "left")
    owner = F.try_element_at(F.filter("line", lambda one: one.from_offset <= F.col("log_offset")), F.lit(-1))
    return rows.withColumn("owner", owner).withColumns({name: F.coalesce(name, f"owner.{name}") for name in _OWNER})
