"""Ids that nobody has used for long are removed."""

from __future__ import annotations

import pytest

from muster.coordinator.core.interface import Now
from muster.coordinator.transactions import events, expiry
from tests.coordinator.transactions.harness import Desk

DAYS_7_MS = 604_800_000
HOUR_MS = 3_600_000
P = (1_001, 0)


def test_an_unused_id_is_removed_with_a_tombstone() -> None:
    desk = Desk()
    desk.init()
    desk.advance(DAYS_7_MS - 1)
    assert desk.core.transactional_id_count == 1
    desk.advance(HOUR_MS)
    assert desk.core.transactional_id_count == 0
    assert (desk.records[-1].key.transactional_id, desk.records[-1].value) == ("x", None)  # type: ignore[attr-defined]
    assert desk.events[-1].kind == events.EXPIRED
    assert desk.events[-1].facts == {"idle_ms": DAYS_7_MS, "state": "Empty"}
    assert desk.init() == (0, 1_002, 0)


@pytest.mark.parametrize("state", ["Ongoing", "PrepareCommit", "CompleteCommit"])
def test_only_what_is_not_open_expires(state: str) -> None:
    desk = Desk(transaction_max_timeout_ms=2**31 - 2)
    desk.init(timeout_ms=2**31 - 2)
    desk.add(P)
    if state != "Ongoing":
        desk.end(P)
    if state == "CompleteCommit":
        desk.written()
    desk.advance(DAYS_7_MS + HOUR_MS)
    assert desk.core.transactional_id_count == (state != "CompleteCommit")


def test_each_change_begins_the_time_anew() -> None:
    desk = Desk()
    desk.init()
    desk.advance(DAYS_7_MS - HOUR_MS)
    desk.init()
    desk.advance(2 * HOUR_MS)
    assert desk.core.transactional_id_count == 1


def test_the_time_goes_on_over_a_restart() -> None:
    desk = Desk()
    desk.init()
    desk.advance(DAYS_7_MS - HOUR_MS)
    desk.restart()
    desk.advance(2 * HOUR_MS)
    assert desk.core.transactional_id_count == 0


def test_a_wall_clock_that_was_set_removes_nothing_before_it_is_confirmed() -> None:
    desk = Desk()
    desk.init()
    desk.now = Now(desk.now.mono_ms, desk.now.wall_ms + 2 * DAYS_7_MS)
    desk.advance(HOUR_MS)
    assert desk.core.transactional_id_count == 1
    desk.advance(HOUR_MS)
    assert desk.core.transactional_id_count == 0


def test_very_many_are_removed_a_slice_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "SLICE", 5)
    monkeypatch.setattr(expiry, "MOST_REMOVED", 3)
    desk = Desk()
    for number in range(20):
        desk.init(f"x{number}")
    desk.advance(DAYS_7_MS - 1_000)
    for number in range(0, 20, 4):
        desk.init(f"x{number}")
    records = len(desk.records)
    desk.advance(1_000)
    steps = []
    while desk.core.transactional_id_count > 5:
        due = desk.core.next_deadline_ms()
        assert due is not None
        desk.advance(max(due - desk.now.mono_ms, 0))
        steps.append(len(desk.records) - records)
        records = len(desk.records)
    assert sum(steps) == 15
    assert max(steps) == 3
