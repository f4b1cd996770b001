"""Combines rows of a share partition: each offset gets one state (Kafka: PersisterStateBatchCombiner).

Where rows overlap, the row with more deliveries counts. With equal deliveries, the row with the higher state counts.
Neighbours with equal states and deliveries become one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from muster.coordinator.share.in_flight import Row
from muster.coordinator.share_state.persister import UNKNOWN
from muster.coordinator.share_state.rows import Rows


def combined(rows: Iterable[Row], start_offset: int) -> list[Row]:
    """One row for each range of offsets from `start_offset` on, in order. UNKNOWN: all offsets count.

    Each row must have an offset (`first <= last`).
    """
    left = _from(rows, start_offset)
    if len(left) < 2:
        return left
    left.sort()
    found: list[Row] = []
    open_: list[tuple[int, int, int]] = []
    """The rows that contain the offset `at`, and rows that end before: the row that counts stands first."""
    index = at = 0
    while open_ or index < len(left):
        if not open_:
            row, behind = left[index], index + 1
            if behind < len(left) and left[behind].first <= row.last:
                row, behind = _of_same_offsets(left, index)
            if behind == len(left) or left[behind].first > row.last:
                _append(found, row)  # no other row has these offsets, as usual
                index = behind
                continue
            at = row.first
        while index < len(left) and left[index].first <= at:
            row = left[index]
            heappush(open_, (-row.deliveries, -row.state, row.last))
            index += 1
        deliveries, state, last = open_[0]
        if last < at:
            heappop(open_)
            continue
        if index < len(left):
            last = min(last, left[index].first - 1)
        _append(found, Row(at, last, -state, -deliveries))
        at = last + 1
    return found


def merge(rows: Rows, more: Sequence[Row], start_offset: int) -> None:
    """Make `rows` what `combined([*rows, *more], start_offset)` is. `combined` has made `rows`.

    Only the rows near `more` are combined again, since a partition may have thousands of rows.
    """
    if start_offset != UNKNOWN:
        rows.cut_before(start_offset)
    more = _from(more, start_offset)
    if more:
        # a row that touches the new rows may become one row with them
        begin, end = rows.between(min(map(_first, more)) - 1, max(map(_last, more)) + 1)
        rows.replace(begin, end, combined([*rows.part(begin, end), *more], UNKNOWN))


def _first(row: Row) -> int:
    return row.first


def _last(row: Row) -> int:
    return row.last


def _from(rows: Iterable[Row], start_offset: int) -> list[Row]:
    rows = [*rows]
    if start_offset == UNKNOWN or not rows or min(rows).first >= start_offset:
        return rows
    return [row if row.first >= start_offset else row._replace(first=start_offset) for row in rows
            if row.last >= start_offset]  # fmt: skip


def _of_same_offsets(rows: Sequence[Row], index: int) -> tuple[Row, int]:
    """The row that counts among the rows with the same offsets as `rows[index]`, and the index of the next row."""
    row, behind = rows[index], index + 1
    while behind < len(rows) and rows[behind].first == row.first and rows[behind].last == row.last:
        row = max(row, rows[behind], key=_rank)
        behind += 1
    return row, behind


def _rank(row: Row) -> tuple[int, int]:
    return row.deliveries, row.state


def _append(rows: list[Row], row: Row) -> None:
    if rows:
        first, last, state, deliveries = rows[-1]
        if last + 1 == row.first and (state, deliveries) == row[2:]:
            rows[-1] = Row(first, row.last, state, deliveries)
            return
    rows.append(row)
