from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from muster.pipeline.schema import CLASSIC_GROUP, CONSUMER_GROUP, DECODED, MALFORMED, OFFSET_COMMIT, OTHER_COMMIT
from muster.pipeline.wanted import ALL, Wanted, batch_filter, is_kept, pattern_of, with_last_before
from tests.pipeline.infer.epoch_model import Server, decoded_row
from tests.pipeline.tables.history import START_MS


@pytest.mark.parametrize(
    ("patterns", "matching", "others"),
    [
        (("payments",), ("payments",), ("payments-2", "my-payments", "PAYMENTS", "")),
        (("pay*", "?rders"), ("pay", "payments", "orders"), ("orders-2", "xpay")),
        (("a.b", "x[12]"), ("a.b", "x1"), ("aXb", "x3", "x12")),
        (("*-end",), ("-end", "a\nb-end"), ("-end-", "end")),
    ],
)
def test_patterns_match_whole_names(
    patterns: tuple[str, ...], matching: tuple[str, ...], others: tuple[str, ...]
) -> None:
    pattern = pattern_of(patterns)
    assert all(re.search(pattern, name) for name in matching)
    assert not any(re.search(pattern, name) for name in others)


ROWS = [
    (OFFSET_COMMIT, "a", 1_000),
    (OFFSET_COMMIT, "a", 2_000),
    (OFFSET_COMMIT, "a", 2_999),
    (OFFSET_COMMIT, "a", 3_000),
    (OFFSET_COMMIT, "a", None),
    (OFFSET_COMMIT, "a\nb", 2_000),
    (OFFSET_COMMIT, "b", 2_000),
    (CLASSIC_GROUP, "a", 1_000),
    (CLASSIC_GROUP, "b", 1_000),
    (CLASSIC_GROUP, "a", 3_000),
    (MALFORMED, None, 1_000),
    (MALFORMED, None, 2_000),
    (MALFORMED, None, None),
    (CONSUMER_GROUP, "a\nb", 1_000),
]
"""The kind, the group, and the time at which the row was logged."""


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        (ALL, ROWS),
        (Wanted(since_ms=2_000), [*ROWS[1:10], *ROWS[11:]]),
        (Wanted(until_ms=3_000), [*ROWS[:3], *ROWS[4:9], *ROWS[10:]]),
        (Wanted(2_000, 3_000, ("a", "[x]")), [ROWS[1], ROWS[2], ROWS[4], ROWS[7], ROWS[11], ROWS[12]]),
        (Wanted(groups=("a?b",)), [ROWS[5], *ROWS[10:]]),
        (Wanted(groups=("nobody",)), ROWS[10:13]),
    ],
)
def test_spark_and_the_workers_filter_the_same_rows(spark: SparkSession, wanted: Wanted, kept: list[object]) -> None:
    """Damaged rows without a known group are kept for any groups, and a group's earlier states too."""
    rows = [{"kind": kind, "group": group, "log_timestamp_ms": when} for kind, group, when in ROWS]
    batch = pa.RecordBatch.from_pylist(rows, schema=DECODED)
    names = ["kind", "group", "log_timestamp_ms"]
    found = batch_filter(wanted)(batch).select(names).to_pylist()
    by_workers = [row for row in found if row["kind"] != OTHER_COMMIT]
    assert [tuple(row.values()) for row in by_workers] == kept
    frame = spark.createDataFrame(batch.to_pylist(), from_arrow_schema(DECODED)).coalesce(1)
    assert [tuple(row) for row in frame.where(is_kept(wanted)).select(*names).collect()] == kept


def test_the_commits_of_other_groups_are_kept_as_signs_of_life() -> None:
    def others(**asked: Any) -> list[tuple[str, int]]:
        rows = batch_filter(Wanted(**asked))(batch).to_pylist()
        return [(row["group"], row["log_timestamp_ms"]) for row in rows if row["kind"] == OTHER_COMMIT]

    times = [("a", 10_000), ("b", 10_000), ("b", 10_500), ("b", 3_620_000), ("c", None)]
    rows = [
        {"kind": OFFSET_COMMIT, "group": group, "log_timestamp_ms": time_ms, "topic": "t"} for group, time_ms in times
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=DECODED)
    assert others(groups=("a",)) == [("b", 10_000), ("b", 3_620_000)]  # one for each step of time
    assert others(groups=("a",), until_ms=20_000) == [("b", 10_000)]
    assert others(since_ms=3_605_000) == [("a", 10_000), ("b", 10_000)]
    assert others(since_ms=3_615_000) == []  # more than an hour before
    assert others(groups=("*",)) == []
    assert batch_filter(Wanted(groups=("a",)))(batch.slice(0, 0)).num_rows == 0


def test_the_last_record_of_each_key_before_the_time_is_kept(spark: SparkSession) -> None:
    server = Server({"t": 2})
    server.join(1_000, "a1")
    server.join(2_000, "b1")
    server.settle(2_100)
    server.leave(9_000, "b1")
    rows = pa.Table.from_pylist([decoded_row(one) for one in server.records], DECODED)
    wanted = Wanted(since_ms=START_MS + 9_000)
    kept = with_last_before(spark.createDataFrame(rows).where(is_kept(wanted)), wanted).orderBy("log_offset")
    offsets = {(one.key_type, one.key): one.offset for one in server.records if one.at_ms < 9_000}
    later = [one.offset for one in server.records if one.at_ms >= 9_000]
    assert [row["log_offset"] for row in kept.collect()] == sorted([*offsets.values(), *later])
