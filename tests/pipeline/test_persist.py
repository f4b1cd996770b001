from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from muster.pipeline.frames import spark as module
from muster.pipeline.frames.spark import planned_once
from muster.pipeline.tables import keep


def counted(spark: SparkSession, runs: Path) -> DataFrame:
    """Rows 0 to 3; a file in `runs` shows each time that they are made."""
    runs.mkdir()

    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        (runs / str(len(list(runs.iterdir())))).touch()
        yield from batches

    return spark.range(0, 4, 1, 1).mapInArrow(made, "id long").where("id >= 0")


def ids(rows: DataFrame) -> list[int]:
    return sorted(row["id"] for row in rows.collect())


def plan(rows: DataFrame) -> list[str]:
    text: str = rows._jdf.queryExecution().analyzed().toString()
    return text.splitlines()


def test_kept_rows_are_computed_once(spark: SparkSession, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    rows = counted(spark, runs)
    kept = keep(rows)
    assert not list(runs.iterdir())  # not before they are needed
    assert len(plan(rows)) > 1
    assert kept._jdf.queryExecution().analyzed().children().isEmpty()
    most = kept.agg(F.max("id").alias("most"))
    joined = kept.alias("one").join(kept.alias("other"), F.col("one.id") + 1 == F.col("other.id"))
    assert ids(kept.crossJoin(most).where("id < most")) == [0, 1, 2]
    assert sorted(row[0] for row in joined.select("other.id").collect()) == [1, 2, 3]
    assert len(list(runs.iterdir())) == 1
    # and made again for the next reader when they are no longer kept
    spark.catalog.clearCache()
    assert ids(kept) == [0, 1, 2, 3]
    assert len(list(runs.iterdir())) == 2


@pytest.mark.parametrize("error", [Py4JError("no such class"), AttributeError("_jdf"), TypeError("not callable")])
def test_rows_are_kept_also_with_another_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def other(_: DataFrame) -> DataFrame:
        raise error

    monkeypatch.setattr(module, "_as_leaf", other)
    kept = keep(counted(spark, tmp_path / "runs"))
    assert ids(kept) == ids(kept) == [0, 1, 2, 3]
    assert len(list((tmp_path / "runs").iterdir())) == 1
    spark.catalog.clearCache()


@pytest.fixture
def adaptive(spark: SparkSession) -> Iterator[None]:
    """Plans change while they run, as by Spark's default; the other tests run without that."""
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    yield
    spark.conf.set("spark.sql.adaptive.enabled", "false")


@pytest.mark.usefixtures("adaptive")
def test_queries_in_a_block_are_planned_once(spark: SparkSession) -> None:
    kept = keep(spark.range(0, 4, 1, 2).groupBy("id").count())

    def planned(rows: DataFrame) -> str:
        rows.collect()
        return str(rows._jdf.queryExecution().executedPlan().getClass().getSimpleName())

    assert planned(kept.groupBy("count").count()) == "AdaptiveSparkPlanExec"
    with planned_once(spark):
        assert planned(kept.groupBy("count").count()) != "AdaptiveSparkPlanExec"
        assert ids(kept) == [0, 1, 2, 3]
    assert planned(kept.groupBy("count").count()) == "AdaptiveSparkPlanExec"
    with pytest.raises(ZeroDivisionError), planned_once(spark):
        raise ZeroDivisionError
    assert planned(kept.groupBy("count").count()) == "AdaptiveSparkPlanExec"
    spark.catalog.clearCache()
