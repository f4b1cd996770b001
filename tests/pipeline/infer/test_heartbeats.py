from __future__ import annotations

import pytest

from muster.pipeline.infer.heartbeats import INTERVALS_MS, HeartbeatHabits

SESSION_MS = 45_000


def test_the_default_heartbeat_interval_is_that_of_clients() -> None:
    nothing = HeartbeatHabits()
    assert 2_000 < nothing.likely_ms(SESSION_MS) < 3_500
    # few users set it to more than half of a short session
    assert nothing.at_most_ms(6_000) < 3_500
    assert nothing.at_most_ms(SESSION_MS) >= 5_000
    assert sum(nothing.probabilities(SESSION_MS)) == pytest.approx(1)


@pytest.mark.parametrize("interval_ms", [500, 1_000, 2_000, 3_000, 5_000, 10_000])
def test_the_heartbeat_interval_is_learned_from_join_phases(interval_ms: int) -> None:
    """Members count from the last assignment; each interval is a little longer than configured."""
    found = HeartbeatHabits()
    for times in (1, 2, 1, 3, 2, 1, 2, 1):
        gap_ms = round(times * interval_ms * 1.01) + 10
        found = found.with_gap(gap_ms + 15, gap_ms, 5)
    chances = found.probabilities(SESSION_MS)
    assert INTERVALS_MS[chances.index(max(chances))] == interval_ms
    assert interval_ms <= found.at_most_ms(SESSION_MS)


def test_the_heartbeat_interval_is_learned_from_observed_starts() -> None:
    found = HeartbeatHabits()
    for delay_ms in (300, 950, 700, 100, 850, 420, 640, 990):
        found = found.with_delay(delay_ms)
    assert 800 <= found.likely_ms(SESSION_MS) <= 1_400
    assert 990 <= found.at_most_ms(SESSION_MS) < 2_500
    # a much longer return makes shorter intervals impossible, and what was learned before loses weight
    for _ in range(3):
        found = found.with_delay(4_800)
    assert found.at_most_ms(SESSION_MS) >= 4_950


def test_few_rebalances_do_not_prove_that_heartbeats_are_frequent() -> None:
    assert HeartbeatHabits().with_delay(100).with_delay(90).at_most_ms(SESSION_MS) >= 2_000


def test_a_gap_after_many_heartbeats_shows_nothing() -> None:
    after = HeartbeatHabits().with_gap(600_000, 600_000, 5)
    assert after.probabilities(SESSION_MS) == pytest.approx(HeartbeatHabits().probabilities(SESSION_MS))


def test_the_way_in_which_members_leave_is_learned() -> None:
    assert HeartbeatHabits().parts  # all clients do, unless they are configured otherwise
    assert not HeartbeatHabits().with_commit(False).parts
    assert HeartbeatHabits().with_commit(False).with_commit(True).parts
