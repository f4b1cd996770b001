from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from muster.pipeline.decode import decode_all
from muster.pipeline.schema import KINDS, UNKNOWN, table_columns
from muster.pipeline.sources.segments import read_segments
from muster.pipeline.tables import counts, table
from tests.pipeline.live import LATE_WORKER
from tests.pipeline.raw import commit, in_order
from tests.pipeline.sources.logs import batch, write_segment
from tests.protocol.golden import GOLDEN

OFFSETS_LOG = str(GOLDEN / "offsets-log")


def test_segments_are_read_as_raw_rows(spark: SparkSession) -> None:
    rows = spark.read.format("muster").option("numPartitions", "2").load(OFFSETS_LOG)
    assert rows.rdd.getNumPartitions() == 2
    found = sorted((row.partition, row.offset, row.key, row.value, row.timestamp_ms) for row in rows.collect())
    assert found == sorted(
        (row["partition"], row["offset"], row["key"], row["value"], row["timestamp_ms"])
        for batch in read_segments(OFFSETS_LOG)
        for row in batch.to_pylist()
    )


def test_segments_are_decoded_and_written_to_parquet(spark: SparkSession, tmp_path: Path) -> None:
    decoded = spark.read.format("muster").option("rows", "decoded").load(OFFSETS_LOG)
    decoded.write.parquet(str(tmp_path / "decoded"))
    again = spark.read.parquet(str(tmp_path / "decoded"))
    found = [row.asDict(recursive=True) for row in again.orderBy("log_partition", "log_offset").collect()]
    assert found == in_order(list(decode_all(read_segments(OFFSETS_LOG))))
    reported = {(row.kind, row.key_type): row.rows for row in counts(again).collect()}
    assert reported == Counter((row["kind"], row["key_type"]) for row in found)
    for kind in KINDS:
        assert table(again, kind).columns == table_columns(kind)
    classic = [row.log_offset for row in table(again, "classic").collect()]
    assert sorted(classic) == sorted(row["log_offset"] for row in found if row["kind"] == "classic")


def test_damaged_rows_are_in_their_own_table(spark: SparkSession, tmp_path: Path) -> None:
    write_segment(tmp_path, batch([commit()], 0) + batch([(b"\0\x63", None), (b"\0", None)], 1) + b"torn batch")
    rows = spark.read.format("muster").option("path", str(tmp_path)).option("rows", "decoded").load()
    malformed = table(rows, "malformed").orderBy("log_offset").collect()
    assert [row.log_offset for row in malformed] == [2, 3]
    assert "torn tail" in malformed[1].reason
    assert [(row.key_type, row.raw_key) for row in table(rows, UNKNOWN).collect()] == [(99, bytearray(b"\0\x63"))]


def test_an_unknown_table_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match=f"it is one of {', '.join(KINDS)}"):
        table(spark.range(1), "orders")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "/nowhere/at/all"}, "/nowhere/at/all cannot be listed"),
        ({"path": OFFSETS_LOG, "topic": "orders"}, "holds no segments of orders"),
        (
            {"path": OFFSETS_LOG, "no.such": "1"},
            r'format\("muster"\) has no option no.such: it takes bootstrap.servers,',
        ),
        ({"path": OFFSETS_LOG, "rows": "cooked"}, "option rows=cooked: expected raw or decoded"),
    ],
)
def test_a_wrong_path_or_option_is_an_error_and_no_empty_table(
    spark: SparkSession, options: dict[str, str], message: str
) -> None:
    with pytest.raises(AnalysisException, match=message) as error:
        spark.read.format("muster").options(**options).load().count()
    assert "Traceback" not in str(error.value)


def test_segments_cannot_be_streamed(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.readStream.format("muster").option("path", OFFSETS_LOG).load()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    message = LATE_WORKER
    while LATE_WORKER in message:  # on a busy machine
        with pytest.raises(Exception) as error:  # noqa: PT011  # Spark's own kinds differ
            query.start().awaitTermination()
        message = str(error.value)
    assert "cannot be streamed" in message
