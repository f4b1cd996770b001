"""How groups read over time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from pyspark.sql import DataFrame

from muster.pipeline.tables.commits import walked
from muster.pipeline.tables.lag import progress
from muster.pipeline.tables.schema import TABLES
from tests.pipeline.engines import Engine, collected
from tests.pipeline.tables.rows import Commits, ends_of, table_of

HISTORIES = (
    Commits("steady", "a").by("x", *((at, at * 10) for at in range(101))),
    Commits("stopped", "a").by("x", (0, 0), (12, 120)),
    Commits("back", "b").by("x", (0, 500), (7, 100), (14, 200)),
    Commits("deleted", "b").by("x", (0, 500)).deleted(21),
    Commits("of-no-topic", "gone").by("x", (0, 50)).by("x", (0, 10), (40, 30), partition=1),
    Commits("huge", "huge").by("x", (0, 2**63 - 1)).by("x", (0, -(2**63)), (9, 2**63 - 1), partition=1),
)
ENDS = (
    # seen often, then no more
    *(("a", 0, 20 * at, at) for at in range(0, 101, 4)),
    ("b", 0, 600, 2), ("b", 0, 600, 50), ("b", 0, 900, 95),
    ("huge", 0, 2**63 - 1, 0), ("huge", 1, 2**63 - 1, 0),
)  # fmt: skip


def made(engine: Engine, *ends: tuple[str, int, int, int]) -> DataFrame:
    commits = table_of(engine, "commits", (row for one in HISTORIES for row in one.rows))
    return progress(walked(commits, ends_of(engine, *ends) if ends else None))


def rows(engine: Engine, *ends: tuple[str, int, int, int]) -> dict[str, list[dict[str, Any]]]:
    """The rows by group; times in seconds since the first of all."""
    table = made(engine, *ends)
    assert table.columns == TABLES["progress"].names
    found: dict[str, list[dict[str, Any]]] = {}
    for row in collected(table.orderBy("group", "start_ms")):
        found.setdefault(row.group, []).append(row.asDict())
    return found


@pytest.fixture(scope="module")
def found(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    return rows(engine, *ENDS)


def test_all_groups_have_the_same_steps(found: dict[str, list[dict[str, Any]]]) -> None:
    for some in found.values():
        assert {row["until_ms"] - row["start_ms"] for row in some[:-1]} == {5_000}
        assert all(one["until_ms"] == after["start_ms"] for one, after in pairwise(some))
        assert some[-1]["until_ms"] == found["steady"][-1]["until_ms"]


def test_read_and_committed_records_are_counted(found: dict[str, list[dict[str, Any]]]) -> None:
    steady = found["steady"]
    assert sum(row["commits"] for row in steady) == 101
    assert sum(row["records"] for row in steady) == 1_000
    assert {row["records"] for row in steady[1:-1]} == {50}
    assert [row["commits"] for row in found["stopped"]][:4] == [1, 0, 1, 0]
    assert sum(row["records"] for row in found["stopped"]) == 120
    assert sum(row["records"] for row in found["back"]) == 100, "what went back was not read"


def test_the_lag_at_each_step_is_computed(found: dict[str, list[dict[str, Any]]]) -> None:
    steady, stopped = found["steady"], found["stopped"]
    # 20 records a second are written, 10 are read
    assert all(abs(row["lag"] - 10 * (row["until_ms"] - steady[0]["start_ms"]) / 1_000) <= 60 for row in steady)
    assert stopped[-1]["lag"] == 2_000 - 120
    assert {row["written"] for row in steady[1:-1]} == {100}


def test_unknown_lags_are_null(found: dict[str, list[dict[str, Any]]]) -> None:
    lags = [row["lag"] for row in found["back"]]
    # while the end stays the same; between two distant requests; after the last one
    assert lags[0] == 100
    assert lags[2:9] == [400] * 7
    assert lags[11:18] == [None] * 7
    assert lags[-1] == 700
    assert found["deleted"][-1]["lag"] is None
    assert {row["lag"] for row in found["of-no-topic"]} == {None}
    assert found["huge"][-1]["lag"] == 0


def test_progress_without_known_ends_has_no_lag(engine: Engine) -> None:
    reported = rows(engine)
    assert {row["lag"] for some in reported.values() for row in some} == {None}
    assert sum(row["records"] for row in reported["steady"]) == 1_000
