"""Measures the cost of one group with nearly all rows, for the tables that are made from commits. The commits are
measured as they are, with many groups, and again with nine of ten groups merged into one.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bench.explain.row import Row, at_most, plain
from bench.explain.spark import CORES, Measured, SparkMeter
from muster.pipeline.frames.spark import planned_once
from muster.pipeline.schema import OFFSET_COMMIT
from muster.pipeline.stage import Source, stage
from muster.pipeline.tables.build import build
from muster.pipeline.tables.inputs import Inputs

TABLES: Final = ("commits", "regressions", "stalls", "lag", "flapping")
SHARE: Final = 9
"""How many of ten groups are merged into one."""
_RUNS: Final = 3


def one_large_group(log: Path, folder: Path) -> list[Row]:
    """Measure both cases in turn, so that other load on the machine affects both. The first turn, in which Java is not
    warm, does not count.
    """
    meter = SparkMeter(folder)
    staged = stage(meter.spark, Source(path=str(log)), str(folder / "stage")).inputs
    commits = staged.decoded.where(F.col("kind") == OFFSET_COMMIT)
    kinds = {"spread": _written(commits, folder / "spread"), "one": _written(_merged(commits), folder / "one")}
    found: dict[str, list[Measured]] = {"spread": [], "one": []}
    for turn in range(_RUNS + 1):
        for name, rows in kinds.items():
            cost = meter.measure(partial(_write, meter, Inputs(rows, ends=staged.ends), folder / f"{name}-{turn}"))
            found[name] += [cost] if turn else []
    spread, one = (min(some, key=lambda cost: cost.wall_s) for some in found.values())
    largest, count = _largest(kinds["one"])
    return [
        plain("commits", count),
        plain("  of them in one group, %", 100 * largest / count),
        plain(f"tables of commits, many groups, by the clock, {CORES} cores, s", spread.wall_s),
        plain("  CPU s", spread.cpu_s),
        plain("the same commits, most of them in one group, s", one.wall_s),
        plain("  CPU s", one.cpu_s),
        at_most("one large group beside many, by the clock", one.wall_s / spread.wall_s, 1.3, " x"),
        at_most("  by CPU time", one.cpu_s / spread.cpu_s, 1.3, " x"),
    ]


def _merged(commits: DataFrame) -> DataFrame:
    """The rows with nine of ten groups merged into one, which has all topics of the nine groups."""
    is_merged: Column = F.pmod(F.xxhash64("group"), F.lit(10)) < SHARE
    changed = {
        "topic": F.concat_ws("-", "group", "topic"),
        "log_offset": F.col("log_partition").cast("long") * 10**12 + F.col("log_offset"),
        "group": F.lit("one"),
        "log_partition": F.lit(0),
    }
    return commits.select(
        *(F.when(is_merged, changed[name]).otherwise(F.col(name)).alias(name) if name in changed else name
          for name in commits.columns)
    )  # fmt: skip


def _written(rows: DataFrame, folder: Path) -> DataFrame:
    rows.write.parquet(str(folder))
    return rows.sparkSession.read.schema(rows.schema).parquet(str(folder))


def _write(meter: SparkMeter, inputs: Inputs, target: Path) -> None:
    tables = build(inputs, TABLES)
    with planned_once(meter.spark):
        for name, rows in tables.items():
            rows.write.parquet(str(target / name))
    meter.spark.catalog.clearCache()


def _largest(rows: DataFrame) -> tuple[int, int]:
    counted = rows.groupBy("group").count().agg(F.max("count"), F.sum("count")).collect()[0]
    return counted[0], counted[1]
