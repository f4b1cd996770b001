from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from muster.pipeline.follow.staging import STAGED, appender, merge, staged, staged_others
from muster.pipeline.follow.store import Store
from muster.pipeline.schema import DECODED
from muster.pipeline.tables.epoch_states import epoch_states
from muster.pipeline.wanted import ALL, Wanted
from tests.pipeline.infer.epoch_model import Server, decoded_row
from tests.pipeline.tables.history import START_MS


def batch_of(spark: SparkSession, offset: int) -> DataFrame:
    """Two commits of two groups."""
    filled = {"kind": "commit", "log_partition": 3, "log_timestamp_ms": 1_000 + offset, "is_tombstone": False}
    rows = [
        {**dict.fromkeys(STAGED.names), **filled, "log_offset": offset + one, "group": f"group-{one}", "bucket": one}
        for one in range(2)
    ]
    return spark.createDataFrame(rows, from_arrow_schema(STAGED))


def offsets(store: Store) -> list[int]:
    rows = staged(store, store.manifest)[0].decoded.select("log_offset").collect()
    return sorted(row["log_offset"] for row in rows)


def test_chunks_of_all_ages_are_read_together(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(spark, str(tmp_path))
    store.open({}, None, linked=True)
    append = appender(store, ALL)
    for number in range(3):
        append(batch_of(spark, 10 * number), number)
    append(batch_of(spark, 20), 2)  # Spark repeats the batch after a kill
    merge(store, store.manifest.chunks[:2], None)
    assert [(chunk.level, chunk.rows) for chunk in store.manifest.chunks] == [(1, 4), (0, 2)]
    assert offsets(store) == [0, 1, 10, 11, 20, 21]
    store.close()
    (tmp_path / ".follow" / "checkpoint").mkdir()
    (tmp_path / ".follow" / "checkpoint" / "metadata").touch()
    # the next start removes what nobody needs any more
    again = Store(spark, str(tmp_path))
    again.open({}, None, linked=True)
    assert again.manifest == store.manifest
    assert len(list((tmp_path / ".follow" / "data" / "log").iterdir())) == 2
    assert offsets(again) == [0, 1, 10, 11, 20, 21]
    again.close()


def test_commits_of_groups_that_are_not_wanted_are_kept_as_signs_of_life(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(spark, str(tmp_path))
    wanted = Wanted(since_ms=0, groups=("group-1",))
    store.open({}, None, linked=True)
    append = appender(store, wanted)
    # two of these come in the same second
    for number, offset in enumerate((10, 20, 5_000)):
        append(batch_of(spark, offset), number)
    assert offsets(store) == [11, 21, 5_001]
    others = staged_others(store, store.manifest)
    assert others is not None
    assert sorted((row["group"], row["log_timestamp_ms"]) for row in others.collect()) == [
        ("group-0", 1_010), ("group-0", 1_020), ("group-0", 6_000)
    ]  # fmt: skip
    # their groups have no table that is made again
    assert set(store.manifest.dirty) == {1}
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
    rows = [{**dict.fromkeys(STAGED.names), **decoded_row(one), "bucket": 5} for one in server.records]
    store = Store(spark, str(tmp_path))
    store.open({}, None, linked=True)
    append = appender(store, ALL)
    half = len(rows) // 2
    for number, some in enumerate((rows[:half], rows[half:])):
        append(spark.createDataFrame(some, from_arrow_schema(STAGED)), number)
    whole = spark.createDataFrame(rows, from_arrow_schema(STAGED)).select(*DECODED.names)
    found = staged(store, store.manifest, [5], lambda: server.names)[0].epochs
    assert found is not None
    assert found.collect() == epoch_states(whole, server.names).collect()
    # nothing is left of a0 when it is too old; the members that stayed are known
    merge(store, store.manifest.chunks, START_MS + 40_000)
    kept = [row["key_json"] for row in staged(store, store.manifest)[0].decoded.select("key_json").collect()]
    assert not any('"a0"' in key for key in kept)
    assert sum('"a1"' in key for key in kept) == 3
    store.close()
