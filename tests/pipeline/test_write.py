from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from muster.pipeline import write
from muster.pipeline.decode import decode_all
from muster.pipeline.schema import CLASSIC_GROUP, DECODED, MALFORMED, OFFSET_COMMIT, OTHER_COMMIT
from muster.pipeline.sources.segments import read_segments
from muster.pipeline.sources.spark_source import open_reader
from muster.pipeline.wanted import ALL, Wanted
from muster.pipeline.write import WRITTEN, Work, work_of_reader, write_decoded, write_kinds
from muster.simulation.sample.writing import Wanted as WantedSample
from muster.simulation.sample.writing import write as write_sample


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The first twelve stories in one hour."""
    directory = tmp_path_factory.mktemp("sample")
    write_sample(directory, WantedSample(groups=12, hours=1))
    return str(directory)


def rows_of(spark: SparkSession, folder: Path) -> list[object]:
    found = spark.read.schema(from_arrow_schema(DECODED)).parquet(str(folder)).select(*DECODED.names)
    return sorted(map(str, found.collect()))


def test_workers_and_spark_write_the_same(
    spark: SparkSession, log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = work_of_reader(spark, open_reader({"path": log, "rows": "decoded", "numPartitions": "2"}))
    wanted = Wanted(groups=("steady*", "zombie*"))
    counts = write_decoded(work, (tmp_path / "workers").as_uri(), wanted)
    assert counts.keys() == {OFFSET_COMMIT, CLASSIC_GROUP}
    monkeypatch.setattr(write, "is_local", lambda *_: False)
    assert write_decoded(work, str(tmp_path / "spark"), wanted) == counts
    assert rows_of(spark, tmp_path / "workers") == rows_of(spark, tmp_path / "spark")


def test_existing_rows_are_replaced(spark: SparkSession, log: str, tmp_path: Path) -> None:
    work = work_of_reader(spark, open_reader({"path": log, "rows": "decoded", "numPartitions": "1"}))
    counts = write_decoded(work, str(tmp_path / "to"), ALL)
    assert write_decoded(work, str(tmp_path / "to"), ALL) == counts
    assert len(rows_of(spark, tmp_path / "to")) == sum(counts.values())
    assert write_decoded(work, str(tmp_path / "to"), Wanted(groups=("nobody",))) == {}
    written = spark.read.schema(from_arrow_schema(DECODED)).parquet(str(tmp_path / "to"))
    assert {row["kind"] for row in written.collect()} == {OTHER_COMMIT}  # only signs of life of other groups


def test_files_of_failed_tasks_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    """A second attempt of a task leaves such a file, which no committed task names."""
    one = pa.RecordBatch.from_pylist([{"kind": MALFORMED, "reason": "cut"}], schema=DECODED)

    def decode(_: object) -> Iterator[pa.RecordBatch]:
        folder = tmp_path / "to" / f"kind={MALFORMED}"
        folder.mkdir()
        parquet.write_table(pa.Table.from_batches([one.select(["reason"])]), folder / "half.parquet")
        yield one

    work = Work(spark.range(0, 1, 1, 1).toDF("number"), decode)
    assert write_decoded(work, str(tmp_path / "to"), ALL) == {MALFORMED: 1}
    assert len(rows_of(spark, tmp_path / "to")) == 1


def test_row_groups_are_gathered(log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "GROUP_ROWS", 1_000)
    decoded = [batch.slice(at, 300) for batch in decode_all(read_segments(log)) for at in range(0, len(batch), 300)]
    reported = pa.Table.from_batches(write_kinds(decoded, tmp_path), WRITTEN).to_pylist()
    assert {row["kind"] for row in reported} == {OFFSET_COMMIT, CLASSIC_GROUP}
    for row in reported:
        file = parquet.ParquetFile(tmp_path / row["name"])
        groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
        assert sum(groups) == row["rows"]
        assert all(1_000 <= rows < 1_300 for rows in groups[:-1])
        wanted = pa.Table.from_batches(decoded).filter(pa.compute.field("kind") == row["kind"])
        assert file.read().equals(wanted.select(file.schema_arrow.names))
