"""Measures the way from a log to decoded Parquet, from segment files or by Spark's own connector.

Also measures how memory and cost grow with the log.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from bench.explain.row import Row, at_least, at_most, plain
from bench.explain.spark import CORES, SparkMeter
from muster.pipeline.sources.frame import CONNECTOR_SPEED
from muster.pipeline.sources.segments import read_segments
from muster.pipeline.sources.spark_source import open_reader
from muster.pipeline.wanted import ALL
from muster.pipeline.write import work_of_reader, write_decoded
from tests.pipeline.jars import CONNECTOR
from tests.support.servers import MusterServer

KEEP_ALL: Final = {"offsets.retention.minutes": "2000000000", "log.cleaner.enable": "false"}


def staged(meter: SparkMeter, **options: str) -> None:
    """Read, decode and write the log, as the first step of an analysis does."""
    asked = {"rows": "decoded", "numPartitions": str(CORES), **options}
    target = meter.folder / "staged"
    write_decoded(work_of_reader(meter.spark, open_reader(asked)), str(target), ALL)
    shutil.rmtree(target)


def decoded(meter: SparkMeter, **options: str) -> Any:
    """The rows that format("muster") returns to Spark."""
    return meter.spark.read.format("muster").options(rows="decoded", numPartitions=str(CORES), **options).load()


def rows_in(log: Path) -> int:
    """Count the rows of a log."""
    return sum(batch.num_rows for batch in read_segments(str(log)))


def segments(log: Path, folder: Path) -> list[Row]:
    """Measure a log of a million records, beside Spark's connector with the same records."""
    meter, rows = SparkMeter(folder), rows_in(log)
    ours = meter.runs(lambda: staged(meter, path=str(log)))
    by_spark = meter.runs(lambda: meter.parquet(decoded(meter, path=str(log))))
    found = [
        at_least("segments to decoded Parquet, rows/s of CPU", rows / ours.warm.cpu_s, 300_000),
        plain(f"  the same by the clock, {CORES} cores, rows/s", rows / ours.warm.wall_s),
        plain("  in a JVM that has just started, rows/s of CPU", rows / ours.first.cpu_s),
        plain(f"  the same by the clock, {CORES} cores, rows/s", rows / ours.first.wall_s),
        plain("  written by Spark, as a DataFrame of format muster, rows/s of CPU", rows / by_spark.warm.cpu_s),
        plain(f"  the same by the clock, {CORES} cores, rows/s", rows / by_spark.warm.wall_s),
        plain("  rows", rows),
    ]
    with serving(log, folder) as bootstrap:
        live = meter.runs(lambda: staged(meter, **{"bootstrap.servers": bootstrap}))
        found.append(at_least("live cluster to decoded Parquet, rows/s of CPU", rows / live.warm.cpu_s, 100_000))
        found.append(plain(f"  the same by the clock, {CORES} cores, rows/s", rows / live.warm.wall_s))
        if CONNECTOR.why_not():
            return [*found, Row("Spark's connector, native expressions", CONNECTOR.why_not())]
        theirs = meter.runs(lambda: meter.parquet(by_expressions(through_connector(meter, bootstrap))))
    found.append(plain("Spark's connector, native expressions, to Parquet, rows/s of CPU", rows / theirs.warm.cpu_s))
    found.append(plain(f"  the same by the clock, {CORES} cores, rows/s", rows / theirs.warm.wall_s))
    found.append(at_least("segments beside Spark's connector", theirs.warm.cpu_s / ours.warm.cpu_s, 3, " x"))
    return found


def growth(log: Path, folder: Path) -> list[Row]:
    """Measure cost and memory for a tenth of the log, for the whole log, and for ten times the log."""
    tenth, ten = folder / "tenth", folder / "ten"
    copies(log, tenth, 1, every=10)
    copies(log, ten, 10)
    meter, rows, few = SparkMeter(folder), rows_in(log), rows_in(tenth)
    least = meter.runs(lambda: staged(meter, path=str(tenth))).warm
    small = meter.runs(lambda: staged(meter, path=str(log))).warm
    with meter.memory() as peaks:
        large = meter.measure(lambda: staged(meter, path=str(ten)))
        memory = peaks()
    return [
        plain(f"CPU s for {few / 1e6:,.2f} million rows, mostly to start", least.cpu_s),
        plain(f"CPU s for each million of {rows / 1e6:,.1f} million rows", small.cpu_s / rows * 1e6),
        plain(f"CPU s for each million of {rows / 1e5:,.1f} million rows", large.cpu_s / rows * 1e5),
        at_most("  ten times the rows cost", large.cpu_s / small.cpu_s, 11, " x"),
        at_most(f"driver and JVM, {rows / 1e5:,.1f} million rows, peak, MiB", memory.driver_and_jvm, 2_048),
        at_most("  the largest worker, peak, MiB", memory.worker, 350),
    ]


def copies(log: Path, target: Path, count: int, every: int = 1) -> None:
    """Make a log with `count` copies of the segments, each copy as another partition."""
    folders = sorted(log.glob("__consumer_offsets-*"))[::every]
    for index in range(count):
        for folder in folders:
            partition = int(folder.name.rpartition("-")[2]) + index * 1_000
            (target / f"__consumer_offsets-{partition}").mkdir(parents=True)
            for segment in folder.glob("*.log"):
                (target / f"__consumer_offsets-{partition}" / segment.name).symlink_to(segment.resolve())


@contextmanager
def serving(log: Path, folder: Path) -> Iterator[str]:
    """Run a Muster on a copy of the log."""
    server = MusterServer(folder / "server", KEEP_ALL)
    shutil.copytree(log, server.workdir / "data")
    server.start()
    try:
        yield server.bootstrap
    finally:
        server.stop()


def through_connector(meter: SparkMeter, bootstrap: str) -> Any:
    """Read the log as docs/pipeline-spark.md shows for Spark's connector."""
    how = {"kafka.bootstrap.servers": bootstrap, "subscribe": "__consumer_offsets", **CONNECTOR_SPEED}
    return meter.spark.read.format("kafka").options(**how).option("minPartitions", str(CORES)).load()


def by_expressions(rows: Any) -> Any:
    """Decode offset commits of versions 3 and 4 by Spark's own expressions. Of other records, only the offset is
    read.
    """
    key, value = F.col("key"), F.col("value")
    is_commit = _number(key, F.lit(1), 2) <= 1
    group_size = _number(key, F.lit(3), 2)
    topic_size = _number(key, group_size + 5, 2)
    version = _number(value, F.lit(1), 2)
    is_compact = version == 4
    size = F.when(is_compact, _number(value, F.lit(15), 1) - 1).otherwise(_number(value, F.lit(15), 2))
    metadata = F.when(is_compact, F.lit(16)).otherwise(F.lit(17))
    columns = {
        "group": F.substring(key, F.lit(5), group_size).cast("string"),
        "topic": F.substring(key, group_size + 7, topic_size).cast("string"),
        "topic_partition": _number(key, group_size + topic_size + 7, 4),
        "version": version,
        "committed_offset": _number(value, F.lit(3), 8),
        "leader_epoch": _number(value, F.lit(11), 4),
        "metadata": F.substring(value, metadata, size).cast("string"),
        "commit_timestamp_ms": _number(value, metadata + size, 8),
    }
    named = (F.when(is_commit, column).alias(name) for name, column in columns.items())
    return rows.select("partition", "offset", "timestamp", *named)


def _number(data: Column, start: Column, size: int) -> Column:
    return F.conv(F.hex(F.substring(data, start, F.lit(size))), 16, 10).cast("long")
