"""Tables in Parquet files, read without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from muster.pipeline import kept as module
from muster.pipeline.kept import HadoopFile, ParquetTable, kept, of_folder

SCHEMA = pa.schema([("group", pa.string()), ("n", pa.int64()), ("many", pa.list_(pa.int32()))])


def row(n: int) -> dict[str, object]:
    return {"group": f"g{n % 3}", "n": n, "many": list(range(n % 4))}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten rows in two files of small row groups, with one column more, and another order of columns than the table."""
    for part, numbers in enumerate((range(7), range(7, 10))):
        table = pa.Table.from_pylist([row(n) for n in numbers], SCHEMA).select(["n", "many", "group"])
        table = table.append_column("group_id", table["group"])
        parquet.write_table(table, tmp_path / f"part-{part}.parquet", row_group_size=3)
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".part-0.parquet.crc").touch()
    return tmp_path


def test_parquet_rows_are_read_in_order(folder: Path) -> None:
    rows = [one for batch in of_folder(folder, SCHEMA).batches("n", "group") for one in batch.to_pylist()]
    assert rows == [{"n": n, "group": f"g{n % 3}"} for n in range(10)]


@pytest.mark.parametrize("numbers", [[], [0], [2, 3], [0, 5, 6, 7, 9], list(range(10))])
@pytest.mark.parametrize("size", [1, 2, 1_000])
def test_some_parquet_rows_are_read_by_number(
    folder: Path, monkeypatch: pytest.MonkeyPatch, numbers: list[int], size: int
) -> None:
    monkeypatch.setattr(module, "NESTED_ROWS", size)
    found = [one for batch in of_folder(folder, SCHEMA).rows(numbers, *SCHEMA.names) for one in batch.to_pylist()]
    assert found == [row(n) for n in numbers]


def test_a_parquet_table_without_files_is_empty(tmp_path: Path) -> None:
    table = of_folder(tmp_path, SCHEMA)
    assert [list(table.batches("n")), list(table.rows([], "n"))] == [[], []]


def test_parquet_files_of_hadoop_are_read(folder: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are read as from a store that only Java can read; here it is this machine's disk."""
    here = kept(spark, {"t": [str(folder), str(folder)]}, {"t": SCHEMA})["t"]
    monkeypatch.setattr("muster.pipeline.output.is_local", lambda _spark, _path: False)
    there = kept(spark, {"t": [folder.as_uri(), folder.as_uri()]}, {"t": SCHEMA})["t"]
    assert isinstance(there.files[0](), HadoopFile)
    assert len(here.files) == len(there.files) == 4
    wanted = [0, 6, 11, 19]

    def rows(table: ParquetTable) -> list[object]:
        return [one for batch in table.rows(wanted, *SCHEMA.names) for one in batch.to_pylist()]

    assert rows(there) == rows(here) == [row(n % 10) for n in wanted]
