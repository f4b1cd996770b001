"""Tables in the form for users."""

from __future__ import annotations

import json
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.errors.exceptions.captured import SparkRuntimeException
from pyspark.sql import SparkSession

from muster.pipeline.frames import in_this_process
from muster.pipeline.published import MOMENTS, empty, is_sure, names_of, published, published_here
from muster.pipeline.tables.build import build, unusable
from muster.pipeline.tables.comments import comment
from muster.pipeline.tables.schema import NEVER_NULL, TABLES
from muster.pipeline.views import OVERVIEW, register
from tests.pipeline.engines import Engine
from tests.pipeline.scoring import read
from tests.pipeline.tables.rows import table_of

KEPT = Path(__file__).with_name("tables") / "data"


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_column_has_a_comment_and_no_name_twice(table: str) -> None:
    names = names_of(table, TABLES[table].names)
    assert [name for name, words in names if not words] == []
    assert len({name for name, _ in names}) == len(names)


def test_columns_of_actual_figures_have_comments() -> None:
    assert comment("whatif", "actual_rebalances") == "what really happened: generations that got an assignment"
    assert comment("whatif", "moods") is None


def test_published_tables_have_timestamps_and_group_id(spark: SparkSession, tmp_path: Path) -> None:
    row = {"group": "g", "generation": 1, "member_count": 1, "source": "log", "start_ms": 1_750_000_000_123}
    table = published(table_of(Engine(spark), "generations", [row]), "generations")
    assert table.columns[: len(TABLES["generations"].names)] == TABLES["generations"].names
    table.coalesce(1).write.parquet(str(tmp_path / "tables" / "generations"))
    (file,) = (tmp_path / "tables" / "generations").glob("*.parquet")
    (found,) = parquet.read_table(file).select(["group_id", "start_time", "end_time"]).to_pylist()
    assert (found["group_id"], found["end_time"]) == ("g", None)
    assert found["start_time"].astimezone(UTC) == datetime(2025, 6, 15, 15, 6, 40, 123_000, UTC)
    assert table.schema["start_time"].metadata == {"comment": "when its record was logged (UTC)"}
    assert MOMENTS.keys() >= {"from_ms", "until_ms"}


def comments_of(schema: pa.Schema) -> list[tuple[str, str]]:
    """The columns, and Spark's facts about each."""
    reported = json.loads(schema.metadata[b"org.apache.spark.sql.parquet.row.metadata"])
    return [(one["name"], one["metadata"]["comment"]) for one in reported["fields"]]


def test_columns_declared_never_null_are_never_null(spark: SparkSession, tmp_path: Path) -> None:
    """Logs of a real Kafka with groups of every kind; the partitions of each log have other numbers."""
    for archive in KEPT.glob("kafka-4.3-*.tar.xz"):
        if archive.name != "kafka-4.3-epochs.tar.xz":
            with tarfile.open(archive) as files:
                files.extractall(tmp_path / "log", filter="data")
    with in_this_process():
        inputs = read(Engine(), tmp_path / "log")
        tables = build(inputs) | unusable(inputs.decoded, None)
        made = {name: rows.toArrow().cast(TABLES[name]) for name, rows in tables.items()}
    filled = set()
    for name, table in made.items():
        # all at once: a column that is never null fails where it is null
        published(spark.createDataFrame(table), name).coalesce(1).write.parquet(str(tmp_path / name))
        (file,) = (tmp_path / name).glob("*.parquet")
        written = parquet.read_table(file)
        for field in written.schema:
            # Spark finds by itself that some other columns are never null
            assert not (field.nullable and is_sure(name, field.name)), (name, field.name)
            assert field.nullable or not written.column(field.name).null_count
        filled |= {name} if written.num_rows else set()
        # a follower's table without rows equals one with rows
        assert comments_of(empty(name).schema) == comments_of(written.schema)
        assert [one for one in empty(name).schema if not one.nullable] == [
            one.with_nullable(False) for one in written.schema if is_sure(name, one.name)
        ]
    assert filled >= {"commits", "generations", "rebalances", "moves", "regressions", "episodes", "verdicts", "lag"}


def test_a_null_in_a_never_null_column_is_an_error(spark: SparkSession) -> None:
    rows = table_of(Engine(spark), "verdicts", [{"group": "g", "verdict": "fine"}])
    with pytest.raises(SparkRuntimeException, match="the table verdicts has a row without level"):
        published(rows, "verdicts").collect()
    with pytest.raises(ValueError, match="the table verdicts has a row without level"):
        published_here(rows.toArrow().cast(TABLES["verdicts"]), "verdicts")
    assert {name: set(NEVER_NULL[name]) - set(TABLES[name].names) for name in NEVER_NULL} == {
        name: set() for name in TABLES
    }


def test_the_overview_view_has_one_row_for_each_group(spark: SparkSession, tmp_path: Path) -> None:
    rows = {
        "verdicts": [{"level": "look", "verdict": "a died", "cost_ms": 2_500, "episodes": 2, "rebalances": 3}],
        "flapping": [{"rebalances": 3, "score": 12.0}],
        "lag": [
            {"topic": "t", "partition": one, "committed_offset": 1, "lag": 5, "behind_ms": 1_000} for one in (0, 1)
        ],
        "episodes": [
            {"kind": kind, "from_ms": at_ms, "until_ms": at_ms, "rebalances": 1, "sentence": kind}
            for at_ms, kind in enumerate(("restart", "other"))
        ],
    }
    for name, some in rows.items():
        published(table_of(Engine(spark), name, ({"group": "g", **row} for row in some)), name).write.parquet(
            str(tmp_path / "tables" / name)
        )
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
