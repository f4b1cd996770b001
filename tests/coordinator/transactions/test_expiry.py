"""Ids that are unused for long are removed."""

from __future__ import annotations

import pytest

from muster.coordinator.state_machine.interface import Now
from muster.coordinator.transactions import events, timeouts
from tests.coordinator.transactions.harness import TransactionHarness

DAYS_7_MS = 604_800_000
HOUR_MS = 3_600_000
P = (1_001, 0)


def test_an_unused_id_is_removed_with_a_tombstone() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.advance(DAYS_7_MS - 1)
    assert harness.core.transactional_id_count == 1
    harness.advance(HOUR_MS)
    assert harness.core.transactional_id_count == 0
    assert (harness.records[-1].key.transactional_id, harness.records[-1].value) == ("x", None)
    assert harness.events[-1].kind == events.EXPIRED
    assert harness.events[-1].facts == {"idle_ms": DAYS_7_MS, "state": "Empty"}
    assert harness.init() == (0, 1_002, 0)


@pytest.mark.parametrize("state", ["Ongoing", "PrepareCommit", "CompleteCommit"])
def test_an_id_with_an_open_transaction_does_not_expire(state: str) -> None:
    harness = TransactionHarness(transaction_max_timeout_ms=2**31 - 2)
    harness.init(timeout_ms=2**31 - 2)
    harness.add(P)
    if state != "Ongoing":
        harness.end(P)
    if state == "CompleteCommit":
        harness.written()
    harness.advance(DAYS_7_MS + HOUR_MS)
    assert harness.core.transactional_id_count == (state != "CompleteCommit")


def test_each_change_restarts_the_expiration_time() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.advance(DAYS_7_MS - HOUR_MS)
    harness.init()
    harness.advance(2 * HOUR_MS)
    assert harness.core.transactional_id_count == 1


def test_the_expiration_time_continues_over_a_restart() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.advance(DAYS_7_MS - HOUR_MS)
    harness.restart()
    harness.advance(2 * HOUR_MS)
    assert harness.core.transactional_id_count == 0


def test_a_wall_clock_that_jumps_removes_no_id_before_it_is_confirmed() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.now = Now(harness.now.mono_ms, harness.now.wall_ms + 2 * DAYS_7_MS)
    harness.advance(HOUR_MS)
    assert harness.core.transactional_id_count == 1
    harness.advance(HOUR_MS)
    assert harness.core.transactional_id_count == 0


def test_very_many_expired_ids_are_removed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "EXPIRY_SLICE", 5)
    monkeypatch.setattr(timeouts, "MAX_REMOVED", 3)
    harness = TransactionHarness()
    for number in range(20):
        harness.init(f"x{number}")
    harness.advance(DAYS_7_MS - 1_000)
    for number in range(0, 20, 4):
        harness.init(f"x{number}")
    records = len(harness.records)
    harness.advance(1_000)
    steps = []
    while harness.core.transactional_id_count > 5:
        due = harness.core.next_deadline_ms()
        assert due is not None
        harness.advance(max(due - harness.now.mono_ms, 0))
        steps.append(len(harness.records) - records)
        records = len(harness.records)
    assert sum(steps) == 15
    assert max(steps) == 3
