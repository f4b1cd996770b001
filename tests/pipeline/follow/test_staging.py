from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from muster.pipeline.follow import staging
from muster.pipeline.follow.buckets import bucket_of
from muster.pipeline.follow.manifest import reached
from muster.pipeline.follow.staging import STAGED, append, merge, staged, staged_others
from muster.pipeline.follow.store import Store
from muster.pipeline.follow.tail import EVENT, Batch
from muster.pipeline.schema import DECODED, OFFSETS_TOPIC
from muster.pipeline.tables.epoch_states import epoch_states
from muster.pipeline.wanted import ALL, Wanted
from tests.pipeline.infer.epoch_model import Server, decoded_row
from tests.pipeline.tables.history import START_MS


def batch_of(rows: list[dict[str, Any]], end: int = 0) -> Batch:
    position = {OFFSETS_TOPIC: {3: end}}
    return Batch(position, iter([pa.RecordBatch.from_pylist(rows, DECODED)]), is_last=True)


def commits(offset: int) -> Batch:
    """Two commits of two groups."""
    filled = {"kind": "commit", "log_partition": 3, "log_timestamp_ms": 1_000 + offset, "is_tombstone": False}
    return batch_of([{**filled, "log_offset": offset + one, "group": f"group-{one}"} for one in range(2)], offset + 2)


def offsets(store: Store) -> list[int]:
    rows = staged(store, store.manifest)[0].decoded.select("log_offset").collect()
    return sorted(row["log_offset"] for row in rows)


@pytest.mark.parametrize("few_rows", [0, 100], ids=["Spark merges", "this process merges"])
def test_chunks_of_all_ages_are_read_together(
    spark: SparkSession, tmp_path: Path, few_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "FEW_ROWS", few_rows)
    store = Store(spark, str(tmp_path))
    store.open({}, None, linked=True)
    for number in range(3):
        append(store, commits(10 * number), ALL)
    merge(store, store.manifest.chunks[:2], None)
    assert [(chunk.level, chunk.rows) for chunk in store.manifest.chunks] == [(1, 4), (0, 2)]
    assert offsets(store) == [0, 1, 10, 11, 20, 21]
    assert reached(store.manifest) == {3: 22}
    store.close()
    # the next start removes what nobody needs any more
    again = Store(spark, str(tmp_path))
    again.open({}, None, linked=True)
    assert again.manifest == store.manifest
    assert len(list((tmp_path / ".follow" / "data" / "log").iterdir())) == 2
    assert offsets(again) == [0, 1, 10, 11, 20, 21]
    again.close()


def test_spark_writes_the_same_rows_into_other_file_systems(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "_PIECE_ROWS", 1)
    rows: list[dict[str, Any]] = [
        {"kind": EVENT, "group": "a", "log_offset": 1, "raw_key": b"a"},
        {"kind": "transaction_state", "log_offset": 2, "raw_key": b"x"},
        {"kind": "commit", "group": None, "log_offset": 3, "is_tombstone": True},
        {"kind": "commit", "group": "b", "log_offset": 4, "topic": "t", "partition": 7},
    ]
    found, manifests = [], []
    for name in ("here", "there"):
        store = Store(spark, str(tmp_path / name))
        store.open({}, None, linked=True)
        local, store.local = store.local, store.local if name == "here" else None
        append(store, batch_of(rows), ALL)
        store.local = local
        read = store.read("log", [chunk.name for chunk in store.manifest.chunks], STAGED)
        found.append([row.asDict(recursive=True) for row in read.orderBy("log_offset").collect()])
        manifests.append(store.manifest._replace(chunks=()))
        store.close()
    assert found[0] == found[1]
    assert [row["bucket"] for row in found[0]] == [bucket_of("a"), bucket_of("78"), bucket_of(None), bucket_of("b")]
    assert manifests[0] == manifests[1]
    assert set(manifests[0].dirty) == {bucket_of("a"), bucket_of(None), bucket_of("b")}


def test_commits_of_groups_that_are_not_wanted_are_kept_as_signs_of_life(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(spark, str(tmp_path))
    wanted = Wanted(since_ms=0, groups=("group-1",))
    store.open({}, None, linked=True)
    # two of these come in the same second
    for offset in (10, 20, 5_000):
        append(store, commits(offset), wanted)
    assert offsets(store) == [11, 21, 5_001]
    others = staged_others(store, store.manifest)
    assert others is not None
    assert sorted((row["group"], row["log_timestamp_ms"]) for row in others.collect()) == [
        ("group-0", 1_010), ("group-0", 1_020), ("group-0", 6_000)
    ]  # fmt: skip
    # their groups have no table that is made again
    assert set(store.manifest.dirty) == {bucket_of("group-1")}
    merge(store, store.manifest.chunks, 2_000)
    others = staged_others(store, store.manifest)
    assert others is not None
    assert [row["log_timestamp_ms"] for row in others.collect()] == [6_000]
    store.close()


def test_epochs_are_made_of_all_batches_and_old_members_are_forgotten(spark: SparkSession, tmp_path: Path) -> None:
    server = Server({"t": 2})
    for number in range(3):
        server.join(number * 10_000, f"a{number}")
        server.settle(number * 10_000 + 100)
    server.leave(30_000, "a0")
    server.settle(30_100)
    rows = [{**dict.fromkeys(DECODED.names), **decoded_row(one)} for one in server.records]
    store = Store(spark, str(tmp_path))
    store.open({}, None, linked=True)
    half = len(rows) // 2
    for some in (rows[:half], rows[half:]):
        append(store, batch_of(some), ALL)
    whole = spark.createDataFrame(rows, from_arrow_schema(DECODED))
    found = staged(store, store.manifest, [bucket_of("g")], lambda: server.names)[0].epochs
    assert found is not None
    assert found.collect() == epoch_states(whole, server.names).collect()
    # nothing is left of a0 when it is too old; the members that stayed are known
    merge(store, store.manifest.chunks, START_MS + 40_000)
    kept = [row["key_json"] for row in staged(store, store.manifest)[0].decoded.select("key_json").collect()]
    assert not any('"a0"' in key for key in kept)
    assert sum('"a1"' in key for key in kept) == 3
    store.close()
