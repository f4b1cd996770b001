"""Raw rows from any DataFrame of Kafka rows: Spark's own Kafka connector, a raw copy in Delta or Parquet."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, DataType, TimestampNTZType, TimestampType

from muster.pipeline.decode import decode_all
from muster.pipeline.schema import DECODED, OFFSETS_TOPIC, RAW
from muster.pipeline.sources.segment_files import NoSource
from muster.pipeline.tables import shaped

CONNECTOR_OPTIONS: Final = {
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
}
"""Settings of the session without which Spark's connector reads no row of an internal topic."""

CONNECTOR_SPEED: Final = {
    "kafka.isolation.level": "read_committed",
    "kafka.exclude.internal.topics": "false",
    "kafka.fetch.max.wait.ms": "10",
    "kafka.max.poll.records": "5000",
}
"""Options of a read through Spark's connector: committed rows only, internal topics in patterns too, and quick."""

EXPLANATION: Final = (
    "there is no row to read. Spark's Kafka connector answers like that, without an error, for internal topics such as "
    "__consumer_offsets, unless the session has spark.sql.streaming.kafka.useDeprecatedOffsetFetching=true "
    "(and the read kafka.exclude.internal.topics=false where it names topics by pattern)"
)

_NEEDED: Final = ("partition", "offset", "key", "value")


def lacking_columns(names: Collection[str]) -> str:
    """Which columns rows of Kafka would have beside these, in words; empty: none is missing."""
    lacking = [name for name in _NEEDED if name not in names]
    lacking += [] if "timestamp" in names or "timestamp_ms" in names else ["timestamp"]
    return f"rows of Kafka have no column {', '.join(lacking)}" if lacking else ""


def raw_rows(rows: DataFrame, topic: str = OFFSETS_TOPIC) -> DataFrame:
    """Any Kafka rows in the columns of schema.RAW: partition, offset, key and value are needed, `timestamp` (a
    timestamp, or ms) or `timestamp_ms` too; where there is a column `topic`, rows of other topics are left out.

    Raises ValueError for a missing column or one of another type.
    """
    types = {field.name: field.dataType for field in rows.schema.fields}
    if lacking := lacking_columns(types):
        raise ValueError(f"{lacking}; there are {', '.join(rows.columns)}")
    for name in ("key", "value"):
        if not isinstance(types[name], BinaryType):
            raise ValueError(f"column {name} is {types[name].simpleString()}: it must be binary, as Kafka keeps it")
    if "topic" in types:
        rows = rows.where(F.col("topic") == topic)
    when = "timestamp_ms" if "timestamp_ms" in types else "timestamp"
    known = {"topic": F.lit(topic), "timestamp_ms": _milliseconds(when, types[when])}
    return shaped(rows, RAW, known)


def _milliseconds(name: str, kind: DataType) -> Column:
    if isinstance(kind, TimestampNTZType):
        return F.unix_millis(F.col(name).cast(TimestampType()))
    return F.unix_millis(F.col(name)) if isinstance(kind, TimestampType) else F.col(name)


def some_rows(rows: DataFrame, topic: str = OFFSETS_TOPIC) -> DataFrame:
    """`raw_rows`; raises NoSource with the explanation when there is none. A stream need not have any yet."""
    raw = raw_rows(rows, topic)
    if not rows.isStreaming and raw.isEmpty():
        raise NoSource(EXPLANATION)
    return raw


def decoded_rows(rows: DataFrame, topic: str = OFFSETS_TOPIC) -> DataFrame:
    """Any Kafka rows decoded (schema.DECODED). Raises as `some_rows` does."""
    return some_rows(rows, topic).mapInArrow(decode_all, from_arrow_schema(DECODED))
