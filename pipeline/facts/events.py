"""Rows of `__group_events` from raw rows, by the rules of docs/events.md. The JSON is read in the JVM. Unknown kinds,
fields and versions are kept or ignored; what is no JSON is malformed.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it
from pyspark.sql.pandas.types import from_arrow_type

from muster.coordinator.groups.common import events as kind_names
from muster.pipeline.facts.schema import EVENT_FIELDS, TABLES
from muster.pipeline.tables import shaped

EVENTS_TOPIC: Final = "__group_events"

_OWN_TYPES: Final = {
    "members": (kind_names.REBALANCE_COMPLETED, kind_names.REBALANCE_FAILED),
    "member_count": (kind_names.REBALANCE_STARTED, kind_names.EPOCH_BUMPED, kind_names.EPOCH_RECONCILED),
    "topic_counts": (kind_names.REBALANCE_COMPLETED,),
    "topic_partitions": (kind_names.OFFSETS_DELETED, kind_names.OFFSETS_EXPIRED),
}
"""Columns whose field has another type in other kinds, and the kinds with the column's type."""

_IN_JSON: Final = {"member_count": "members", "topic_counts": "topics", "topic_partitions": "topics"}


def events(raw: DataFrame) -> DataFrame:
    """EVENTS rows of raw rows (pipeline.schema.RAW, read with the option topic=__group_events)."""
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
    """The rows that are no events, as rows of the table `malformed`."""
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
    """The raw rows with `text`, `kind` and `problem` (null: it can be read)."""
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
    """Spark's schema of the fields with the same type in all kinds, or of one field with its own type."""
    if own is not None:
        kind = dict(EVENT_FIELDS)[own]
        return f"`{_IN_JSON.get(own, own)}` {from_arrow_type(kind).simpleString()}"
    fields = [("v", pa.int32()), ("time", pa.int64()), ("group", pa.string())]
    fields += [(name, kind) for name, kind in EVENT_FIELDS if name not in _OWN_TYPES]
    return ", ".join(f"`{name}` {from_arrow_type(kind).simpleString()}" for name, kind in fields)
