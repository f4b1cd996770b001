"""Columns and rows that are not requested of format("muster") are skipped early: EXPLAIN and the read bytes show it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from muster.pipeline.decode import decode
from muster.pipeline.schema import DECODED, RAW
from muster.pipeline.sources.cluster import bounds, wanted_bounds
from muster.pipeline.sources.options import BadOption, options_of
from muster.pipeline.sources.segments import DamagedSegment, Reading, RowFilter, read_share, share_out
from muster.protocol.hashing import group_partition
from tests.pipeline.live import Live
from tests.pipeline.raw import commit
from tests.pipeline.sources.logs import batch, write_segment

GROUPS = ("payments", "orders", "web", "audit")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two partitions of two closed segments and an open one each: commits at 1000, 2000, … ms, of four groups."""
    root = tmp_path_factory.mktemp("log")
    for partition in (0, 1):
        for number in range(3):
            base = 4 * number
            at_ms = 1_000 * (1 + number)
            pairs = [commit(group=group, offset=base) for group in GROUPS]
            # the second batch of a segment is 500 ms later
            batches = (batch(pairs[:2], base, timestamp_ms=at_ms), batch(pairs[2:], base + 2, timestamp_ms=at_ms + 500))
            path = write_segment(root, batches, partition, base)
            index = (at_ms + 500).to_bytes(8, "big") + (3).to_bytes(4, "big")
            path.with_suffix(".timeindex").write_bytes(index)
    return str(root)


def decoded(spark: SparkSession, log: str, **options: str) -> DataFrame:
    return spark.read.format("muster").options(path=log, rows="decoded", numPartitions="2", **options).load()


def plan_of(rows: DataFrame) -> str:
    """The plan, by EXPLAIN FORMATTED."""
    text: str = rows._sc._jvm.PythonSQLUtils.explainString(rows._jdf.queryExecution(), "formatted")
    return text


CASES = {
    "partitions": ({"partitions": "1, 7-9"}, "log_partition = 1"),
    "a group": ({"groups": "orders"}, "`group` = 'orders'"),
    "some groups": (
        {"groups": "web,nobody,p*", "partitions": "0"},
        "`group` in ('web', 'payments') and log_partition = 0",
    ),
    "since": ({"since": "1970-01-01T00:00:02.500"}, "log_timestamp_ms >= 2500"),
    "between": (
        {"since": "1970-01-01T00:00:02", "until": "1970-01-01T01:00:03+01:00", "groups": "a[tu]*"},
        "log_timestamp_ms >= 2000 and log_timestamp_ms < 3000 and `group` = 'audit'",
    ),
    "nothing": ({"partitions": "7"}, "false"),
}


