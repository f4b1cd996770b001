"""The writer of `__transaction_events`: gathered, in order, counted where need be, and harmless when its log fails."""

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


class Bench:
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
        """Nothing."""

    def tell(self, *happened: Event) -> None:
        self.journal.report(happened, self.clock.now())


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_transaction_events_are_gathered_shortly_and_keep_their_order(bench: Bench) -> None:
    bench.tell(begun(), added({"orders": [0]}))
    bench.clock.advance(LATEST_MS - 1)
    assert bench.rows == []
    bench.tell(ending(), ended())
    bench.clock.advance(1)
    assert bench.batches == 1
    assert [(key, value["kind"]) for key, value in bench.rows] == [
        (ID.encode(), kind)
        for kind in ("transaction_begun", "partitions_added", "transaction_ending", "transaction_committed")
    ]
    bench.tell(begun())
    bench.clock.advance(LATEST_MS)
    assert bench.batches == 2


def test_many_transaction_events_are_written_at_once(bench: Bench) -> None:
    bench.tell(*[begun()] * MAX_WAITING)
    assert len(bench.rows) == MAX_WAITING
    bench.clock.advance(LATEST_MS)  # the timer finds nothing
    assert bench.batches == 1


def test_transaction_events_with_many_partitions_are_written_at_once(bench: Bench) -> None:
    bench.tell(begun(), added({"orders": list(range(MAX_WAITING))}), begun())
    assert len(bench.rows) == 2


def test_fenced_and_refused_requests_are_counted_for_a_second(bench: Bench) -> None:
    bench.tell(fenced(), fenced(), refused(), fenced())
    bench.clock.advance(1_000)
    common = {"producer_id": 4000, "producer_epoch": 0, "client_id": "c", "host": "/127.0.0.1", "api": "EndTxn"}
    head = {"v": 1, "transactional_id": ID, "time": bench.rows[0][1]["time"]}
    assert [value for _, value in bench.rows] == [
        {
            **head, "kind": "producer_fenced", "error": "PRODUCER_FENCED", "error_code": 90, "count": 3, **common,
            "current_producer_id": 4000, "current_producer_epoch": 1,
        },
        {**head, "kind": "requests_refused", "error": "INVALID_TXN_STATE", "error_code": 48, "count": 1, **common},
    ]  # fmt: skip


def test_counted_refusals_have_the_time_of_their_first_one(bench: Bench) -> None:
    began = bench.clock.now().wall_ms
    bench.tell(fenced(client="a"))
    bench.clock.advance(400)
    bench.tell(fenced(client="b"), fenced(client="a"))
    bench.clock.advance(600)
    times = {value["client_id"]: value["time"] - began for _, value in bench.rows}
    assert times == {"a": 0, "b": 400}


def test_a_flood_of_refusals_becomes_one_count(bench: Bench) -> None:
    bench.tell(*(fenced(client=str(number)) for number in range(1_000)))
    bench.journal.close()
    assert len(bench.rows) == 101
    key, last = bench.rows[-1]
    assert (key, last["kind"], last["transactional_id"], last["count"]) == (None, "requests_refused", None, 900)


def test_a_failing_transaction_event_log_loses_only_events(bench: Bench) -> None:
    bench.fails = True
    with capture_logs() as lines:
        bench.tell(begun())
        bench.clock.advance(LATEST_MS)
        bench.fails = False
        bench.clock.advance(10_000)
        bench.tell(ended())
        bench.clock.advance(LATEST_MS)
    assert [value["kind"] for _, value in bench.rows] == ["transaction_committed"]
    assert [(line["topic"], line["partition"]) for line in lines] == [("__transaction_events", 7)] * 2
    assert lines[1]["lost"] == 1


def test_a_load_has_an_event_and_waiting_events_are_written_at_the_end(bench: Bench) -> None:
    logged: list[Event] = []
    observers = TransactionObservers(bench.journal, logged.extend)
    observers.loaded(bench.clock.now(), transactional_ids=3, records=9, took_ms=4)
    observers.report((begun(), refused()), bench.clock.now())
    observers.flush()
    assert len(bench.rows) == 1
    observers.close()
    assert [value["kind"] for _, value in bench.rows] == ["shard_loaded", "transaction_begun", "requests_refused"]
    assert [one.kind for one in logged] == ["transaction_begun", "request_refused"]
    bench.clock.advance(2_000)
    assert len(bench.rows) == 3


def test_transaction_events_go_to_the_log_only_without_a_journal() -> None:
    logged: list[Event] = []
    observers = TransactionObservers(None, logged.extend)
    now = ManualClock().now()
    observers.loaded(now, transactional_ids=0, records=0, took_ms=0)
    observers.report((begun(),), now)
    observers.close()
    assert len(logged) == 1


def test_waiting_transaction_events_are_written_by_the_next_leader(bench: Bench) -> None:
    bench.tell(begun(), refused())
    bench.fails = True  # its log is about to be closed

    def gone() -> Any:
        raise LogOffline("__transaction_events-7", "this node has it not, or not yet", is_reported=True)

    bench.journal.writer._open_log = gone
    with capture_logs() as logs:
        rows = bench.journal.hand_over()
        bench.clock.advance(LATEST_MS)
    assert not logs
    other = Bench()
    other.journal.writer.write(rows, other.clock.now())
    assert [value["kind"] for _, value in other.rows] == ["transaction_begun", "requests_refused"]
