"""The picture of a group: letters that do not hide each other."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.pipeline.report.columns import Times
from muster.pipeline.report.timeline import LANES, NARROW, WIDE, marks, picture, share_of
from tests.pipeline.report.made import END_MS, START_MS, rebalance, share, story

LETTER_PX, PADDING_PX = 7.5, 4
"""The widest letter or digit in page.css's 11 px, bold; and both sides of a mark."""
ROOM_PX = {WIDE: 850, NARROW: 300}
"""The widths of the narrowest pictures that show these marks."""


@pytest.mark.parametrize("room", [WIDE, NARROW])
@given(
    st.lists(
        st.tuples(st.floats(0, 24), st.sampled_from(["member_joined", "member_left", "session_expired", None])),
        max_size=150,
    )
)
def test_marks_do_not_touch_each_other_and_leave_nothing_out(
    room: float, happened: list[tuple[float, str | None]]
) -> None:
    rows = [rebalance(number, at, cause) for number, (at, cause) in enumerate(happened)]
    found = marks(rows, Times(START_MS, END_MS), room)
    assert sorted(row["generation"] for one in found for row in one.rows) == list(range(len(rows)))
    scale = ROOM_PX[room] / 100
    spans = [
        (one.at * scale - width / 2, one.at * scale + width / 2)
        for one in reversed(found)
        for width in [max(15, len(one.text) * LETTER_PX + PADDING_PX)]
    ]
    assert all(left[1] <= right[0] for left, right in pairwise(spans))


def test_timeline_marks_have_readable_labels() -> None:
    rows = [rebalance(1, 2, "member_left"), rebalance(2, 2.1, "member_left"), rebalance(3, 9, "member_left"),
            rebalance(4, 20, "member_joined"), rebalance(5, 20, "session_expired")]  # fmt: skip
    assert [one.text for one in marks(rows, Times(START_MS, END_MS), WIDE)] == ["2", "L", "L2"]
    many = [rebalance(number, 5, "member_left") for number in range(150)]
    assert [one.text for one in marks(many, Times(START_MS, END_MS), WIDE)] == ["99+"]


def test_the_last_of_many_processes_are_drawn() -> None:
    shares = [share_of(share(at, at / 10, (at + 1) / 10, f"c-{at}", [at]), END_MS) for at in range(LANES + 5)]
    drawn = picture(story(), shares, START_MS, END_MS)
    assert drawn.count('class="who"') == LANES
    assert "c-4 (10.0.0.1)" not in drawn
    assert "5 more processes are not drawn: those that ended first." in drawn
    at_once = [share_of(share(1, 0, None, f"c-{at}", [at]), END_MS) for at in range(LANES + 1)]
    drawn = picture(story(), at_once, START_MS, END_MS)
    assert f"1 more process is not drawn: there is room for {LANES}." in drawn
    assert f"c-{LANES} (10.0.0.1)" not in drawn