@pytest.mark.parametrize("case", CASES)
def test_options_select_the_same_rows_as_a_filter(spark: SparkSession, log: str, case: str) -> None:
    options, filtered = CASES[case]
    key = ("log_partition", "log_offset")
    found = sorted(decoded(spark, log, **options).select(*key).collect())
    assert found == sorted(decoded(spark, log).where(filtered).select(*key).collect())
    assert bool(found) is (case != "nothing")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": "web"}, "only decoded rows have groups"),
        ({"partitions": "1-"}, "expected numbers such as 3,7,10-19"),
        ({"since": "yesterday"}, "option since=yesterday: expected a time"),
        ({"columns": "log_offset"}, "no column 'log_offset': topic, partition, offset"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(BadOption, match=message):
        options_of({"path": "somewhere", **options})


@settings(deadline=None)
@given(st.text(max_size=6), st.lists(st.text(max_size=6), max_size=6))
def test_records_of_other_groups_are_not_even_decoded(wanted: str, others: list[str]) -> None:
    keys = [commit(group=name)[0] for name in (wanted, *others)] + [None, b"", b"\0\1\0"]
    none = [None] * len(keys)
    raw = pa.RecordBatch.from_pydict(
        {name: pa.array(keys if name == "key" else none, RAW.field(name).type) for name in RAW.names}, schema=RAW
    )
    row_filter = RowFilter(groups=("".join(f"[{one}]" if one in "*?[" else one for one in wanted),))
    whole = [row_filter.of_decoded(one) for one in decode(raw)]
    assert sum(one.num_rows for one in whole) == 1 + others.count(wanted)
    narrow = [row_filter.of_decoded(one) for one in decode(row_filter.of_raw(raw))]
    assert pa.Table.from_batches(narrow, DECODED).equals(pa.Table.from_batches(whole, DECODED))
    if row_filter.names is not None:
        assert row_filter.of_raw(raw).num_rows == 1 + others.count(wanted)


def test_only_the_requested_columns_are_returned(spark: SparkSession, log: str) -> None:
    rows = decoded(spark, log, columns="log_offset, committed_offset", groups="web")
    assert rows.columns == ["log_offset", "committed_offset"]
    assert sorted(rows.collect()) == sorted([(2, 0), (6, 4), (10, 8)] * 2)
    # Spark has no way to say which columns a query needs to a source in Python: the source gets them so
    assert "Output [2]: [log_offset" in plan_of(rows)
    assert "Output [31]" in plan_of(decoded(spark, log).select("log_offset"))
    by_schema = spark.read.format("muster").schema("offset long, partition int").option("path", log).load()
    assert sorted(by_schema.collect())[:3] == [(0, 0), (0, 1), (1, 0)]
    for text, message in (("group,moods", "there is no column 'moods'"), ("group,group", "named twice")):
        with pytest.raises(AnalysisException, match=message):
            decoded(spark, log, columns=text)
    with pytest.raises(AnalysisException, match="column offset string: expected bigint"):
        spark.read.format("muster").schema("offset string").option("path", log).load().count()


def read_bytes(log: str, row_filter: RowFilter, **how: Any) -> tuple[int, Counter[int]]:
    """How many bytes of segments are read, and how many rows each partition gives."""
    reading = Reading(row_filter=row_filter, **how)
    shares = share_out(log, 2, reading)
    rows: Counter[int] = Counter()
    for share in shares:
        for one in read_share(share, reading):
            rows.update(one.column("partition").to_pylist())
    return sum(segment.size for share in shares for segment in share.segments), rows


def test_segments_without_a_requested_row_are_not_read(log: str) -> None:
    whole, rows = read_bytes(log, RowFilter())
    assert rows == {0: 12, 1: 12}
    # one of two partitions
    assert read_bytes(log, RowFilter(frozenset((1,)))) == (whole // 2, {1: 12})
    assert read_bytes(log, RowFilter(frozenset((7,)))) == (0, {})
    # a limit on the time needs a look at every segment: only its greatest time is known
    assert read_bytes(log, RowFilter(until_ms=2_000)) == (whole, {0: 4, 1: 4})
    # the last of three segments, and the second of its two batches
    late, rows = read_bytes(log, RowFilter(since_ms=3_001))
    assert (late, rows) == (whole // 3, {0: 2, 1: 2})
    # a reader that wants a report of every damage has all columns read
    everything, rows = read_bytes(log, RowFilter(since_ms=3_001), fail_on_damage=True)
    assert (everything, rows) == (whole, {0: 2, 1: 2})


@pytest.mark.parametrize("index", [None, b"", b"\0" * 12, b"\x7f", b"\0\0\0\0\0\0\x07\xd0\0\0\0\3" + b"\0" * 12])
def test_a_segment_without_an_index_is_read(tmp_path: Path, index: bytes | None) -> None:
    path = write_segment(tmp_path, batch([commit()], 0, timestamp_ms=1_000))
    write_segment(tmp_path, batch([commit()], 1, timestamp_ms=2_000), base_offset=1)
    if index is not None:
        path.with_suffix(".timeindex").write_bytes(index)
    size, rows = read_bytes(str(tmp_path), RowFilter(since_ms=2_000))
    assert (size, rows) == (2 * path.stat().st_size, {0: 1})


def test_damage_is_reported_only_without_a_time_filter(tmp_path: Path) -> None:
    write_segment(tmp_path, batch([commit()], 0, timestamp_ms=5_000) + b"torn batch")
    late = RowFilter(since_ms=1)
    assert read_bytes(str(tmp_path), RowFilter())[1] == {0: 2}
    assert read_bytes(str(tmp_path), late)[1] == {0: 1}
    with pytest.raises(DamagedSegment, match="torn tail"):
        read_bytes(str(tmp_path), late, fail_on_damage=True)


def test_only_the_groups_partition_and_new_records_are_read_from_a_cluster(spark: SparkSession, live: Live) -> None:
    first, last = bounds(live.client, Reading())
    group, at = "group-3", group_partition("group-3", len(bounds(live.client, Reading())[0]))
    of_group = Reading(row_filter=RowFilter(groups=(group,)))
    assert wanted_bounds(live.client, of_group) == ({at: first[at]}, {at: last[at]})
    assert wanted_bounds(live.client, Reading(row_filter=RowFilter(groups=("group-[3]",)))) == (first, last)
    options = {"bootstrap.servers": live.bootstrap, "rows": "decoded"}
    everything = spark.read.format("muster").options(**options).load().select("group", "log_timestamp_ms").collect()
    mine = spark.read.format("muster").options(**options, groups=group).load().select("group", "log_timestamp_ms")
    assert sorted(mine.collect()) == sorted(row for row in everything if row.group == group)
    latest = max(row.log_timestamp_ms for row in everything)
    for since_ms in (latest, latest + 1):
        reading = Reading(row_filter=RowFilter(since_ms=since_ms))
        begin, end = wanted_bounds(live.client, reading)
        assert end == last
        assert all(begin[one] >= first[one] for one in first)
        assert any(begin[one] < end[one] for one in first) is (since_ms == latest)
