"""Spark makes the rows that are made in this process: each table at least once, of the rows of its own tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from muster.pipeline.frames import in_this_process
from muster.pipeline.tables.schema import TABLES
from tests.pipeline.engines import Engine
from tests.pipeline.tables import (
    test_commits,
    test_episodes,
    test_epoch_facts,
    test_flapping,
    test_lag,
    test_progress,
    test_rebalances,
    test_regressions,
    test_share_states,
    test_skips,
    test_stalls,
    test_stream_states,
)
from tests.pipeline.test_analyze import rows_of
from tests.pipeline.whatif import test_job

Make = Callable[[Engine], Mapping[str, DataFrame]]


def only(name: str, make: Callable[[Engine], DataFrame]) -> Make:
    return lambda engine: {name: make(engine)}


MAKERS: dict[str, Make] = {
    "commits": only("commits", test_commits.made),
    "rebalances": test_rebalances.made,
    "epochs": test_epoch_facts.made,
    "regressions": only("regressions", test_regressions.made),
    "shares": test_share_states.made,
    "streams": test_stream_states.made,
    "skips": only("skips", test_skips.made),
    "leaps": only("skips", test_skips.leaps),
    "stalls": only("stalls", test_stalls.made),
    "silences": only("silences", test_episodes.made_silences),
    "lag": only("lag", test_lag.made),
    "progress": only("progress", lambda engine: test_progress.made(engine, *test_progress.ENDS)),
    "flapping": only("flapping", test_flapping.made),
    "episodes": test_episodes.made,
    "what-if": test_job.made,
}


def types(schema: StructType) -> dict[str, str]:
    return {one.name: one.dataType.simpleString() for one in schema}


@pytest.mark.parametrize("name", MAKERS)
def test_spark_makes_the_same_rows(spark: SparkSession, name: str) -> None:
    of_spark = MAKERS[name](Engine(spark))
    for table, rows in of_spark.items():
        assert types(rows.schema) == types(from_arrow_schema(TABLES[table]))
    with in_this_process():
        here = {table: rows_of(rows.toArrow().cast(TABLES[table])) for table, rows in MAKERS[name](Engine()).items()}
    assert {table: rows_of(rows.toArrow().cast(TABLES[table])) for table, rows in of_spark.items()} == here
    assert any(here.values())
