"""Tests whether a difference is more than chance."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.pipeline.episodes.comparison import (
    CHANCE,
    HOUR_MS,
    LIKELY,
    ONE_SIDE,
    TOO_FEW,
    Episode,
    Span,
    chance,
    departures,
    happenings,
    judgement,
    span,
)


def of(happened: int, hours: float) -> Span:
    return Span(round(hours * HOUR_MS), happened, happened, happened, 0, 0, ())


@pytest.mark.parametrize(
    ("before", "after", "likely"),
    [
        ((10, 1), (10, 1), 1.0),
        ((14, 12), (4, 12), 0.03088379),
        ((3, 1), (0, 1), 0.25),
        ((0, 1), (0, 1), 1.0),
        (
            (5, 3),
            (0, 1),
            float(
                Fraction(3, 4) ** 5
                + Fraction(1, 4) ** 5
                + 5 * Fraction(3, 4) * Fraction(1, 4) ** 4
                + 10 * Fraction(3, 4) ** 2 * Fraction(1, 4) ** 3
            ),
        ),
    ],
)
def test_the_exact_test_gives_known_probabilities(
    before: tuple[int, float], after: tuple[int, float], likely: float
) -> None:
    assert chance(of(*before), of(*after)) == pytest.approx(likely, abs=1e-6)


def test_a_comparison_without_time_on_one_side_is_not_judged() -> None:
    assert chance(of(3, 1), of(0, 0)) is None


@pytest.mark.parametrize("share", [0.5, 0.9, 0.01])
@pytest.mark.parametrize("count", [5, 17, 60])
def test_a_comparison_without_a_change_is_seldom_significant(count: int, share: float) -> None:
    """All outcomes by their probability: the significant ones occur at most as often as the level says."""
    wrong = sum(
        comb(count, one) * share**one * (1 - share) ** (count - one)
        for one in range(count + 1)
        if (chance(of(one, 100 * share), of(count - one, 100 * (1 - share))) or 0) < LIKELY
    )
    assert wrong <= LIKELY


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 50), st.integers(1, 50))
def test_the_chance_is_a_probability_and_symmetric(one: int, other: int, hours: int, more: int) -> None:
    found = chance(of(one, hours), of(other, more))
    assert found is not None
    assert 0 <= found <= 1
    assert chance(of(other, more), of(one, hours)) == pytest.approx(found, rel=1e-6)


def test_sums_omit_the_formation_and_count_a_long_loop_by_its_turns() -> None:
    episodes = [
        Episode("first_formation", 2, 9, 1), Episode("rolling_restart", 8, 40, 4), Episode("rolling_restart", 8, 2, 4),
        Episode("crash_loop", 211, 100, 3),
    ]  # fmt: skip
    assert [departures(one) for one in episodes[1:]] == [1, 1, 106]
    assert span(5, episodes) == Span(5, 227, 3, 108, 3, 142, ("2 rolling_restart", "1 crash_loop"))


@pytest.mark.parametrize(
    ("lasted", "again", "expected"),
    [
        (49, 0, (1, 0)),  # one bad build: its departures are no rate
        (50, 0, (20, 0)),
        (50, 10, (20, 15)),  # both sides are counted in the same way, although the second one was shorter
        (10, 90, (1, 1)),  # the side with more departures decides
    ],
)
def test_a_short_loop_counts_as_one_happening(lasted: int, again: int, expected: tuple[int, int]) -> None:
    before = span(100, [Episode("crash_loop", 40, 100, lasted)])
    after = span(100, [Episode("crash_loop", 30, 100, again)] if again else [])
    assert happenings(before, after) == expected


def test_a_static_restart_without_a_rebalance_happens_once() -> None:
    assert departures(Episode("crash_loop", 0, 0, 9)) == departures(Episode("restart", 0, 0, 9)) == 1


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((2, 1), (0, 100), TOO_FEW),  # however unlikely it is
        ((4, 1), (0, 100), TOO_FEW),
        ((5, 1), (0, 100), CHANCE),
        ((0, 12), (9, 0), ONE_SIDE),
        ((0, 0), (9, 12), ONE_SIDE),
    ],
)
def test_few_happenings_are_not_judged(before: tuple[int, float], after: tuple[int, float], expected: str) -> None:
    assert judgement(of(*before), of(*after)) == expected
