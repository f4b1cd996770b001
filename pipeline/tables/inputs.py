"""The inputs of the tables, and the views of the offsets log that most tables read.

`events` makes rows of `__group_events` from raw rows, by the rules of docs/events.md. The JVM reads the JSON. Unknown
kinds, fields and versions are kept or ignored. A value that is no JSON is malformed. The views are the states of each
group, and the owner of each partition in each state. All records of a group are in one partition of the log. So log
offsets give the order of all records of a group.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

import pyarrow as pa

from muster.coordinator.groups.common import events as kind_names
from muster.pipeline.frames import DataFrame, F, Window
from muster.pipeline.frames.types import name_of
from muster.pipeline.schema import CLASSIC_GROUP
from muster.pipeline.tables import shaped, table
from muster.pipeline.tables.epoch_states import states_of
from muster.pipeline.tables.schema import EVENT_FIELDS, TABLES
from muster.pipeline.tables.share_states import NOTHING as NO_SHARES
from muster.pipeline.tables.share_states import ShareInputs
from muster.pipeline.tables.transactions import NOTHING, TransactionInputs

EVENTS_TOPIC: Final = "__group_events"

_OWN_TYPES: Final = {
    "members": (kind_names.REBALANCE_COMPLETED, kind_names.REBALANCE_FAILED),
    "member_count": (kind_names.REBALANCE_STARTED, kind_names.EPOCH_BUMPED, kind_names.EPOCH_RECONCILED),
    "topic_counts": (kind_names.REBALANCE_COMPLETED,),
    "topic_partitions": (kind_names.OFFSETS_DELETED, kind_names.OFFSETS_EXPIRED),
}
"""Columns whose field has another type in some kinds of events, and the kinds with the column's type."""

_IN_JSON: Final = {"member_count": "members", "topic_counts": "topics", "topic_partitions": "topics"}


def events(raw: DataFrame) -> DataFrame:
    """Rows of EVENTS, made from raw rows (pipeline.schema.RAW, read with the option topic=__group_events)."""
    rows = _read(raw).where(F.col("problem").isNull())
    common = F.from_json("text", _json_schema(None))
    rows = rows.withColumn("common", common)
    for name, kinds in _OWN_TYPES.items():
        rows = rows.withColumn(
            f"own_{name}", F.when(F.col("kind").isin(*kinds), F.from_json("text", _json_schema(name)))
        )
    fields = [
        F.col(f"own_{name}.{_IN_JSON.get(name, name)}" if name in _OWN_TYPES else f"common.{name}").alias(name)
        for name, _ in EVENT_FIELDS
    ]
    return rows.select(
        F.col("partition").alias("log_partition"),
        F.col("offset").alias("log_offset"),
        F.coalesce("common.time", "timestamp_ms").alias("time_ms"),
        F.coalesce(F.col("common.group"), F.col("key").cast("string")).alias("group"),
        "kind",
        F.col("common.v").alias("v"),
        *fields,
        F.col("text").alias("value"),
    )


def malformed_events(raw: DataFrame) -> DataFrame:
    """The rows of `__group_events` that are no events, as rows of the table `malformed`."""
    rows = _read(raw).where(F.col("problem").isNotNull())
    known = {
        "group": F.col("key").cast("string"),
        "log_topic": F.lit(EVENTS_TOPIC),
        "log_partition": F.col("partition"),
        "log_offset": F.col("offset"),
        "log_timestamp_ms": F.col("timestamp_ms"),
        "reason": F.col("problem"),
        "raw_key": F.col("key"),
        "raw_value": F.col("value"),
        "is_tombstone": F.col("value").isNull(),
    }
    return shaped(rows, TABLES["malformed"], known)


def _read(raw: DataFrame) -> DataFrame:
    """The raw rows with the columns `text`, `kind` and `problem` (null: the row is readable)."""
    rows = raw.withColumn("text", F.col("value").cast("string"))
    rows = rows.withColumn("kind", F.get_json_object("text", "$.kind"))
    damage = F.col("damage") if "damage" in raw.columns else F.lit(None).cast("string")
    problem = (
        F.when(damage.isNotNull(), damage)
        .when(F.col("value").isNull(), F.lit("an event without a value"))
        .when(F.try_parse_json("text").isNull(), F.lit("the value is no JSON"))
        .when(F.col("kind").isNull(), F.lit("the value has no kind"))
    )
    return rows.withColumn("problem", problem)


