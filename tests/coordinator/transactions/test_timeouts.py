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
from tests.coordinator.transactions.harness import START, Bench

P = (1_001, 0)
EVERY_MS = 10_000


def opened(timeout_ms: int = 1_000, **settings: int) -> Bench:
    bench = Bench(**settings)
    bench.init(timeout_ms=timeout_ms)
    bench.add(P)
    return bench


def test_the_next_check_after_its_timeout_aborts_it() -> None:
    bench = opened()
    bench.advance(EVERY_MS - 1)
    assert bench.one().state == "Ongoing"
    bench.advance(1)
    assert (bench.one().state, bench.one().producer_epoch) == ("PrepareAbort", 1)
    assert (bench.markers["x"].producer_epoch, bench.markers["x"].transaction_result) == (1, False)
    ending = bench.events[-1]
    assert (ending.kind, ending.facts["cause"], ending.facts["open_ms"]) == (events.ENDING, events.TIMED_OUT, EVERY_MS)
    assert (ending.facts["client_id"], ending.facts["is_committed"]) == ("", False)
    bench.written()
    assert bench.add(P) == ErrorCode.PRODUCER_FENCED
    assert bench.events[-1].kind == events.FENCED


@pytest.mark.parametrize(("timeout_ms", "checks"), [(9_999, 1), (10_000, 2), (10_001, 2), (20_000, 3)])
def test_it_must_be_over_and_not_only_reached(timeout_ms: int, checks: int) -> None:
    bench = opened(timeout_ms)
    bench.advance(checks * EVERY_MS - 1)
    assert bench.one().state == "Ongoing"
    bench.advance(1)
    assert bench.one().state == "PrepareAbort"


def test_checks_keep_their_times_whenever_a_transaction_begins() -> None:
    bench = Bench()
    bench.init(timeout_ms=1_000)
    bench.advance(EVERY_MS * 5 + 8_000)
    bench.add(P)
    bench.advance(2_000)
    assert bench.one().state == "PrepareAbort"


def test_when_ids_expire_says_nothing_of_timeouts() -> None:
    bench = Bench(first_check_ms=3_600_000)
    bench.init(timeout_ms=1_000)
    bench.add(P)
    bench.advance(EVERY_MS)
    assert bench.one().state == "PrepareAbort"


def test_while_nothing_is_open_nothing_is_looked_for() -> None:
    bench = Bench()
    only_expiry_ms = START.mono_ms + bench.settings.transaction_remove_expired_transaction_cleanup_interval_ms
    assert bench.core.next_deadline_ms() == only_expiry_ms
    bench.init(timeout_ms=1_000)
    assert bench.core.next_deadline_ms() == only_expiry_ms
    bench.add(P)
    assert bench.core.next_deadline_ms() == START.mono_ms + EVERY_MS
    bench.end(P)
    bench.advance(EVERY_MS)
    assert bench.core.next_deadline_ms() == only_expiry_ms
    assert bench.one().state == "PrepareCommit"


def test_what_was_open_in_the_log_times_out_by_its_begin() -> None:
    bench = opened(60_000)
    bench.restart()
    bench.advance(60_000)
    assert bench.one().state == "Ongoing"
    bench.advance(EVERY_MS)
    assert bench.one().state == "PrepareAbort"


def test_one_of_a_two_phase_commit_never_times_out() -> None:
    value = TransactionLogValue(
        1, 1, -1, 0, -1, NEVER_TIMES_OUT_MS, 1, [PartitionsSchema("t", [0])], START.wall_ms, START.wall_ms - 2**40
    )
    bench = Bench([(TransactionLogKey("x"), value)])
    bench.advance(10 * EVERY_MS)
    assert bench.one().state == "Ongoing"


def test_a_producer_at_its_last_epoch_needs_a_producer_id() -> None:
    bench = opened()
    bench.one().producer_epoch = 32_766
    real, bench.next_producer_id = bench.next_producer_id, lambda: -1  # type: ignore[method-assign]
    bench.core.state.timeouts.next_producer_id = lambda: -1
    bench.advance(EVERY_MS)
    assert bench.one().state == "Ongoing"
    bench.core.state.timeouts.next_producer_id = real
    bench.advance(EVERY_MS)
    bench.written()
    assert (bench.one().producer_id, bench.one().producer_epoch) == (1_002, 0)


def test_very_many_are_aborted_a_slice_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "SLICE", 5)
    monkeypatch.setattr(timeouts, "MAX_ABORTS", 3)
    bench = Bench()
    for number in range(12):
        bench.init(f"x{number}", timeout_ms=1_000 if number % 4 else 900_000)
        bench.add((1_001 + number, 0), transactional_id=f"x{number}")
    bench.advance(EVERY_MS)
    states = [bench.one(f"x{number}").state for number in range(12)]
    assert states.count("PrepareAbort") == 3
    bench.end((1_012, 0), transactional_id="x11")
    bench.advance(3 * timeouts.SLICE_AFTER_MS)
    states = [bench.one(f"x{number}").state for number in range(12)]
    assert (states.count("PrepareAbort"), states.count("PrepareCommit"), states.count("Ongoing")) == (8, 1, 3)
    assert bench.core.next_deadline_ms() == START.mono_ms + 2 * EVERY_MS
