"""Is a difference more than chance?"""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.pipeline.episodes.comparison import HOUR_MS, Episode, Span, chance, happenings, span


def of(happened: int, hours: float) -> Span:
    return Span(round(hours * HOUR_MS), happened, happened, 0, ())


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
def test_the_exact_test(before: tuple[int, float], after: tuple[int, float], likely: float) -> None:
    assert chance(of(*before), of(*after)) == pytest.approx(likely, abs=1e-6)


def test_without_time_on_one_side_nothing_is_told() -> None:
    assert chance(of(3, 1), of(0, 0)) is None


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 50), st.integers(1, 50))
def test_it_is_a_probability_and_the_sides_do_not_matter(one: int, other: int, hours: int, more: int) -> None:
    found = chance(of(one, hours), of(other, more))
    assert found is not None
    assert 0 <= found <= 1
    assert chance(of(other, more), of(one, hours)) == pytest.approx(found, rel=1e-6)


def test_sums_without_the_formation_and_a_loop_by_its_turns() -> None:
    episodes = [
        Episode("first_formation", 2, 9), Episode("rolling_restart", 8, 40), Episode("rolling_restart", 8, 2),
        Episode("crash_loop", 211, 100),
    ]  # fmt: skip
    assert [happenings(one) for one in episodes[1:]] == [1, 1, 106]
    assert span(5, episodes) == Span(5, 227, 108, 142, ("2 rolling_restart", "1 crash_loop"))


def test_a_static_restart_without_a_rebalance_happens_once() -> None:
    assert happenings(Episode("crash_loop", 0, 0)) == happenings(Episode("restart", 0, 0)) == 1
