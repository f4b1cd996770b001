"""The writer of `__transaction_events`: it collects events, keeps their order, counts where needed, and does no harm
when its log fails.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.coordinator.history.transaction_journal import (
    LATEST_MS,
    MAX_WAITING,
    TransactionJournal,
    TransactionObservers,
)
from muster.coordinator.log import batches
from muster.coordinator.log.errors import LogOffline
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.transactions.events import Event
from tests.coordinator.history.happenings import ID, added, begun, ended, ending, fenced, refused


class TransactionJournalHarness:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.rows: list[tuple[bytes | None, dict[str, Any]]] = []
        self.batches = 0
        self.fails = False
        self.journal = TransactionJournal(7, lambda: (self, 3), self.clock)

    def append(self, leader_epoch: int, batch: bytes | bytearray, *, wall_ms: int) -> None:
        if self.fails:
            raise OSError("no space left on device")
        self.batches += 1
        for _, rows in batches.read(bytes(batch)):
            self.rows.extend((row.key, json.loads(row.value or b"")) for row in rows)

    def sync_if_older(self, mono_ms: int) -> None:
        """Do nothing."""

    def report(self, *happened: Event) -> None:
        self.journal.report(happened, self.clock.now())


@pytest.fixture
def harness() -> TransactionJournalHarness:
    return TransactionJournalHarness()


def test_transaction_events_are_gathered_shortly_and_keep_their_order(harness: TransactionJournalHarness) -> None:
    harness.report(begun(), added({"orders": [0]}))
    harness.clock.advance(LATEST_MS - 1)
    assert harness.rows == []
    harness.report(ending(), ended())
    harness.clock.advance(1)
    assert harness.batches == 1
    assert [(key, value["kind"]) for key, value in harness.rows] == [
        (ID.encode(), kind)
        for kind in ("transaction_begun", "partitions_added", "transaction_ending", "transaction_committed")
    ]
    harness.report(begun())
    harness.clock.advance(LATEST_MS)
    assert harness.batches == 2


def test_many_transaction_events_are_written_at_once(harness: TransactionJournalHarness) -> None:
    harness.report(*[begun()] * MAX_WAITING)
    assert len(harness.rows) == MAX_WAITING
    harness.clock.advance(LATEST_MS)  # the timer finds nothing
    assert harness.batches == 1


def test_transaction_events_with_many_partitions_are_written_at_once(harness: TransactionJournalHarness) -> None:
    harness.report(begun(), added({"orders": list(range(MAX_WAITING))}), begun())
    assert len(harness.rows) == 2


def test_fenced_and_refused_requests_are_counted_for_a_second(harness: TransactionJournalHarness) -> None:
    harness.report(fenced(), fenced(), refused(), fenced())
    harness.clock.advance(1_000)
    common = {"producer_id": 4000, "producer_epoch": 0, "client_id": "c", "host": "/127.0.0.1", "api": "EndTxn"}
    head = {"v": 1, "transactional_id": ID, "time": harness.rows[0][1]["time"]}
    assert [value for _, value in harness.rows] == [
        {
            **head, "kind": "producer_fenced", "error": "PRODUCER_FENCED", "error_code": 90, "count": 3, **common,
            "current_producer_id": 4000, "current_producer_epoch": 1,
        },
        {**head, "kind": "requests_refused", "error": "INVALID_TXN_STATE", "error_code": 48, "count": 1, **common},
    ]  # fmt: skip


def test_counted_refusals_have_the_time_of_their_first_one(harness: TransactionJournalHarness) -> None:
    began = harness.clock.now().wall_ms
    harness.report(fenced(client="a"))
    harness.clock.advance(400)
    harness.report(fenced(client="b"), fenced(client="a"))
    harness.clock.advance(600)
    times = {value["client_id"]: value["time"] - began for _, value in harness.rows}
    assert times == {"a": 0, "b": 400}


def test_a_flood_of_refusals_becomes_one_count(harness: TransactionJournalHarness) -> None:
    harness.report(*(fenced(client=str(number)) for number in range(1_000)))
    harness.journal.close()
    assert len(harness.rows) == 101
    key, last = harness.rows[-1]
    assert (key, last["kind"], last["transactional_id"], last["count"]) == (None, "requests_refused", None, 900)


def test_a_failing_transaction_event_log_loses_only_events(harness: TransactionJournalHarness) -> None:
    harness.fails = True
    with capture_logs() as lines:
        harness.report(begun())
        harness.clock.advance(LATEST_MS)
        harness.fails = False
        harness.clock.advance(10_000)
        harness.report(ended())
        harness.clock.advance(LATEST_MS)
    assert [value["kind"] for _, value in harness.rows] == ["transaction_committed"]
    assert [(line["topic"], line["partition"]) for line in lines] == [("__transaction_events", 7)] * 2
    assert lines[1]["lost"] == 1


def test_a_load_has_an_event_and_waiting_events_are_written_at_the_end(harness: TransactionJournalHarness) -> None:
    logged: list[Event] = []
    observers = TransactionObservers(harness.journal, logged.extend)
    observers.loaded(harness.clock.now(), transactional_ids=3, records=9, took_ms=4)
    observers.report((begun(), refused()), harness.clock.now())
    observers.flush()
    assert len(harness.rows) == 1
    observers.close()
    assert [value["kind"] for _, value in harness.rows] == ["shard_loaded", "transaction_begun", "requests_refused"]
    assert [one.kind for one in logged] == ["transaction_begun", "request_refused"]
    harness.clock.advance(2_000)
    assert len(harness.rows) == 3


def test_transaction_events_go_to_the_log_only_without_a_journal() -> None:
    logged: list[Event] = []
    observers = TransactionObservers(None, logged.extend)
    now = ManualClock().now()
    observers.loaded(now, transactional_ids=0, records=0, took_ms=0)
    observers.report((begun(),), now)
    observers.close()
    assert len(logged) == 1


def test_waiting_transaction_events_are_written_by_the_next_leader(harness: TransactionJournalHarness) -> None:
    harness.report(begun(), refused())
    harness.fails = True  # its log will soon be closed

    def gone() -> Any:
        raise LogOffline("__transaction_events-7", "the log is not on this node now", is_reported=True)

    harness.journal.writer._open_log = gone
    with capture_logs() as logs:
        rows = harness.journal.hand_over()
        harness.clock.advance(LATEST_MS)
    assert not logs
    other = TransactionJournalHarness()
    other.journal.writer.write(rows, other.clock.now())
    assert [value["kind"] for _, value in other.rows] == ["transaction_begun", "requests_refused"]
