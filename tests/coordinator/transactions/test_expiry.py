"""Ids that nobody has used for long are removed."""

from __future__ import annotations

import pytest

from muster.coordinator.state_machine.interface import Now
from muster.coordinator.transactions import events, timeouts
from tests.coordinator.transactions.harness import Bench

DAYS_7_MS = 604_800_000
HOUR_MS = 3_600_000
P = (1_001, 0)


def test_an_unused_id_is_removed_with_a_tombstone() -> None:
    bench = Bench()
    bench.init()
    bench.advance(DAYS_7_MS - 1)
    assert bench.core.transactional_id_count == 1
    bench.advance(HOUR_MS)
    assert bench.core.transactional_id_count == 0
    assert (bench.records[-1].key.transactional_id, bench.records[-1].value) == ("x", None)  # type: ignore[attr-defined]
    assert bench.events[-1].kind == events.EXPIRED
    assert bench.events[-1].facts == {"idle_ms": DAYS_7_MS, "state": "Empty"}
    assert bench.init() == (0, 1_002, 0)


@pytest.mark.parametrize("state", ["Ongoing", "PrepareCommit", "CompleteCommit"])
def test_only_what_is_not_open_expires(state: str) -> None:
    bench = Bench(transaction_max_timeout_ms=2**31 - 2)
    bench.init(timeout_ms=2**31 - 2)
    bench.add(P)
    if state != "Ongoing":
        bench.end(P)
    if state == "CompleteCommit":
        bench.written()
    bench.advance(DAYS_7_MS + HOUR_MS)
    assert bench.core.transactional_id_count == (state != "CompleteCommit")


def test_each_change_begins_the_time_anew() -> None:
    bench = Bench()
    bench.init()
    bench.advance(DAYS_7_MS - HOUR_MS)
    bench.init()
    bench.advance(2 * HOUR_MS)
    assert bench.core.transactional_id_count == 1


def test_the_time_goes_on_over_a_restart() -> None:
    bench = Bench()
    bench.init()
    bench.advance(DAYS_7_MS - HOUR_MS)
    bench.restart()
    bench.advance(2 * HOUR_MS)
    assert bench.core.transactional_id_count == 0


def test_a_wall_clock_that_was_set_removes_nothing_before_it_is_confirmed() -> None:
    bench = Bench()
    bench.init()
    bench.now = Now(bench.now.mono_ms, bench.now.wall_ms + 2 * DAYS_7_MS)
    bench.advance(HOUR_MS)
    assert bench.core.transactional_id_count == 1
    bench.advance(HOUR_MS)
    assert bench.core.transactional_id_count == 0


def test_very_many_are_removed_a_slice_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "EXPIRY_SLICE", 5)
    monkeypatch.setattr(timeouts, "MAX_REMOVED", 3)
    bench = Bench()
    for number in range(20):
        bench.init(f"x{number}")
    bench.advance(DAYS_7_MS - 1_000)
    for number in range(0, 20, 4):
        bench.init(f"x{number}")
    records = len(bench.records)
    bench.advance(1_000)
    steps = []
    while bench.core.transactional_id_count > 5:
        due = bench.core.next_deadline_ms()
        assert due is not None
        bench.advance(max(due - bench.now.mono_ms, 0))
        steps.append(len(bench.records) - records)
        records = len(bench.records)
    assert sum(steps) == 15
    assert max(steps) == 3
