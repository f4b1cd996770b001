"""Share groups of a real Kafka: its data directory and the running cluster give the same tables, by each way to read
them: in this process, by Spark, through Spark's own connector, and from a stream that Spark has written down.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from muster.pipeline.frames.spark import planned_once
from muster.pipeline.schema import OFFSETS_TOPIC
from muster.pipeline.sources.options import of_client
from muster.pipeline.stage import Source, stage
from muster.pipeline.tables.build import build
from muster.pipeline.tables.schema import TABLES
from muster.pipeline.tables.share_states import MADE, STATE_TOPIC
from tests.pipeline.conftest import spark
from tests.pipeline.connector import through_connector
from tests.pipeline.jars import CONNECTOR
from tests.pipeline.live import Live
from tests.support.servers import QUICK, KafkaServer

__all__ = ["spark"]
OF_ENDS = ("end_offset", "lag")
"""Columns that only a source with the present ends of the topics has."""
Tables = dict[str, list[Mapping[str, Any]]]
needs_connector = pytest.mark.skipif(bool(CONNECTOR.why_not()), reason=CONNECTOR.why_not() or "the jars are there")
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A Kafka with two share groups that are over, and a consumer group."""
    server = KafkaServer(
        tmp_path_factory.mktemp("kafka"),
        {**QUICK, "share.coordinator.state.topic.num.partitions": "3"},
    )
    server.start()
    try:
        live = Live({"bootstrap.servers": server.bootstrap})
        live.fill()
        live.data_dir = str(next(server.workdir.glob("data/**/__consumer_offsets-0")).parent)
        live.share("queue")
        live.share("jobs")
        yield live
    finally:
        server.stop()


@pytest.fixture(scope="module")
def of_directory(live: Live, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """The tables of the data directory."""
    found = analyzed(tmp_path_factory.mktemp("directory"), live.data_dir)
    assert {row["group"] for row in found["share_partitions"]} == {"queue", "jobs"}
    assert sorted((row["group"], row["outcome"], row["deliveries"]) for row in found["deliveries"]) == [
        ("jobs", "archived", 2), ("queue", "archived", 2)
    ]  # fmt: skip
    assert all(row["lag"] is not None for row in found["share_partitions"])
    return found


def analyzed(folder: Path, *source: str) -> Tables:
    """The tables that `muster analyze` writes."""
    command = [str(Path(sys.executable).with_name("muster")), "analyze", *source, "--out", str(folder / "out")]
    subprocess.run(command, check=True, capture_output=True)
    found = {name: pq.read_table(folder / "out" / "tables" / name) for name in MADE}
    # a written table also has the times as timestamps
    return {name: in_order(rows.select(TABLES[name].names).to_pylist()) for name, rows in found.items()}


def of_spark(session: SparkSession, source: Source, folder: Path) -> Tables:
    with planned_once(session):
        made = build(stage(session, source, str(folder)).inputs)
        found = {name: in_order(made[name].toArrow().to_pylist()) for name in MADE}
    session.catalog.clearCache()
    return found


def different(some: Tables, others: Tables) -> list[tuple[str, Any, Any]]:
    """The values that differ: the table and its column, and both values. A row that only one has is the last."""
    return [
        (f"{name} {column}", one.get(column), other.get(column))
        for name in MADE
        for one, other in zip_longest(some[name], others[name], fillvalue={})
        for column in {**one, **other}
        if one.get(column) != other.get(column)
    ]


def in_order(rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(rows, key=repr)


def test_the_command_reads_the_running_cluster(live: Live, of_directory: Tables, tmp_path: Path) -> None:
    assert different(analyzed(tmp_path, "--bootstrap-server", live.bootstrap), of_directory) == []


def test_spark_reads_the_running_cluster(live: Live, of_directory: Tables, spark: SparkSession, tmp_path: Path) -> None:
    assert different(of_spark(spark, Source(kafka=live.client), tmp_path), of_directory) == []


def test_a_stream_of_the_state_log_is_read_like_the_log(
    live: Live, of_directory: Tables, spark: SparkSession, tmp_path: Path
) -> None:
    written = [streamed(spark, live, topic, tmp_path / topic) for topic in (OFFSETS_TOPIC, STATE_TOPIC)]
    rows = written[0].unionByName(written[1])
    assert different(of_spark(spark, Source(rows=rows), tmp_path / "made"), without_ends_of(of_directory)) == []


def streamed(spark: SparkSession, live: Live, topic: str, folder: Path) -> DataFrame:
    """The rows of a topic that a stream has written to files."""
    reading = spark.readStream.format("muster").options(topic=topic, **of_client(live.client))
    written = reading.load().writeStream.format("parquet").option("path", str(folder / "rows"))
    written = written.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    written.start().awaitTermination()
    return spark.read.parquet(str(folder / "rows"))


@needs_connector
def test_sparks_connector_reads_the_state_log(
    live: Live, of_directory: Tables, spark: SparkSession, tmp_path: Path
) -> None:
    rows = through_connector(spark.read, live.bootstrap, subscribe=f"{OFFSETS_TOPIC},{STATE_TOPIC}")
    assert different(of_spark(spark, Source(rows=rows), tmp_path), without_ends_of(of_directory)) == []


def without_ends_of(tables: Tables) -> Tables:
    """The tables, with None in the columns of OF_ENDS."""
    return {
        name: in_order([{**row, **{key: None for key in OF_ENDS if key in row}} for row in rows])
        for name, rows in tables.items()
    }
