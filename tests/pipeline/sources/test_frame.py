from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from muster.pipeline.schema import OFFSETS_TOPIC
from muster.pipeline.sources.frame import decoded_rows
from muster.pipeline.sources.segment_files import NoSource
from tests.pipeline.raw import commit

SCHEMA = "topic string, partition int, offset long, timestamp timestamp, key binary, value binary, headers string"
NOON = dt.datetime(2026, 11, 21, 12, 0, 0, 250_000, tzinfo=dt.UTC)


def kafka_rows(spark: SparkSession, topics: list[str], schema: str = SCHEMA) -> Any:
    key, value = commit(group="g", offset=12)
    rows = [(topic, 3, 40 + i, NOON, key, value, None) for i, topic in enumerate(topics)]
    return spark.createDataFrame(rows, schema)


def test_any_rows_of_kafka_are_decoded(spark: SparkSession) -> None:
    rows = decoded_rows(kafka_rows(spark, [OFFSETS_TOPIC, "orders", OFFSETS_TOPIC])).orderBy("log_offset").collect()
    assert [(row.kind, row.log_partition, row.log_offset, row.committed_offset) for row in rows] == [
        ("commit", 3, 40, 12),
        ("commit", 3, 42, 12),
    ]
    assert rows[0].log_timestamp_ms == int(NOON.timestamp() * 1000)
    assert rows[0].producer_id is None


def test_rows_with_other_column_types_are_decoded(spark: SparkSession) -> None:
    one = kafka_rows(spark, [OFFSETS_TOPIC])
    for when in ("unix_millis(timestamp) AS timestamp_ms", "unix_millis(timestamp) AS timestamp"):
        copy = one.selectExpr("CAST(partition AS long) AS partition", "offset", "key", "value", when)
        (row,) = decoded_rows(copy).collect()
        assert row.log_timestamp_ms == int(NOON.timestamp() * 1000)
    local = one.selectExpr("partition", "offset", "key", "value", "CAST(timestamp AS timestamp_ntz) AS timestamp")
    assert decoded_rows(local).collect()[0].log_timestamp_ms == int(NOON.timestamp() * 1000)


def test_no_rows_are_an_error_with_the_explanation(spark: SparkSession) -> None:
    with pytest.raises(NoSource, match="useDeprecatedOffsetFetching=true"):
        decoded_rows(kafka_rows(spark, []))
    with pytest.raises(NoSource, match="internal topics"):
        decoded_rows(kafka_rows(spark, ["orders"]))


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        ("value", "no column value; there are topic"),
        ("timestamp", "no column timestamp"),
        ("offset", "no column offset"),
    ],
)
def test_a_missing_column_is_named(spark: SparkSession, left_out: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decoded_rows(kafka_rows(spark, []).drop(left_out))


def test_text_keys_are_refused(spark: SparkSession) -> None:
    rows = kafka_rows(spark, []).selectExpr("partition", "offset", "timestamp", "CAST(key AS string) AS key", "value")
    with pytest.raises(ValueError, match="column key is string: it must be binary"):
        decoded_rows(rows)


def test_large_binary_columns_are_accepted(spark: SparkSession) -> None:
    key, value = commit()
    table = pa.table(
        {
            "partition": pa.array([0], pa.int32()),
            "offset": pa.array([0], pa.int64()),
            "timestamp_ms": pa.array([5], pa.int64()),
            "key": pa.array([key], pa.large_binary()),
            "value": pa.array([value], pa.large_binary()),
        }
    )
    assert decoded_rows(spark.createDataFrame(table)).collect()[0].kind == "commit"
