"""Transactions from `__transaction_events`, as the server writes them. Without Spark."""

from __future__ import annotations

import json
from typing import Any

from muster.coordinator.history.transaction_journal import plain_transaction_json, transaction_json
from muster.coordinator.transactions import events
from muster.coordinator.transactions.events import Event
from muster.pipeline.infer.transaction_records import merged, read_event, transactions_of_events
from tests.coordinator.history.happenings import START, added, begun, ended, ending, initialized


def values(*happened: tuple[int, Event]) -> list[dict[str, Any]]:
    return [json.loads(transaction_json(event, START + at_ms)) for at_ms, event in happened]


def test_a_transaction_is_read_from_its_events() -> None:
    reported = values(
        (0, initialized()),
        (0, begun()),
        (0, added({"orders": [0]})),
        (1, added({"orders": [2], "__consumer_offsets": [7]})),
        (1_500, ending()),
        (1_507, ended()),
    )
    assert transactions_of_events("pay-1", reported) == [
        {
            "transactional_id": "pay-1", "producer_id": 4000, "producer_epoch": 0, "start_ms": START,
            "source": "events", "fenced_requests": 0, "timeout_ms": 60_000, "client_id": "c", "host": "/127.0.0.1",
            "topics": {"orders": {0, 2}, "__consumer_offsets": {7}}, "ending_ms": START + 1_500,
            "outcome": "committed", "cause": "client", "confidence": 1.0, "transaction_version": 2,
            "end_ms": START + 1_507,
        }
    ]  # fmt: skip


def test_a_fenced_producer_is_read_from_events() -> None:
    refused = {
        "producer_id": 4000, "producer_epoch": 0, "api": "EndTxn", "error": "PRODUCER_FENCED", "count": 3,
    }  # fmt: skip
    reported = [
        *values(
            (0, begun()),
            (5, ending(events.NEW_PRODUCER, is_committed=False)),
            (6, ended(events.ABORTED, events.NEW_PRODUCER)),
            (7, initialized(events.NEW_PRODUCER, fenced=(4000, 0), epoch=1)),
        ),
        json.loads(plain_transaction_json("producer_fenced", "pay-1", START + 9, refused)),
        json.loads(plain_transaction_json("producer_fenced", "pay-1", START + 9, refused | {"producer_id": 5})),
        json.loads(plain_transaction_json("producer_fenced", "pay-1", START + 9, refused | {"producer_id": -1})),
    ]
    (row,) = transactions_of_events("pay-1", reported)
    assert (row["outcome"], row["cause"]) == ("aborted", "new_producer")
    assert (row["fenced_ms"], row["fenced_requests"]) == (START + 7, 3)


def test_unknown_transaction_events_are_skipped() -> None:
    odd = [{"kind": "moon_rose", "began": 5}, {"kind": "transaction_begun", "began": "soon"},
           {"kind": "partitions_added", "began": 7, "topics": [1]},
           {"kind": "partitions_added", "began": 7, "topics": {"t": "x", "u": ["y", 3]}}]  # fmt: skip
    rows = transactions_of_events("x", odd)
    assert [(row["start_ms"], row.get("topics")) for row in rows] == [(5, None), (7, {"u": {3}})]
    assert [read_event(data) for data in (None, b"", b"[]", b"{}", b'{"kind":5}', b"\xff")] == [None] * 6


def test_events_are_preferred_to_states_and_states_used_without_events() -> None:
    known = {
        "start_ms": 5,
        "source": "log",
        "cause": "client",
        "confidence": 0.9,
        "topics": {"a": {0}},
        "client_id": None,
    }
    reported = {
        "start_ms": 5,
        "source": "events",
        "cause": "timeout",
        "confidence": 1.0,
        "topics": {"a": {1}, "b": {0}},
    }
    assert merged([known], [reported]) == [{**reported, "topics": {"a": {0, 1}, "b": {0}}, "client_id": None}]
    assert merged([known], []) == [known]
    (half,) = merged([known], [{"start_ms": 5, "source": "events"}])
    assert (half["cause"], half["confidence"], half["topics"]) == ("client", 0.9, {"a": {0}})
    assert [row["start_ms"] for row in merged([known], [{"start_ms": 3}])] == [3, 5]
