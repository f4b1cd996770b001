"""Transactions from `__transaction_state`: of a real Kafka, and hand-made. Without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.pipeline.infer.transaction_records import (
    ABORTED,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    Logged,
    Row,
    transactions_of_states,
)
from muster.pipeline.sources.segments import Reading, read_segments
from muster.protocol.messages.transaction_records.transaction_log import PartitionsSchema, TransactionLogValue
from muster.protocol.records import TRANSACTION_STATE

LOG = Path(__file__).parents[2] / "golden" / "transactions-log"


def of_kafka() -> dict[str, list[Row]]:
    records: dict[str, list[Logged]] = {}
    for batch in read_segments(str(LOG), Reading("__transaction_state")):
        for row in batch.to_pylist():
            kind, key = TRANSACTION_STATE.decode_key(row["key"])
            value = TRANSACTION_STATE.decode_value(kind, row["value"])[1]
            records.setdefault(key.transactional_id, []).append(Logged(row["timestamp_ms"], value))
    return {name: transactions_of_states(name, some) for name, some in records.items()}


def test_transactions_of_a_real_kafka_log_are_found() -> None:
    found = of_kafka()
    ends = {name: [(row["outcome"], row["cause"], row["confidence"]) for row in rows] for name, rows in found.items()}
    done, undone = ("committed", "client", 1.0), ("aborted", "client", 1.0)
    assert ends == {
        "pay-1": [done, done, done, undone, done, done, undone],
        "pay-2": [("aborted", "new_producer", 1.0), done],
        "slow": [("aborted", "timeout", 1.0)],
        "open-1": [(None, None, None)],
    }
    first, late, still = found["pay-1"][0], found["slow"][0], found["open-1"][0]
    assert first["topics"] == {"orders": {0, 1, 2}}
    assert (first["ending_ms"] - first["start_ms"], first["end_ms"] - first["start_ms"]) == (38, 118)
    assert late["ending_ms"] - late["start_ms"] > late["timeout_ms"] == 1_500
    assert (still["end_ms"], still["topics"]) == (None, {"other": {0}, "orders": {2}})
    assert found["pay-1"][5]["topics"] == {"__consumer_offsets": {3}, "other": {0}}
    zombie, heir = found["pay-2"]
    assert (zombie["producer_epoch"], heir["producer_epoch"]) == (0, 2)
    assert zombie["fenced_ms"] == zombie["ending_ms"]
    assert heir["fenced_ms"] is None


def logged(at_ms: int, status: int, epoch: int, *, start_ms: int = 1_000, version: int = 2, **more: Any) -> Logged:
    partitions = [PartitionsSchema("t", [0])] if status == ONGOING else []
    value = TransactionLogValue(
        7, 7, -1, epoch, -1, 500, status, partitions, at_ms, -1 if status == EMPTY else start_ms, version
    )
    return Logged(at_ms, value)


@pytest.mark.parametrize(
    ("records", "cause", "confidence"),
    [
        # KIP-890: each end raises the epoch
        ([logged(1_100, PREPARE_ABORT, 4), logged(1_101, COMPLETE_ABORT, 4)], "client", 0.9),
        ([logged(1_500, PREPARE_ABORT, 4), logged(1_501, COMPLETE_ABORT, 4)], "timeout", 0.95),
        (
            [logged(1_100, PREPARE_ABORT, 4), logged(1_101, COMPLETE_ABORT, 4), logged(1_300, EMPTY, 5)],
            "new_producer",
            0.8,
        ),
        (
            [logged(1_100, PREPARE_ABORT, 4), logged(1_101, COMPLETE_ABORT, 4), logged(9_300, EMPTY, 5)],
            "client",
            0.9,
        ),
        ([logged(1_900, PREPARE_COMMIT, 4), logged(1_901, COMPLETE_COMMIT, 4)], "client", 1.0),
        ([logged(1_100, PREPARE_ABORT, 4)], "client", 0.9),
        ([], None, None),
    ],
)
def test_the_end_of_a_transaction_has_its_cause(
    records: list[Logged], cause: str | None, confidence: float | None
) -> None:
    (row,) = transactions_of_states("x", [logged(1_000, ONGOING, 3), *records])
    assert (row["cause"], row["confidence"], row["producer_epoch"]) == (cause, confidence, 3)


def test_a_compacted_transaction_may_have_only_its_end() -> None:
    (row,) = transactions_of_states("x", [logged(1_101, COMPLETE_ABORT, 4)])
    assert (row["outcome"], row["cause"], row["topics"], row["producer_epoch"]) == (ABORTED, None, None, 3)
    assert (row["start_ms"], row["ending_ms"], row["end_ms"]) == (1_000, None, 1_101)
    (row,) = transactions_of_states("x", [logged(1_101, COMPLETE_COMMIT, 4, version=0)])
    assert (row["cause"], row["producer_epoch"]) == ("client", 4)


def test_a_fenced_transaction_and_the_end_of_an_id_are_found() -> None:
    begun = [logged(0, EMPTY, 0), logged(1_000, ONGOING, 0), logged(1_100, COMPLETE_COMMIT, 1)]
    (row,) = transactions_of_states("x", [*begun, logged(5_000, EMPTY, 2), logged(6_000, EMPTY, 3)])
    assert row["fenced_ms"] == 5_000
    (row,) = transactions_of_states("x", [*begun, Logged(4_000, None), logged(5_000, EMPTY, 0)])
    assert row["fenced_ms"] is None
