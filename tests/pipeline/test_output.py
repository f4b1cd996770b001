from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from muster.pipeline.output import remove, write_pages, write_table, write_text
from muster.pipeline.texts import write_text_table

ROWS = [
    {"group": 'a "quoted", name', "owned": [{"topic": "t", "partitions": [1, 2]}], "key": b"\xff", "count": 1},
    {"group": None, "owned": None, "key": None, "count": None},
]
SCHEMA = "group string, owned array<struct<topic string, partitions array<int>>>, key binary, count bigint"


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    rows = spark.createDataFrame([tuple(row.values()) for row in ROWS], SCHEMA)
    write_table(rows, str(folder / "full"), ("csv", "json", "parquet", "html"))
    write_table(rows.limit(0), str(folder / "empty"), ("csv", "json"))
    return folder


def test_a_table_as_csv_has_its_nested_columns_as_json(tables: Path) -> None:
    with (tables / "full.csv").open(encoding="utf-8", newline="") as stream:
        first, second = csv.DictReader(stream)
    assert first["group"] == 'a "quoted", name'
    assert json.loads(first["owned"]) == ROWS[0]["owned"]
    assert (first["key"], first["count"]) == ("/w==", "1")
    assert set(second.values()) == {""}


def test_a_table_as_json_says_null_where_nothing_is_known(tables: Path) -> None:
    first, second = map(json.loads, (tables / "full.json").read_text(encoding="utf-8").splitlines())
    assert first == {**ROWS[0], "key": "/w=="}
    assert second == ROWS[1]


def test_only_the_written_files_are_left(tables: Path) -> None:
    assert sorted(one.name for one in tables.iterdir()) == ["empty.csv", "empty.json", "full", "full.csv", "full.json"]
    assert (tables / "empty.csv").read_text(encoding="utf-8") in ("", "group,owned,key,count\n")
    assert (tables / "empty.json").read_text(encoding="utf-8") == ""


@pytest.mark.parametrize("form", ["csv", "json"])
def test_this_process_writes_the_same_text(spark: SparkSession, tmp_path: Path, form: str) -> None:
    rows = [*ROWS, {"group": "", "owned": [{"topic": None, "partitions": []}], "key": b"", "count": -1}]
    made = spark.createDataFrame([tuple(row.values()) for row in rows], SCHEMA)
    moments = made.withColumn("at", F.timestamp_millis(F.lit(1_750_000_000_123)))
    write_table(moments, str(tmp_path / "theirs"), (form,))
    write_text_table(moments.toArrow(), tmp_path / f"ours.{form}", form)
    ours, theirs = ((tmp_path / f"{name}.{form}").read_text(encoding="utf-8") for name in ("ours", "theirs"))
    assert ours == theirs


def test_superfluous_pages_are_removed(spark: SparkSession, tmp_path: Path) -> None:
    out, order = str(tmp_path), []

    def write(path: str, text: str) -> None:
        order.append(Path(path).name)
        write_text(spark, path, text)

    for name in ("report-2.html", "report-11.html", "report-of-mine.html", "report-3.html.bak", "other-2.html"):
        (tmp_path / name).write_text("old")
    where = write_pages(spark, out, {"report.html": "one", "report-2.html": "two"}, write)
    assert where == f"{out}/report.html"
    assert order == ["report-2.html", "report.html"], "the first page has links to the others"
    left = {one.name: one.read_text() for one in tmp_path.iterdir()}
    assert left == {"report.html": "one", "report-2.html": "two"} | dict.fromkeys(
        ("report-of-mine.html", "report-3.html.bak", "other-2.html"), "old"
    )


def test_a_text_is_written_and_a_folder_removed(spark: SparkSession, tmp_path: Path) -> None:
    where = write_text(spark, str(tmp_path / "out" / "page.html"), "grüß")
    assert Path(where).read_text(encoding="utf-8") == "grüß"
    write_text(spark, f"file://{tmp_path}/out/page.html", "again")
    assert Path(where).read_text(encoding="utf-8") == "again"
    remove(spark, str(tmp_path / "out"))
    remove(spark, str(tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []
