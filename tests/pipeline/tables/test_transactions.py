"""The table `transactions`, made by Spark: from a Kafka's log, from events, and from an offsets log alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from muster.coordinator.history.transaction_journal import transaction_json
from muster.coordinator.transactions import events as kinds
from muster.coordinator.transactions.events import Event
from muster.pipeline.schema import RAW
from muster.pipeline.stage import stage_transactions
from muster.pipeline.tables.commits import walked
from muster.pipeline.tables.inputs import events
from muster.pipeline.tables.regressions import fenced, regressions
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
from tests.pipeline.tables.history import raw_events
from tests.pipeline.tables.rows import Commits, table_of

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
    counts = counts_of(events(raw_events(spark, [counted, {"kind": "group_created", "group": "g", "time": 1}])))
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


HISTORIES = {
    # the former owner's transaction is committed after the partition moved to b
    "zombie": Commits("zombie").by("a", (0, 100), producer_id=1).by("b", (60, 120), (65, 150), producer_id=2)
    .by("b", (70, 60), producer_id=1).by("b", (75, 70), producer_id=2),
    # b itself goes back, in a way that looks like a zombie's step back and like its step forward
    "rewind": Commits("rewind").by("a", (0, 100), producer_id=1)
    .by("b", (60, 120), (65, 150), (70, 105), (75, 170), producer_id=2),
    "rewind-ahead": Commits("rewind-ahead").by("a", (0, 100), producer_id=1)
    .by("b", (10, 180), (15, 120), (20, 140), producer_id=2),
    # the same owner, restarted: its earlier process committed 180 when the new one had read 100 already
    "fenced": Commits("fenced").by("a", (0, 100), (5, 180), producer_id=3).by("a", (9, 120), (20, 140), producer_id=4),
    "not-fenced": Commits("not-fenced").by("a", (0, 100), (5, 180), producer_id=5)
    .by("a", (9, 120), (20, 140), producer_id=4),
}  # fmt: skip


@pytest.fixture
def by_producers(spark: SparkSession) -> DataFrame:
    rows = [row | {"producer_epoch": 0} for one in HISTORIES.values() for row in one.rows]
    schema = pa.schema([*TABLES["commits"], ("producer_id", pa.int64()), ("producer_epoch", pa.int32())])
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema))


def test_the_producer_distinguishes_a_zombie_from_a_rewind(spark: SparkSession, by_producers: DataFrame) -> None:
    since = Commits("x").by("a", (7, 0)).rows[0]["time_ms"]
    replaced = fenced(table_of(spark, "transactions", [{"producer_id": 3, "producer_epoch": 0, "fenced_ms": since}]))
    found = {
        row["group"]: (row["cause"], row["client_id"])
        for row in regressions(walked(by_producers, None, replaced)).collect()
    }
    assert found == {
        "zombie": ("zombie", "a"),
        "rewind": ("rewind", "b"),
        "rewind-ahead": ("rewind", "b"),
        "fenced": ("zombie", "a"),
        "not-fenced": ("rewind", "a"),
    }
