"""Transactions that are open for too long are aborted, at the times at which Kafka checks."""

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
from tests.coordinator.transactions.harness import START, TransactionHarness

P = (1_001, 0)
EVERY_MS = 10_000


def opened(timeout_ms: int = 1_000, **settings: int) -> TransactionHarness:
    harness = TransactionHarness(**settings)
    harness.init(timeout_ms=timeout_ms)
    harness.add(P)
    return harness


def test_the_next_check_after_its_timeout_aborts_a_transaction() -> None:
    harness = opened()
    harness.advance(EVERY_MS - 1)
    assert harness.one().state == "Ongoing"
    harness.advance(1)
    assert (harness.one().state, harness.one().producer_epoch) == ("PrepareAbort", 1)
    assert (harness.markers["x"].producer_epoch, harness.markers["x"].transaction_result) == (1, False)
    ending = harness.events[-1]
    assert (ending.kind, ending.facts["cause"], ending.facts["open_ms"]) == (events.ENDING, events.TIMED_OUT, EVERY_MS)
    assert (ending.facts["client_id"], ending.facts["is_committed"]) == ("", False)
    harness.written()
    assert harness.add(P) == ErrorCode.PRODUCER_FENCED
    assert harness.events[-1].kind == events.FENCED


@pytest.mark.parametrize(("timeout_ms", "checks"), [(9_999, 1), (10_000, 2), (10_001, 2), (20_000, 3)])
def test_a_transaction_exactly_at_its_timeout_is_not_aborted(timeout_ms: int, checks: int) -> None:
    harness = opened(timeout_ms)
    harness.advance(checks * EVERY_MS - 1)
    assert harness.one().state == "Ongoing"
    harness.advance(1)
    assert harness.one().state == "PrepareAbort"


def test_timeout_checks_keep_their_schedule() -> None:
    harness = TransactionHarness()
    harness.init(timeout_ms=1_000)
    harness.advance(EVERY_MS * 5 + 8_000)
    harness.add(P)
    harness.advance(2_000)
    assert harness.one().state == "PrepareAbort"


def test_the_expiration_setting_does_not_change_timeouts() -> None:
    harness = TransactionHarness(first_check_ms=3_600_000)
    harness.init(timeout_ms=1_000)
    harness.add(P)
    harness.advance(EVERY_MS)
    assert harness.one().state == "PrepareAbort"


def test_there_are_no_timeout_checks_without_open_transactions() -> None:
    harness = TransactionHarness()
    only_expiry_ms = START.mono_ms + harness.settings.transaction_remove_expired_transaction_cleanup_interval_ms
    assert harness.core.next_deadline_ms() == only_expiry_ms
    harness.init(timeout_ms=1_000)
    assert harness.core.next_deadline_ms() == only_expiry_ms
    harness.add(P)
    assert harness.core.next_deadline_ms() == START.mono_ms + EVERY_MS
    harness.end(P)
    harness.advance(EVERY_MS)
    assert harness.core.next_deadline_ms() == only_expiry_ms
    assert harness.one().state == "PrepareCommit"


def test_a_loaded_open_transaction_times_out_by_its_start_time() -> None:
    harness = opened(60_000)
    harness.restart()
    harness.advance(60_000)
    assert harness.one().state == "Ongoing"
    harness.advance(EVERY_MS)
    assert harness.one().state == "PrepareAbort"


def test_a_two_phase_commit_transaction_never_times_out() -> None:
    value = TransactionLogValue(
        1, 1, -1, 0, -1, NEVER_TIMES_OUT_MS, 1, [PartitionsSchema("t", [0])], START.wall_ms, START.wall_ms - 2**40
    )
    harness = TransactionHarness([(TransactionLogKey("x"), value)])
    harness.advance(10 * EVERY_MS)
    assert harness.one().state == "Ongoing"


def test_a_timeout_at_the_last_epoch_needs_a_spare_producer_id() -> None:
    harness = opened()
    harness.one().producer_epoch = 32_766
    real, harness.next_producer_id = harness.next_producer_id, lambda: -1
    harness.core.state.timeouts.next_producer_id = lambda: -1
    harness.advance(EVERY_MS)
    assert harness.one().state == "Ongoing"
    harness.core.state.timeouts.next_producer_id = real
    harness.advance(EVERY_MS)
    harness.written()
    assert (harness.one().producer_id, harness.one().producer_epoch) == (1_002, 0)


def test_very_many_timed_out_transactions_are_aborted_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "SLICE", 5)
    monkeypatch.setattr(timeouts, "MAX_ABORTS", 3)
    harness = TransactionHarness()
    for number in range(12):
        harness.init(f"x{number}", timeout_ms=1_000 if number % 4 else 900_000)
        harness.add((1_001 + number, 0), transactional_id=f"x{number}")
    harness.advance(EVERY_MS)
    states = [harness.one(f"x{number}").state for number in range(12)]
    assert states.count("PrepareAbort") == 3
    harness.end((1_012, 0), transactional_id="x11")
    harness.advance(3 * timeouts.SLICE_AFTER_MS)
    states = [harness.one(f"x{number}").state for number in range(12)]
    assert (states.count("PrepareAbort"), states.count("PrepareCommit"), states.count("Ongoing")) == (8, 1, 3)
    assert harness.core.next_deadline_ms() == START.mono_ms + 2 * EVERY_MS
