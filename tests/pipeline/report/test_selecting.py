"""One pass over a table gives orders, sums, and the newest rows of each group, however the rows are divided."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from muster.pipeline.kept import ParquetTable, of_folder
from muster.pipeline.report import selecting as module
from muster.pipeline.report.selecting import Room, down, grouped, newest, some_of, up

SCHEMA = pa.schema([("group", pa.string()), ("n", pa.int64()), ("size", pa.int64())])


def rows(count: int = 300) -> list[dict[str, Any]]:
    random = Random(5)
    return [
        {
            "group": f"g{random.randrange(7)}",
            "n": random.choice([None, *range(40)]),
            "size": random.choice([None, 1, 2, 3]),
        }
        for _ in range(count)
    ]


def cut(some: list[dict[str, Any]], size: int = 11) -> Iterator[pa.RecordBatch]:
    for at in range(0, len(some), size):
        yield pa.RecordBatch.from_pylist(some[at : at + size], SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> ParquetTable:
    parquet.write_table(pa.Table.from_pylist(rows(), SCHEMA), tmp_path / "a.parquet", row_group_size=50)
    return of_folder(tmp_path, SCHEMA)


def test_the_first_rows_are_in_order() -> None:
    """Nulls are the smallest values, as for Spark: first when the smallest come first, otherwise last."""
    small = [{"group": "a", "n": n, "size": None} for n in (3, None, 1, 2)]
    assert [row["n"] for row in some_of(cut(small, 1), up("n"), limit=2).rows] == [None, 1]
    assert [row["n"] for row in some_of(cut(small, 3), up("n", nulls_first=False)).rows] == [1, 2, 3, None]
    found = some_of(cut(small, 2), down("n"), limit=3)
    assert ([row["n"] for row in found.rows], found.total, found.left) == ([3, 2, 1], 4, 1)
    assert some_of(cut([]), up("n")).total == 0


def test_the_first_of_many_rows_are_selected() -> None:
    some = rows()
    found = some_of(cut(some), down("n"), up("size", nulls_first=False), up("group"), limit=40)
    reported = sorted(
        some, key=lambda row: (row["n"] is None, -(row["n"] or 0), row["size"] is None, row["size"], row["group"])
    )
    assert (list(found.rows), found.total) == (reported[:40], 300)


@pytest.mark.parametrize("many", [1, 20, 100_000])
def test_sums_do_not_depend_on_how_rows_are_split(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    monkeypatch.setattr(module, "_MANY", many)
    made = grouped(
        cut(rows()), ["group"], total=("n", "sum"), known=("n", "count"), least=("n", "min"), most=("size", "max")
    )
    found = {row["group"]: tuple(row.values())[1:] for row in made.to_pylist()}
    wanted = {}
    for group in sorted({row["group"] for row in rows()}):
        values = [row["n"] for row in rows() if row["group"] == group and row["n"] is not None]
        wanted[group] = (sum(values), len(values), min(values), 3)
    assert found == wanted


def test_sums_of_no_rows_are_empty() -> None:
    assert grouped([], ["group"], total=("n", "sum")).to_pylist() == []
    unknown = [{"group": "a", "n": None, "size": None}] * 2
    made = grouped(cut(unknown, 1), ["group"], total=("n", "sum"), known=("n", "count"))
    assert made.to_pylist() == [{"group": "a", "total": None, "known": 0}]


@pytest.mark.parametrize("many", [1, 20, 100_000])
def test_the_newest_rows_of_each_group_are_selected(
    monkeypatch: pytest.MonkeyPatch, table: ParquetTable, many: int
) -> None:
    monkeypatch.setattr(module, "_MANY", many)
    found = newest(table, ("n", "size"), Room(("g3", "g1", "nobody"), (5, 2, 9)), down("n"))
    for group, room in (("g3", 5), ("g1", 2)):
        own = [row for row in rows() if row["group"] == group]
        reported = sorted((row["n"] for row in own), key=lambda n: -1 if n is None else n, reverse=True)
        assert [row["n"] for row in found.rows[group]] == reported[:room]
        assert found.totals[group] == len(own)
    assert found.rows.keys() == found.totals.keys() == {"g3", "g1"}


def test_selected_rows_fit_a_total_weight(table: ParquetTable) -> None:
    """A row is kept as long as all rows up to it fit."""
    found = newest(
        table, ("n",), Room(("g2",), (6,)), down("n"), weight=lambda batch: batch["size"].fill_null(0),
        weighed=("size",), made=lambda batches: batches,
    )  # fmt: skip
    own = [row for row in rows() if row["group"] == "g2"]
    assert found.totals["g2"] == sum(row["size"] or 0 for row in own)
    assert 2 <= len(found.rows["g2"]) < len(own)
    least = min(row["n"] for row in found.rows["g2"])
    assert sum(row["size"] or 0 for row in own if (row["n"] or -1) > least) <= 6
