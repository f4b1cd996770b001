"""Transactions that are open for too long are aborted, at the times at which Kafka looks."""

from __future__ import annotations

import pytest

from muster.coordinator.transactions import events, timeouts
from muster.coordinator.transactions.transaction import NEVER_TIMES_OUT_MS
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.transaction_records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from tests.coordinator.transactions.harness import START, Desk

P = (1_001, 0)
EVERY_MS = 10_000


def opened(timeout_ms: int = 1_000, **settings: int) -> Desk:
    desk = Desk(**settings)
    desk.init(timeout_ms=timeout_ms)
    desk.add(P)
    return desk


def test_the_next_check_after_its_timeout_aborts_it() -> None:
    desk = opened()
    desk.advance(EVERY_MS - 1)
    assert desk.one().state == "Ongoing"
    desk.advance(1)
    assert (desk.one().state, desk.one().producer_epoch) == ("PrepareAbort", 1)
    assert (desk.markers["x"].producer_epoch, desk.markers["x"].transaction_result) == (1, False)
    ending = desk.events[-1]
    assert (ending.kind, ending.facts["cause"], ending.facts["open_ms"]) == (events.ENDING, events.TIMED_OUT, EVERY_MS)
    assert (ending.facts["client_id"], ending.facts["is_committed"]) == ("", False)
    desk.written()
    assert desk.add(P) == ErrorCode.PRODUCER_FENCED
    assert desk.events[-1].kind == events.FENCED


@pytest.mark.parametrize(("timeout_ms", "checks"), [(9_999, 1), (10_000, 2), (10_001, 2), (20_000, 3)])
def test_it_must_be_over_and_not_only_reached(timeout_ms: int, checks: int) -> None:
    desk = opened(timeout_ms)
    desk.advance(checks * EVERY_MS - 1)
    assert desk.one().state == "Ongoing"
    desk.advance(1)
    assert desk.one().state == "PrepareAbort"


def test_checks_keep_their_times_whenever_a_transaction_begins() -> None:
    desk = Desk()
    desk.init(timeout_ms=1_000)
    desk.advance(EVERY_MS * 5 + 8_000)
    desk.add(P)
    desk.advance(2_000)
    assert desk.one().state == "PrepareAbort"


def test_when_ids_expire_says_nothing_of_timeouts() -> None:
    desk = Desk(first_check_ms=3_600_000)
    desk.init(timeout_ms=1_000)
    desk.add(P)
    desk.advance(EVERY_MS)
    assert desk.one().state == "PrepareAbort"


def test_while_nothing_is_open_nothing_is_looked_for() -> None:
    desk = Desk()
    only_expiry_ms = START.mono_ms + desk.settings.transaction_remove_expired_transaction_cleanup_interval_ms
    assert desk.core.next_deadline_ms() == only_expiry_ms
    desk.init(timeout_ms=1_000)
    assert desk.core.next_deadline_ms() == only_expiry_ms
    desk.add(P)
    assert desk.core.next_deadline_ms() == START.mono_ms + EVERY_MS
    desk.end(P)
    desk.advance(EVERY_MS)
    assert desk.core.next_deadline_ms() == only_expiry_ms
    assert desk.one().state == "PrepareCommit"


def test_what_was_open_in_the_log_times_out_by_its_begin() -> None:
    desk = opened(60_000)
    desk.restart()
    desk.advance(60_000)
    assert desk.one().state == "Ongoing"
    desk.advance(EVERY_MS)
    assert desk.one().state == "PrepareAbort"


def test_one_of_a_two_phase_commit_never_times_out() -> None:
    value = TransactionLogValue(
        1, 1, -1, 0, -1, NEVER_TIMES_OUT_MS, 1, [PartitionsSchema("t", [0])], START.wall_ms, START.wall_ms - 2**40
    )
    desk = Desk([(TransactionLogKey("x"), value)])
    desk.advance(10 * EVERY_MS)
    assert desk.one().state == "Ongoing"


def test_a_producer_at_its_last_epoch_needs_a_producer_id() -> None:
    desk = opened()
    desk.one().producer_epoch = 32_766
    real, desk.next_producer_id = desk.next_producer_id, lambda: -1  # type: ignore[method-assign]
    desk.core.state.timeouts.next_producer_id = lambda: -1
    desk.advance(EVERY_MS)
    assert desk.one().state == "Ongoing"
    desk.core.state.timeouts.next_producer_id = real
    desk.advance(EVERY_MS)
    desk.written()
    assert (desk.one().producer_id, desk.one().producer_epoch) == (1_002, 0)


def test_very_many_are_aborted_a_slice_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "SLICE", 5)
    monkeypatch.setattr(timeouts, "MOST_ABORTS", 3)
    desk = Desk()
    for number in range(12):
        desk.init(f"x{number}", timeout_ms=1_000 if number % 4 else 900_000)
        desk.add((1_001 + number, 0), transactional_id=f"x{number}")
    desk.advance(EVERY_MS)
    states = [desk.one(f"x{number}").state for number in range(12)]
    assert states.count("PrepareAbort") == 3
    desk.end((1_012, 0), transactional_id="x11")
    desk.advance(3 * timeouts.SLICE_AFTER_MS)
    states = [desk.one(f"x{number}").state for number in range(12)]
    assert (states.count("PrepareAbort"), states.count("PrepareCommit"), states.count("Ongoing")) == (8, 1, 3)
    assert desk.core.next_deadline_ms() == START.mono_ms + 2 * EVERY_MS
