"""The inputs of the facts, and the views of the offsets log that most of them start from: the states of a group, and
the owner of each partition in each state.

All records of a group are in one partition of the log, so log offsets order everything of a group.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.facts.epoch_states import states_of
from muster.pipeline.facts.transactions import NOTHING, TransactionInputs
from muster.pipeline.schema import CLASSIC_GROUP
from muster.pipeline.tables import table


class Inputs(NamedTuple):
    """`decoded`: rows of pipeline.schema.DECODED; `events`: rows of facts.schema.EVENTS, None where there is no
    `__group_events`; `ends`: topic, partition, end_offset, time_ms, None where the ends of the topics are not known.
    `since_ms`: a group's last record before it is only its state at the beginning; None: all is told. `epochs`: rows of
    facts.epoch_states.EPOCHS, None: there is no KIP-848 group. `odd_times`: rows of facts.log_times.ODD, None: every
    time in the log is possible. `transactions`: see there. `states`: rows of `states` that are kept, None: they are
    made of the others.
    """

    decoded: DataFrame
    events: DataFrame | None = None
    ends: DataFrame | None = None
    since_ms: int | None = None
    epochs: DataFrame | None = None
    odd_times: DataFrame | None = None
    transactions: TransactionInputs = NOTHING
    states: DataFrame | None = None


MEMBER_FIELDS: Final = {
    "member_id": "member_id",
    "instance_id": "group_instance_id",
    "client_id": "client_id",
    "host": "client_host",
    "session_timeout_ms": "session_timeout_ms",
    "rebalance_timeout_ms": "rebalance_timeout_ms",
    "rack": "rack",
    "topics": "topics",
    "assigned": "assigned",
}
"""The fields of facts.schema.MEMBER_FACT, and what they are called in decoded rows."""


def states(inputs: Inputs) -> DataFrame:
    """Every record of a classic group, and every epoch of one of KIP-848: group, state (1, 2, … in the order of the
    log), log_partition, log_offset, at_ms (when it was logged), is_tombstone, generation, protocol_type, protocol,
    leader, state_timestamp_ms, members (of MEMBER_FACT, `owned` partitions and `metadata`, a hash of all that it told
    its leader), is_epoch. An epoch stands where its own
    record does, began at state_timestamp_ms, and counts as logged when all its members were there.
    """
    if inputs.states is not None:
        return inputs.states
    in_order = Window.partitionBy("group").orderBy("log_offset")
    rows = _classic_states(inputs.decoded).withColumn("is_epoch", F.lit(False))
    if inputs.epochs is not None:
        rows = rows.unionByName(states_of(inputs.epochs).withColumn("is_epoch", F.lit(True)))
    return rows.withColumn("state", F.row_number().over(in_order))


def _classic_states(decoded: DataFrame) -> DataFrame:
    fields = {**MEMBER_FIELDS, "owned": "owned"}
    members = F.transform(
        "members",
        lambda one: F.struct(
            *(one[old].alias(new) for new, old in fields.items()), F.xxhash64(one.subscription).alias("metadata")
        ),
    )
    return table(decoded, CLASSIC_GROUP).select(
        *("group", "log_partition", "log_offset"),
        F.col("log_timestamp_ms").alias("at_ms"),
        *("is_tombstone", "generation", "protocol_type", "protocol", "leader", "state_timestamp_ms"),
        members.alias("members"),
    )


HOLDER: Final = ("member_id", "instance_id", "client_id", "host")
"""The columns of the owner of a partition."""


def holdings(inputs: Inputs) -> DataFrame:
    """The owner of each partition in each state of a classic group: HOLDER, and the columns that tell these apart."""
    return held(states(inputs).where(~F.col("is_epoch")), ("group", "state", "generation"))


def held(rows: DataFrame, columns: tuple[str, ...]) -> DataFrame:
    """One row for each partition that is assigned in a row that has `members`: `columns` (which tell the rows apart),
    topic, partition and HOLDER. Where a leader gave a partition to several members, the last one counts.
    """
    members = rows.select(*columns, F.posexplode("members").alias("place", "member"))
    shares = members.select("*", F.explode("member.assigned").alias("share"))
    single = shares.select("*", F.col("share.topic").alias("topic"), F.explode("share.partitions").alias("partition"))
    who = F.struct("place", *(F.col(f"member.{name}").alias(name) for name in HOLDER))
    last = single.groupBy(*columns, "topic", "partition").agg(F.max(who).alias("who"))
    return last.select(*columns, "topic", "partition", *(F.col(f"who.{name}").alias(name) for name in HOLDER))
