from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from muster.pipeline.arguments import DELTA, PARQUET
from muster.pipeline.sources.segment_files import NoSource
from muster.pipeline.sources.segments import Reading, read_segments
from muster.pipeline.stage import Source, stage, table_kind
from muster.pipeline.wanted import Wanted
from muster.simulation.sample.writing import Wanted as WantedSample
from muster.simulation.sample.writing import write


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The first twelve stories in one hour, as a table of raw rows."""
    directory = tmp_path_factory.mktemp("sample")
    write(directory / "log", WantedSample(groups=12, hours=1))
    (directory / "raw").mkdir()
    for topic in ("__consumer_offsets", "__group_events"):
        rows = pa.Table.from_batches(read_segments(str(directory / "log"), Reading(topic)))
        parquet.write_table(rows, directory / "raw" / f"{topic.strip('_')}.parquet")
    return str(directory / "raw")


def test_the_kind_of_a_path_is_recognized(tmp_path: Path) -> None:
    for name in ("log/__consumer_offsets-0", "raw", "delta/_delta_log"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "raw" / "part-0.parquet").touch()
    (tmp_path / "segment.log").touch()
    assert table_kind(str(tmp_path / "log")) is None
    assert table_kind(str(tmp_path / "raw")) == PARQUET
    assert table_kind(str(tmp_path / "raw" / "part-0.parquet")) == PARQUET
    assert table_kind(str(tmp_path / "delta")) == DELTA
    with pytest.raises(NoSource, match="does not exist: a data directory"):
        table_kind(str(tmp_path / "nothing"))
    with pytest.raises(NoSource, match="is a file: give the folder of its partition"):
        table_kind(str(tmp_path / "segment.log"))


def test_a_path_without_a_log_is_refused_before_anything_runs(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(NoSource, match="holds no segments of __consumer_offsets"):
        stage(spark, Source(path=str(tmp_path)), str(tmp_path / "stage"))


def test_a_table_of_raw_rows_is_staged(spark: SparkSession, raw: str, tmp_path: Path) -> None:
    staged = stage(spark, Source(path=raw), str(tmp_path / "stage"))
    assert staged.rows.keys() == {"commit", "classic"}
    logged = parquet.read_table(f"{raw}/consumer_offsets.parquet")
    assert sum(staged.rows.values()) == staged.inputs.decoded.count() == len(logged)
    assert staged.inputs.events is not None
    assert staged.inputs.events.count() == len(parquet.read_table(f"{raw}/group_events.parquet")) > 100
    assert staged.malformed_events is not None
    assert staged.malformed_events.count() == 0


def test_a_table_without_events_gives_no_events(spark: SparkSession, raw: str, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    shutil.copy(f"{raw}/consumer_offsets.parquet", tmp_path / "raw")
    staged = stage(spark, Source(path=str(tmp_path / "raw")), str(tmp_path / "stage"))
    assert staged.inputs.events is None


def test_a_source_without_wanted_rows_is_refused(spark: SparkSession, raw: str, tmp_path: Path) -> None:
    with pytest.raises(NoSource, match=r"raw: the log has nothing that was asked for: groups 'nosuch\*' or 'x'$"):
        stage(spark, Source(path=raw), str(tmp_path / "stage"), Wanted(groups=("nosuch*", "x")))
    with pytest.raises(NoSource, match=r"groups of any name, logged from 1970-01-01T00:00:01.* on, logged before 1970"):
        stage(spark, Source(path=raw), str(tmp_path / "stage"), Wanted(1_000, 2_000))


def test_only_wanted_rows_are_staged(spark: SparkSession, raw: str, tmp_path: Path) -> None:
    end_ms = WantedSample().end_ms
    wanted = Wanted(end_ms - 1_800_000, end_ms - 600_000, ("steady*", "zombie-1"))
    staged = stage(spark, Source(path=raw), str(tmp_path / "stage"), wanted)
    rows = staged.inputs.decoded.select("group", "kind", "log_timestamp_ms").collect()
    assert {row.group for row in rows} == {"steady-1", "zombie-1"}
    assert all(row.log_timestamp_ms < end_ms - 600_000 for row in rows)
    # the last record before shows who was in the group when it began
    old = [(row.group, row.kind) for row in rows if row.log_timestamp_ms < end_ms - 1_800_000]
    assert sorted(old) == [("steady-1", "classic"), ("zombie-1", "classic")]
    assert staged.inputs.events is not None
    assert {row.group for row in staged.inputs.events.select("group").collect()} <= {"steady-1", "zombie-1"}
