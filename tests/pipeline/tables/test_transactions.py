"""The table `transactions`, made by Spark: from a Kafka's log, from events, and from an offsets log alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from muster.coordinator.history.transaction_journal import transaction_json
from muster.coordinator.transactions import events as kinds
from muster.coordinator.transactions.events import Event
from muster.pipeline.schema import RAW
from muster.pipeline.stage import stage_transactions
from muster.pipeline.tables.inputs import events
from muster.pipeline.tables.regressions import fenced
from muster.pipeline.tables.schema import TABLES
from muster.pipeline.tables.transactions import (
    EVENTS_TOPIC,
    TransactionInputs,
    counts_of,
    malformed_transactions,
    transactions,
)
from muster.pipeline.wanted import ALL, Wanted
from tests.coordinator.history.happenings import START, added, begun, ended, ending
from tests.pipeline.engines import Engine
from tests.pipeline.tables.history import raw_events

LOG = Path(__file__).parents[2] / "golden" / "transactions-log"


def rows_of(table: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict(recursive=True) for row in table.collect()), key=lambda row: row["start_ms"])


def staged(spark: SparkSession, log: Path, folder: Path, wanted: Wanted = ALL) -> TransactionInputs:
    def raw_of(topic: str) -> DataFrame | None:
        is_there = any(log.glob(f"{topic}-*"))
        return spark.read.format("muster").option("topic", topic).load(str(log)) if is_there else None

    decoded = spark.read.format("muster").option("rows", "decoded").load(str(log))
    return stage_transactions(raw_of, str(log), decoded, None, str(folder), wanted)


def reported(spark: SparkSession, *happened: Event | bytes) -> DataFrame:
    values = [transaction_json(one, START + 10 * number) if isinstance(one, Event) else one
              for number, one in enumerate(happened)]  # fmt: skip
    rows = [(EVENTS_TOPIC, 0, offset, START, b"pay-9", value, None, None, None, None)
            for offset, value in enumerate(values)]  # fmt: skip
    return spark.createDataFrame(rows, from_arrow_schema(RAW))


def test_transactions_are_read_from_kafkas_log_and_from_events(spark: SparkSession, tmp_path: Path) -> None:
    happened = (begun(), added({"orders": [0], "__consumer_offsets": [7]}), ending(kinds.TIMED_OUT, is_committed=False),
                ended(kinds.ABORTED, kinds.TIMED_OUT), b"no JSON")  # fmt: skip
    counted = {
        "v": 1, "kind": "transactions_aborted", "group": "g", "time": START + 25, "producer_id": 4000,
        "first_epoch": 0, "last_epoch": 0, "transactions": 1, "offsets": 3,
    }  # fmt: skip
    counts = counts_of(events(raw_events(Engine(spark), [counted, {"kind": "group_created", "group": "g", "time": 1}])))
    inputs = staged(spark, LOG, tmp_path)._replace(events=reported(spark, *happened), counts=counts)
    first, *rows = rows_of(transactions(inputs, spark.range(0)))
    assert (first["outcome"], first["cause"], first["offsets"], first["groups"]) == ("aborted", "timeout", 3, ["g"])
    assert (first["client_id"], first["source"], first["confidence"], first["took_ms"]) == ("c", "events", 1.0, 30)
    unreadable = malformed_transactions(inputs)
    assert unreadable is not None
    (bad,) = unreadable.collect()
    assert (bad["log_topic"], bad["log_offset"]) == (EVENTS_TOPIC, 4)
    assert [(row["transactional_id"], row["outcome"], row["cause"], row["offsets"], row["groups"]) for row in rows] == [
        ("pay-1", "committed", "client", 0, []),
        ("pay-1", "committed", "client", 0, []),
        ("pay-1", "committed", "client", 0, []),
        ("pay-1", "aborted", "client", 0, []),
        ("pay-1", "committed", "client", 0, []),
        ("pay-1", "committed", "client", 2, ["g"]),
        ("pay-1", "aborted", "client", 1, ["g"]),
        ("pay-2", "aborted", "new_producer", 0, []),
        ("pay-2", "committed", "client", 0, []),
        ("slow", "aborted", "timeout", 0, []),
        ("open-1", None, None, 0, []),
    ]
    assert rows[5]["topics"] == [
        {"topic": "__consumer_offsets", "partitions": [3]},
        {"topic": "other", "partitions": [0]},
    ]
    assert (rows[0]["partitions"], rows[0]["open_ms"], rows[0]["took_ms"]) == (3, 38, 118)
    found = fenced(spark.createDataFrame(pa.Table.from_pylist(rows, TABLES["transactions"])))
    assert [(row["producer_id"], row["producer_epoch"]) for row in found.collect()] == [(1, 0)]


def test_transactions_are_found_in_an_offsets_log_alone(spark: SparkSession, tmp_path: Path) -> None:
    shutil.copytree(LOG / "__consumer_offsets-3", tmp_path / "log" / "__consumer_offsets-3")
    inputs = staged(spark, tmp_path / "log", tmp_path / "stage", Wanted(groups=("g",)))
    rows = rows_of(transactions(inputs, spark.range(0)))
    assert [(row["transactional_id"], row["producer_id"], row["outcome"], row["cause"]) for row in rows] == [
        (None, 0, "committed", "client"),
        (None, 0, "aborted", None),
    ]
    assert {row["source"] for row in rows} == {"offsets"}


def test_a_log_without_transactions_gives_an_empty_table(spark: SparkSession) -> None:
    table = transactions(TransactionInputs(), spark.range(0))
    assert table.columns == TABLES["transactions"].names
    assert table.isEmpty()
