"""Which generations count as reproduced."""

from __future__ import annotations

from muster.pipeline.whatif.compare import NEAR_MS, count_same, judge
from muster.pipeline.whatif.history import EVENTS, LOG, Generation, History, Owned
from muster.pipeline.whatif.replay import Made


def real(number: int, ms: int, **shares: Owned) -> Generation:
    return Generation(number, ms, "range", None, shares, ms)


ONE = real(1, 1_000, a={"t": [0, 1]})
TWO = real(2, 2_000, a={"t": [0]}, b={"t": [1], "u": []})


def test_the_same_members_and_assignment_in_whatever_order_at_about_the_time() -> None:
    made = [Made(7, 1_500, {"a": {"t": [1, 0]}}), Made(8, 2_500, {"b": {"t": [1]}, "a": {"t": [0]}})]
    assert count_same([ONE, TWO], made) == 2


def test_other_shares_other_members_and_another_time_are_not_the_same() -> None:
    assert count_same([TWO], [Made(2, 2_000, {"a": {"t": [1]}, "b": {"t": [0]}})]) == 0
    assert count_same([TWO], [Made(2, 2_000, {"a": {"t": [1]}, "b": {"t": [0]}})], assignments=False) == 1
    assert count_same([ONE], [Made(1, 1_000, {"c": {"t": [0, 1]}})]) == 0
    assert count_same([ONE], [Made(1, 1_001 + NEAR_MS, dict(ONE.shares))]) == 0


def test_one_of_the_replay_counts_once_and_in_order() -> None:
    again = real(3, 3_000, **ONE.shares)
    assert count_same([ONE, TWO, again], [Made(1, 2_000, ONE.shares), Made(2, 2_500, TWO.shares)]) == 2
    assert count_same([TWO, ONE], [Made(1, 1_000, ONE.shares), Made(2, 2_000, TWO.shares)]) == 1


def test_what_the_replay_makes_besides_lowers_the_share() -> None:
    history = History("g", LOG, generations=[ONE, TWO], last_ms=5_000)
    made = [Made(1, 1_000, ONE.shares), Made(2, 1_500, {}), Made(3, 2_000, TWO.shares), Made(4, 9_000, {})]
    found = judge(history, made)
    # the last one is after the end of the log
    assert (found.generations, found.reproduced, found.withheld) == (3, 2, True)


def test_a_last_generation_that_the_replay_makes_a_little_later_is_made_again() -> None:
    history = History("g", LOG, generations=[ONE, TWO], last_ms=2_000)
    found = judge(history, [Made(1, 1_000, ONE.shares), Made(2, 3_200, TWO.shares), Made(3, 9_000, {})])
    assert (found.generations, found.reproduced, found.withheld) == (2, 2, False)


def test_how_much_is_enough_depends_on_the_source() -> None:
    generations = [real(number, number * 100_000, **ONE.shares) for number in range(20)]
    made = [Made(one.number, one.start_ms, one.shares) for one in generations[1:]]
    by_source = [judge(History("g", source, generations=generations, last_ms=2**50), made) for source in (EVENTS, LOG)]
    assert [(one.share, one.withheld) for one in by_source] == [(0.95, True), (0.95, False)]