def _json_schema(own: str | None) -> str:
    """Spark's schema of the fields that have one type in all kinds, or of one field with its own type."""
    if own is not None:
        kind = dict(EVENT_FIELDS)[own]
        return f"`{_IN_JSON.get(own, own)}` {name_of(kind)}"
    fields = [("v", pa.int32()), ("time", pa.int64()), ("group", pa.string())]
    fields += [(name, kind) for name, kind in EVENT_FIELDS if name not in _OWN_TYPES]
    return ", ".join(f"`{name}` {name_of(kind)}" for name, kind in fields)


class Inputs(NamedTuple):
    """The inputs of the tables.

    * `decoded`: rows of pipeline.schema.DECODED
    * `events`: rows of tables.schema.EVENTS; None without `__group_events`
    * `ends`: topic, partition, end_offset, time_ms; None if the ends of the topics are not known
    * `since_ms`: the start of the wanted time; earlier records only show the state at that time; None: without limit
    * `epochs`: rows of epoch_states.EPOCHS; None without KIP-848 groups
    * `odd_times`: rows of log_times.ODD; None: every time in the log is possible
    * `transactions`: see TransactionInputs; `shares`: see ShareInputs
    * `others`: decoded rows of the kind OTHER_COMMIT; None: all groups and all times are wanted
    * `topics`: the names of the present topics; None: not known
    * `has_streams`: whether there are records of streams groups
    * `silences`: rows of the table `silences`, if some groups are not in these inputs; None: it is made
    * `states`: kept rows of the function `states`; None: they are made from the other inputs
    """

    decoded: DataFrame
    events: DataFrame | None = None
    ends: DataFrame | None = None
    since_ms: int | None = None
    epochs: DataFrame | None = None
    odd_times: DataFrame | None = None
    transactions: TransactionInputs = NOTHING
    shares: ShareInputs = NO_SHARES
    states: DataFrame | None = None
    others: DataFrame | None = None
    topics: Collection[str] | None = None
    has_streams: bool = False
    silences: DataFrame | None = None


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
"""The fields of tables.schema.MEMBER_FACT, and the names of the same fields in decoded rows."""


def states(inputs: Inputs) -> DataFrame:
    """Every record of a classic group, and every epoch of a KIP-848 group.

    * group, state (1, 2, … in the order of the log), log_partition, log_offset, at_ms (when it was logged)
    * is_tombstone, is_epoch, generation, protocol_type, protocol, leader, state_timestamp_ms
    * members: MEMBER_FACT, `owned` partitions, and `metadata`, a hash of all that the member sends to its leader

    An epoch has the place of its own record, and began at state_timestamp_ms. It counts as logged when all its members
    had reached it.
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
    """The owner of each partition in each state of a classic group: the columns HOLDER, and those of the state."""
    return held(states(inputs).where(~F.col("is_epoch")), ("group", "state", "generation"))


def held(rows: DataFrame, columns: tuple[str, ...]) -> DataFrame:
    """One row for each partition that is assigned in a row with `members`: `columns`, topic, partition and HOLDER.

    `columns` identify the rows. If a leader gave a partition to several members, the last of them counts.
    """
    members = rows.select(*columns, F.posexplode("members").alias("place", "member"))
    shares = members.select("*", F.explode("member.assigned").alias("share"))
    single = shares.select("*", F.col("share.topic").alias("topic"), F.explode("share.partitions").alias("partition"))
    who = F.struct("place", *(F.col(f"member.{name}").alias(name) for name in HOLDER))
    last = single.groupBy(*columns, "topic", "partition").agg(F.max(who).alias("who"))
    return last.select(*columns, "topic", "partition", *(F.col(f"who.{name}").alias(name) for name in HOLDER))
