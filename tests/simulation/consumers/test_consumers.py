"""Histories of groups of both protocols, and what the report of a failure contains."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.__main__ import main
from tests.simulation.consumers.mutants import MUTANTS
from tests.simulation.consumers.run import CONSUMERS

SEEDS, EVENTS = 12, 400
FOUND_WITHIN = range(40)


def test_histories_of_consumers_keep_each_rule_and_reach_each_event() -> None:
    played = CONSUMERS.chunk(EVENTS, 0, SEEDS)
    assert not played.failures, played.failures[0]
    counts: Counter[str] = played.counts
    for what in (
        *("crash", "lost", "repeated", "grown", "ConsumerGroupHeartbeatRequest 0", "ConsumerGroupHeartbeatRequest 25"),
        *("HeartbeatRequest 27", "SyncGroupRequest 0", "JoinGroupRequest 0", "OffsetCommitRequest 0", "upgraded"),
        "downgraded",
    ):
        assert counts[what] > 1, what


def test_a_seed_always_gives_the_same_history_of_consumers() -> None:
    one, other = (CONSUMERS.simulate(3, 300) for _ in range(2))
    assert one.described(last=2_000) == other.described(last=2_000)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_of_consumer_groups_is_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_core, words = MUTANTS[name]
    break_core(monkeypatch)
    failure = CONSUMERS.first_failure(FOUND_WITHIN, words, EVENTS)
    assert failure is not None
    assert f"--start {failure.seed} --events {EVENTS}" in failure.text


def test_simulate_plays_histories_of_consumers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--consumers", "--seeds", "2", "--events", "200", "--processes", "1"]) == 0
    assert "2 histories" in capsys.readouterr().out
