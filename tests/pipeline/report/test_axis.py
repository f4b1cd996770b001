"""Round numbers and times beside the pictures."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.pipeline.report.columns import TICKS, Times, counts, numbers, short
from muster.pipeline.wording import DAY, HOUR, MINUTE
from tests.pipeline.report.made import START_MS

DIGIT_PX = 6.8
"""The width of a digit in page.css's 12 px."""
NARROWEST = {TICKS: 464, 4: 262}
"""The width in pixels of the narrowest picture, by its number of ticks: a group's at 760 px, a curve."""


@given(st.floats(1e-6, 1e18))
def test_axis_numbers_cover_the_maximum_in_few_steps(most: float) -> None:
    found = numbers(most)
    assert found[0] == 0
    assert 2 <= len(found) <= 6
    assert found[-1] >= most * (1 - 1e-9)
    assert found[-2] < most
    steps = [after - before for before, after in pairwise(found)]
    assert steps == pytest.approx([steps[0]] * len(steps), rel=1e-6)


def test_counts_are_whole() -> None:
    assert [counts(most) for most in (0, 1, 3, 5, 47, 900)] == [
        [0, 1], [0, 1], [0, 1, 2, 3], [0, 2, 4, 6], [0, 20, 40, 60], [0, 500, 1_000],
    ]  # fmt: skip


@given(st.integers(0, 10 * 366 * DAY), st.integers(1, 3 * 366 * DAY), st.sampled_from([TICKS, 4]))
def test_ticks_do_not_touch_each_other(shift_ms: int, span_ms: int, most: int) -> None:
    times = Times(START_MS - shift_ms, START_MS - shift_ms + span_ms)
    ticks = times.ticks(most)
    assert 1 <= len(ticks) <= most + 1
    scale = NARROWEST[most] / 100
    for (left, one), (right, other) in pairwise(ticks):
        # a text at the edge begins or ends there
        room = len(one) * DIGIT_PX * (1 if left < 4 else 0.5) + len(other) * DIGIT_PX * (1 if right > 96 else 0.5)
        assert (right - left) * scale >= room


def test_axis_ticks_have_readable_times() -> None:
    day = START_MS // DAY * DAY
    assert [text for _, text in Times(day, day + DAY).ticks()][:3] == ["06-15", "03:00", "06:00"]
    # 01:00:00 would be beside its place, and touch this one
    assert next(text for _, text in Times(day + HOUR, day + HOUR + 3 * MINUTE).ticks()) == "01:00:30"
    assert Times(5, 5).percent(5) == 0


def test_numbers_are_shortened() -> None:
    assert [short(value) for value in (0, 0.25, 7, 999.7, 1_500, 2e6, 3.2e9, 1e18)] == [
        "0", "0.25", "7", "1 k", "1.5 k", "2 M", "3.2 bn", "1,000,000 tn",
    ]  # fmt: skip
