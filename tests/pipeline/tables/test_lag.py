from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame

from muster.pipeline.tables.commits import walked
from muster.pipeline.tables.lag import lag
from muster.pipeline.tables.schema import TABLES
from tests.pipeline.engines import Engine, collected
from tests.pipeline.tables.rows import Commits, ends_of, ms, table_of

HISTORIES = (
    Commits("caught-up", "b").by("x", (0, 50), (9, 100)),
    Commits("behind", "a").by("x", (0, 50), (9, 60)),
    Commits("behind", "a").by("y", (0, 95), partition=1),
    Commits("beyond", "b").by("x", (0, 500)),
    Commits("back", "b").by("x", (0, 90), (5, 30)),
    Commits("huge", "b").by("x", (0, 2**63 - 1)).by("x", (0, -(2**63)), partition=1),
    Commits("deleted", "a").by("x", (0, 50)).deleted(5),
    Commits("of-no-topic", "gone").by("x", (0, 50)),
)
ENDS = (
    ("a", 0, 40, 100),
    ("a", 0, 70, 200),
    ("a", 0, 100, 300),
    ("a", 1, 100, 300),
    ("b", 0, 100, 300),
    ("b", 1, 100, 300),
)


def made(engine: Engine) -> DataFrame:
    commits = table_of(engine, "commits", (row for one in HISTORIES for row in one.rows))
    return lag(walked(commits, ends_of(engine, *ENDS)))


@pytest.fixture(scope="module")
def found(engine: Engine) -> dict[tuple[str, int], dict[str, Any]]:
    """The rows by group and partition."""
    table = made(engine)
    assert table.columns == TABLES["lag"].names
    return {(row.group, row.partition): row.asDict() for row in collected(table)}


@pytest.mark.parametrize(
    ("group", "partition", "lag", "behind_ms"),
    [
        ("caught-up", 0, 0, 0),
        # the log went beyond 60 between 100 s and 200 s
        ("behind", 0, 40, 100_000),
        # nothing says when it went beyond 95
        ("behind", 1, 5, None),
        ("beyond", 0, 0, 0),
        # nor beyond 30
        ("back", 0, 70, None),
        ("huge", 0, 0, 0),
        ("huge", 1, 2**63 - 1, None),
        ("of-no-topic", 0, None, None),
    ],
)
def test_the_lag_of_each_partition_is_computed(
    found: dict[tuple[str, int], dict[str, Any]], group: str, partition: int, lag: int | None, behind_ms: int | None
) -> None:
    row = found[group, partition]
    assert (row["lag"], row["behind_ms"]) == (lag, behind_ms)


def test_a_row_of_lag_has_the_last_commit_and_the_present_end(found: dict[tuple[str, int], dict[str, Any]]) -> None:
    assert found["behind", 0] == {
        "group": "behind",
        "topic": "a",
        "partition": 0,
        "committed_offset": 60,
        "committed_ms": ms(9),
        "end_offset": 100,
        "end_ms": ms(300),
        "lag": 40,
        "behind_ms": 100_000,
        "client_id": "x",
    }


def test_a_deleted_offset_has_no_lag(found: dict[tuple[str, int], dict[str, Any]]) -> None:
    assert ("deleted", 0) not in found
