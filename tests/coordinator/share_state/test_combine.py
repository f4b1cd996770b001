"""The combined rows of a share partition are those of a naive map from offsets to states."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.share.in_flight import Row
from muster.coordinator.share_state.combine import combined, merge
from muster.coordinator.share_state.rows import Rows


def row(first: int, size: int, state: int, deliveries: int) -> Row:
    return Row(first, first + size - 1, state, deliveries)


ROWS = st.lists(
    st.builds(row, st.integers(0, 40), st.integers(1, 9), st.sampled_from((0, 2, 3, 4)), st.integers(1, 4)),
    max_size=8,
)
STARTS = st.integers(-1, 45)


def by_offset(rows: Iterable[Row], start: int) -> dict[int, tuple[int, int]]:
    """Deliveries and state of each offset."""
    found: dict[int, tuple[int, int]] = {}
    for first, last, state, deliveries in rows:
        for offset in range(max(first, start), last + 1):
            found[offset] = max(found.get(offset, (0, 0)), (deliveries, state))
    return found


@given(ROWS, STARTS)
def test_each_offset_has_its_most_delivered_state(rows: list[Row], start: int) -> None:
    result = combined(rows, start)
    assert sum(one.last - one.first + 1 for one in result) == len(by_offset(result, start))
    assert by_offset(result, start) == by_offset(rows, start)
    for before, after in pairwise(result):
        assert before.last < after.first
        assert before.last + 1 < after.first or before[2:] != after[2:]


@given(ROWS, ROWS, STARTS)
def test_a_merge_gives_what_combining_everything_gives(rows: list[Row], more: list[Row], start: int) -> None:
    found = Rows(combined(rows, -1))
    expected = combined([*found, *more], start)
    merge(found, more, start)
    assert [*found] == expected
    assert len(found) == len(expected)
    at = {offset: row for row in expected for offset in range(row.first, row.last + 1)}
    assert [found.at(offset) for offset in range(55)] == [at.get(offset) for offset in range(55)]


def test_rows_that_touch_become_one_only_if_they_are_equal() -> None:
    assert combined([Row(0, 4, 2, 1), Row(5, 9, 2, 1), Row(10, 12, 0, 1)], -1) == [Row(0, 9, 2, 1), Row(10, 12, 0, 1)]


def test_more_deliveries_win_and_divide_a_row() -> None:
    assert combined([Row(0, 9, 4, 1), Row(3, 5, 0, 2)], 1) == [Row(1, 2, 4, 1), Row(3, 5, 0, 2), Row(6, 9, 4, 1)]
