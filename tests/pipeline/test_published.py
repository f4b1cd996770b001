"""Tables as others are given them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from muster.pipeline.facts.comments import comment
from muster.pipeline.facts.schema import TABLES
from muster.pipeline.published import MOMENTS, names_of, published
from muster.pipeline.views import OVERVIEW, register
from tests.pipeline.facts.rows import table_of


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_column_has_a_comment_and_no_name_twice(table: str) -> None:
    names = names_of(table, TABLES[table].names)
    assert [name for name, words in names if not words] == []
    assert len({name for name, _ in names}) == len(names)


def test_what_really_happened_is_told_by_what_would_have() -> None:
    assert comment("whatif", "actual_rebalances") == "what really happened: generations that got an assignment"
    assert comment("whatif", "moods") is None


def test_times_stand_as_timestamps_beside_and_the_group_under_a_name_for_sql(
    spark: SparkSession, tmp_path: Path
) -> None:
    row = {"group": "g", "kind": "restart", "from_ms": 1_750_000_000_123, "until_ms": None, "members": ["a"]}
    table = published(table_of(spark, "episodes", [row]), "episodes")
    assert table.columns[: len(TABLES["episodes"].names)] == TABLES["episodes"].names
    table.coalesce(1).write.parquet(str(tmp_path / "tables" / "episodes"))
    (file,) = (tmp_path / "tables" / "episodes").glob("*.parquet")
    (found,) = parquet.read_table(file).select(["group_id", "from", "until"]).to_pylist()
    assert (found["group_id"], found["until"]) == ("g", None)
    assert found["from"].astimezone(UTC) == datetime(2025, 6, 15, 15, 6, 40, 123_000, UTC)
    assert table.schema["from"].metadata == {"comment": "when the first thing of it happened (UTC)"}
    assert MOMENTS.keys() >= {"from_ms", "until_ms"}


def test_a_view_for_dashboards(spark: SparkSession, tmp_path: Path) -> None:
    rows = {
        "verdicts": [{"group": "g", "level": "look", "verdict": "a died", "cost_ms": 2_500}],
        "flapping": [{"group": "g", "score": 12.0}],
        "lag": [{"group": "g", "topic": "t", "partition": one, "lag": 5, "behind_ms": 1_000} for one in (0, 1)],
        "episodes": [{"group": "g", "kind": kind, "from_ms": at_ms} for at_ms, kind in enumerate(("restart", "other"))],
    }
    for name, some in rows.items():
        published(table_of(spark, name, some), name).write.parquet(str(tmp_path / "tables" / name))
    names = register(spark, str(tmp_path), prefix="of_test_")
    assert sorted(names) == sorted(f"of_test_{name}" for name in (*rows, OVERVIEW))
    (row,) = spark.table(f"of_test_{OVERVIEW}").collect()
    assert (row.group_id, row.unread_partition_s, row.flapping_score, row.lag, row.behind_s) == (
        "g",
        2.5,
        12.0,
        10,
        1.0,
    )
    assert (row.last_episode, row.level) == ("other", "look")
