"""Columns in numpy: empty ones, the borders of parts, and the end of a long column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from muster.pipeline.tables.ordered_columns import (
    LARGEST,
    Column,
    Parts,
    begins,
    either,
    greatest,
    known,
    minus,
    nothing,
    texts_of,
)

PARTS = Parts(np.array([True, False, False, True, False]))
"""Two parts: one of three rows, and one of two."""


def column(*values: int | None) -> Column:
    return Column(np.array([value or 0 for value in values]), np.array([value is not None for value in values]))


def values(found: Column) -> list[int | None]:
    return [int(value) if is_there else None for value, is_there in zip(*found, strict=True)]


def test_neighbours_of_a_row_are_in_the_same_part() -> None:
    some = column(1, None, 3, 4, 5)
    assert values(PARTS.before(some)) == [None, 1, None, None, 4]
    assert values(PARTS.before(some, 2)) == [None, None, 1, None, None]
    assert values(PARTS.after(some)) == [None, 3, None, 5, None]
    assert values(PARTS.after(some, 9)) == [None] * 5


@pytest.mark.parametrize(("before", "wanted"), [(False, [None, 1, 1, None, 4]), (True, [None, None, 1, None, None])])
def test_the_latest_row_of_a_kind_is_found(before: bool, wanted: list[int | None]) -> None:
    found = PARTS.latest(np.array([False, True, False, False, True]), before=before)
    assert values(Column(*found)) == wanted


def test_running_maximum_and_minimum_restart_with_each_part() -> None:
    some = column(None, 7, -LARGEST - 1, -3, LARGEST)
    assert values(PARTS.max_so_far(some)) == [None, 7, 7, -3, LARGEST]
    assert values(PARTS.min_so_far(some)) == [None, 7, -LARGEST - 1, -3, -3]


def test_windows_of_rows_have_minimum_maximum_and_count() -> None:
    least, most, count = PARTS.within(column(5, None, 3, 9, 8), -1, 0)
    assert (values(least), values(most)) == ([5, 5, 3, 9, 8], [5, 5, 3, 9, 9])
    assert count.tolist() == [1, 1, 1, 1, 2]


def test_marked_rows_are_counted_by_part() -> None:
    some = np.array([True, False, True, False, True])
    assert PARTS.count_so_far(some).tolist() == [1, 1, 2, 0, 1]
    assert PARTS.count(some).tolist() == [2, 2, 2, 1, 1]


def test_an_overflowing_difference_is_limited() -> None:
    found = minus(column(LARGEST, -LARGEST - 1, 5, None), column(-1, 1, 2, 2))
    assert values(found) == [LARGEST, -LARGEST - 1, 3, None]


def test_the_greatest_of_known_values_is_found() -> None:
    assert values(greatest(column(1, None, None), column(2, 3, None))) == [2, 3, None]


def test_a_missing_value_begins_its_own_part() -> None:
    assert begins(column(None, None, 0, 0, None)).tolist() == [True, False, True, False, True]


def test_the_first_known_text_is_chosen() -> None:
    one, other = (texts_of(pa.chunked_array([some])) for some in (["a", None, None], ["b", "a", None]))
    found = either(one, other)
    assert found.array().to_pylist() == ["a", "a", None]
    assert found.numbers.values[0] == found.numbers.values[1]


def test_empty_columns_are_handled() -> None:
    empty = Parts(np.empty(0, np.bool_))
    for found in (empty.before(nothing(0)), empty.after(nothing(0)), empty.max_so_far(known([]))):
        assert values(found) == []
