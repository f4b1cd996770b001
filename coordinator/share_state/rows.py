"""The rows of one share partition, in arrays: a row takes 19 bytes, and a partition may have thousands."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

from muster.coordinator.share.in_flight import Row


class Rows:
    """Rows in the order of their offsets. No two rows have the same offset."""

    __slots__ = ("_deliveries", "_firsts", "_lasts", "_states")

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._firsts, self._lasts, self._states, self._deliveries = _columns([*rows])

    def __len__(self) -> int:
        return len(self._firsts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]  # rows change

    def __iter__(self) -> Iterator[Row]:
        return map(Row, self._firsts, self._lasts, self._states, self._deliveries)

    def part(self, begin: int, end: int) -> Iterator[Row]:
        """The rows from index `begin` to the index before `end`."""
        return map(
            Row, self._firsts[begin:end], self._lasts[begin:end], self._states[begin:end], self._deliveries[begin:end]
        )

    def at(self, offset: int) -> Row | None:
        """The row that has an offset. None means that no row has it."""
        begin, end = self.between(offset, offset)
        return next(self.part(begin, end), None)

    def between(self, first: int, last: int) -> tuple[int, int]:
        """The rows with an offset from `first` to `last`: the index of the first row, and the index behind them."""
        return bisect_left(self._lasts, first), bisect_right(self._firsts, last)

    def cut_before(self, offset: int) -> None:
        """Remove the offsets before `offset`."""
        self.replace(0, bisect_left(self._lasts, offset), ())
        if self._firsts and self._firsts[0] < offset:
            self._firsts[0] = offset

    def replace(self, begin: int, end: int, rows: Sequence[Row]) -> None:
        """Put `rows` in the place of the rows from index `begin` to the index before `end`."""
        firsts, lasts, states, deliveries = _columns(rows)
        self._firsts[begin:end] = firsts
        self._lasts[begin:end] = lasts
        self._states[begin:end] = states
        self._deliveries[begin:end] = deliveries


_Columns = tuple["array[int]", "array[int]", "array[int]", "array[int]"]


def _columns(rows: Sequence[Row]) -> _Columns:
    firsts, lasts, states, deliveries = zip(*rows, strict=True) if rows else ((), (), (), ())
    return array("q", firsts), array("q", lasts), array("b", states), array("h", deliveries)
