"""Histories of the transaction core, and what the report of a failure contains."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.__main__ import main
from tests.simulation.transactions.mutants import MUTANTS
from tests.simulation.transactions.run import TRANSACTIONS

SEEDS, EVENTS = 40, 400
FOUND_WITHIN = range(60)


def test_histories_of_transactions_keep_each_rule_and_reach_each_event() -> None:
    played = TRANSACTIONS.chunk(EVENTS, 0, SEEDS)
    assert not played.failures, played.failures[0]
    counts: Counter[str] = played.counts
    assert counts["acknowledged"] > SEEDS
    for what in (
        *("crash", "failed append", "failed sync", "markers lost", "timed out", "taken over", "expired"),
        *("another producer id", "state 2", "state 3", "state 4", "state 5"),
    ):
        assert counts[what] > 1, what


def test_a_seed_always_gives_the_same_history_of_transactions() -> None:
    one, other = (TRANSACTIONS.simulate(3, 300) for _ in range(2))
    assert one.described(last=2_000) == other.described(last=2_000)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_of_transactions_is_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_core, words = MUTANTS[name]
    break_core(monkeypatch)
    failure = TRANSACTIONS.first_failure(FOUND_WITHIN, words, EVENTS)
    assert failure is not None
    assert f"--start {failure.seed} --events {EVENTS}" in failure.text


def test_simulate_plays_histories_of_transactions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--transactions", "--seeds", "2", "--events", "200", "--processes", "1"]) == 0
    assert "2 histories" in capsys.readouterr().out
