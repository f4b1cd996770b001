"""The writer of `__transaction_events`: gathered, in order, counted where need be, and harmless when its log fails."""

from __future__ import annotations

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.coordinator.clock import ManualClock
from muster.coordinator.log import batches
from muster.coordinator.observe.transaction_journal import (
    LATEST_MS,
    MOST_WAITING,
    TransactionJournal,
    TransactionObservers,
)
from muster.coordinator.transactions.events import Event
from tests.coordinator.observe.happenings import ID, added, begun, ended, ending, fenced, refused


class Desk:
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
        self.journal.tell(happened, self.clock.now())


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_events_are_gathered_for_a_moment_and_keep_their_order(desk: Desk) -> None:
    desk.tell(begun(), added({"orders": [0]}))
    desk.clock.advance(LATEST_MS - 1)
    assert desk.rows == []
    desk.tell(ending(), ended())
    desk.clock.advance(1)
    assert desk.batches == 1
    assert [(key, value["kind"]) for key, value in desk.rows] == [
        (ID.encode(), kind)
        for kind in ("transaction_begun", "partitions_added", "transaction_ending", "transaction_committed")
    ]
    desk.tell(begun())
    desk.clock.advance(LATEST_MS)
    assert desk.batches == 2


def test_many_events_do_not_wait(desk: Desk) -> None:
    desk.tell(*[begun()] * MOST_WAITING)
    assert len(desk.rows) == MOST_WAITING
    desk.clock.advance(LATEST_MS)  # the timer finds nothing
    assert desk.batches == 1


def test_neither_do_those_that_name_many_partitions(desk: Desk) -> None:
    desk.tell(begun(), added({"orders": list(range(MOST_WAITING))}), begun())
    assert len(desk.rows) == 2


def test_fenced_and_refused_requests_are_counted_for_a_second(desk: Desk) -> None:
    desk.tell(fenced(), fenced(), refused(), fenced())
    desk.clock.advance(1_000)
    common = {"producer_id": 4000, "producer_epoch": 0, "client_id": "c", "host": "/127.0.0.1", "api": "EndTxn"}
    head = {"v": 1, "transactional_id": ID, "time": desk.rows[0][1]["time"]}
    assert [value for _, value in desk.rows] == [
        {
            **head, "kind": "producer_fenced", "error": "PRODUCER_FENCED", "error_code": 90, "count": 3, **common,
            "current_producer_id": 4000, "current_producer_epoch": 1,
        },
        {**head, "kind": "requests_refused", "error": "INVALID_TXN_STATE", "error_code": 48, "count": 1, **common},
    ]  # fmt: skip


def test_each_is_told_at_the_time_of_its_own_first_refusal(desk: Desk) -> None:
    began = desk.clock.now().wall_ms
    desk.tell(fenced(client="a"))
    desk.clock.advance(400)
    desk.tell(fenced(client="b"), fenced(client="a"))
    desk.clock.advance(600)
    times = {value["client_id"]: value["time"] - began for _, value in desk.rows}
    assert times == {"a": 0, "b": 400}


def test_a_flood_of_refusals_is_a_number(desk: Desk) -> None:
    desk.tell(*(fenced(client=str(number)) for number in range(1_000)))
    desk.journal.close()
    assert len(desk.rows) == 101
    key, last = desk.rows[-1]
    assert (key, last["kind"], last["transactional_id"], last["count"]) == (None, "requests_refused", None, 900)


def test_a_log_that_fails_costs_events_and_nothing_else(desk: Desk) -> None:
    desk.fails = True
    with capture_logs() as lines:
        desk.tell(begun())
        desk.clock.advance(LATEST_MS)
        desk.fails = False
        desk.clock.advance(10_000)
        desk.tell(ended())
        desk.clock.advance(LATEST_MS)
    assert [value["kind"] for _, value in desk.rows] == ["transaction_committed"]
    assert [(line["topic"], line["partition"]) for line in lines] == [("__transaction_events", 7)] * 2
    assert lines[1]["lost"] == 1


def test_a_load_is_told_and_what_waits_at_the_end_is_written(desk: Desk) -> None:
    logged: list[Event] = []
    observers = TransactionObservers(desk.journal, logged.extend)
    observers.loaded(desk.clock.now(), transactional_ids=3, records=9, took_ms=4)
    observers.tell((begun(), refused()), desk.clock.now())
    observers.flush()
    assert len(desk.rows) == 1
    observers.close()
    assert [value["kind"] for _, value in desk.rows] == ["shard_loaded", "transaction_begun", "requests_refused"]
    assert [one.kind for one in logged] == ["transaction_begun", "request_refused"]
    desk.clock.advance(2_000)
    assert len(desk.rows) == 3


def test_without_a_journal_only_the_log_is_told() -> None:
    logged: list[Event] = []
    observers = TransactionObservers(None, logged.extend)
    now = ManualClock().now()
    observers.loaded(now, transactional_ids=0, records=0, took_ms=0)
    observers.tell((begun(),), now)
    observers.close()
    assert len(logged) == 1
