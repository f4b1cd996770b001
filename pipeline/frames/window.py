"""Windows: each row with the rows of its partition, in an order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import groupby
from typing import Any

from muster.pipeline.frames.column import Column, Context, Order, Vector, are_nested, as_column, frozen, order_key


class Window:
    """The rows of a window function, as Spark's Window."""

    def __init__(
        self,
        parts: Sequence[Column] = (),
        orders: Sequence[Order] = (),
        span: tuple[int, int] | None = None,
    ) -> None:
        self._parts = parts
        self.orders = orders
        self.span = span

    @staticmethod
    def partitionBy(*columns: Any) -> Window:
        return Window([as_column(one) for one in columns])

    def orderBy(self, *columns: Any) -> Window:
        return Window(self._parts, orders_of(columns))

    def rangeBetween(self, low: int, high: int) -> Window:
        return Window(self._parts, self.orders, (low, high))

    def partitions(self, of: Context) -> list[list[int]]:
        """The rows of each partition, in the window's order."""
        known = of.cache.get(id(self))
        if known is None:
            groups = grouped([one.make(of) for one in self._parts], of.count)
            if self.orders:
                keys = _keys(self.orders, of)
                groups = [_sorted(rows, keys) for rows in groups]
            # the window is kept too, so that no other object has its id
            known = of.cache[id(self)] = (groups, self)
        found: list[list[int]] = known[0]
        return found

    def order_values(self, of: Context) -> list[Any]:
        """A value for each row. Rows with equal values are peers."""
        each = [one.column.make(of).values for one in self.orders]
        return each[0] if len(each) == 1 else [list(one) for one in zip(*each, strict=True)]


def orders_of(columns: Sequence[Any]) -> list[Order]:
    """Columns, names or orders as orders."""
    return [one if isinstance(one, Order) else Order(as_column(one)) for one in columns]


def grouped(keys: Sequence[Vector], count: int) -> list[list[int]]:
    """The numbers of the rows that have equal keys."""
    if not keys:
        return [list(range(count))]
    groups: dict[Any, list[int]] = {}
    for row, key in enumerate(keys_of(keys)):
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def keys_of(vectors: Sequence[Vector]) -> Iterable[tuple[Hashable, ...]]:
    """The values of each row as a key of a dictionary."""
    held = [map(frozen, one.values) if are_nested(one.values) else one.values for one in vectors]
    return zip(*held, strict=True)


def in_order(of: Context, orders: Sequence[Order]) -> list[int]:
    """The numbers of all rows in an order."""
    return _sorted(list(range(of.count)), _keys(orders, of))


_Key = Callable[[int], Any]
"""The key of a row, by its number."""


def _keys(orders: Sequence[Order], of: Context) -> list[tuple[Order, _Key]]:
    return [(one, _key(one.column.make(of).values, nulls_last=one.nulls_last)) for one in orders]


def _sorted(rows: list[int], keys: Sequence[tuple[Order, _Key]]) -> list[int]:
    for order, key in keys[::-1]:
        rows = sorted(rows, key=key, reverse=order.is_falling)
    return rows


def _key(values: list[Any], *, nulls_last: bool) -> _Key:
    if None not in values and not are_nested(values):
        return values.__getitem__
    if nulls_last:
        return lambda row: (values[row] is None, order_key(values[row]))
    return lambda row: order_key(values[row])


def shifted(column: Column, step: int) -> Column:
    """The value of the row that is `step` rows later in the window (earlier, if it is negative)."""

    def running(window: Window, of: Context) -> Vector:
        held = column.make(of)
        places: list[int | None] = [None] * of.count
        for rows in window.partitions(of):
            for at, row in enumerate(rows):
                if 0 <= at + step < len(rows):
                    places[row] = rows[at + step]
        return held.take(places)

    return _only_over(running)


def numbered() -> Column:
    """The number of each row in its window, from 1 on."""

    def running(window: Window, of: Context) -> Vector:
        found = [0] * of.count
        for rows in window.partitions(of):
            for at, row in enumerate(rows, 1):
                found[row] = at
        return Vector(found)

    return _only_over(running)


def _only_over(running: Callable[[Window, Context], Vector]) -> Column:
    def make(of: Context) -> Vector:
        raise TypeError(f"a window function of {of.count} rows needs over()")

    return Column(make, running=running)


def folded_over(
    fold: Callable[[Sequence[Any]], Any], inputs: Sequence[Column], more: Callable[[Any, Any], Any] | None
) -> Callable[[Window, Context], Vector]:
    """A fold over all rows of a window's partition. With an order, only over the rows up to the row's peers.

    `more` joins the fold of the earlier rows and the fold of the peers.
    """

    def running(window: Window, of: Context) -> Vector:
        held = [one.make(of).values for one in inputs]
        found: list[Any] = [None] * of.count
        order_of = _key(window.order_values(of), nulls_last=False) if window.orders and window.span is None else None
        for rows in window.partitions(of):
            if not window.orders:
                value = fold(_rows(held, rows))
                for row in rows:
                    found[row] = value
            elif window.span is not None:
                _within(found, rows, window.order_values(of), window.span, lambda some: fold(_rows(held, some)))
            else:
                so_far, is_first = None, True
                assert more is not None, "no running form of this function is known"
                for _, peers in groupby(rows, key=order_of):
                    some = list(peers)
                    value = fold(_rows(held, some))
                    so_far, is_first = value if is_first else more(so_far, value), False
                    for row in some:
                        found[row] = so_far
        return Vector(found)

    return running


def _within(
    found: list[Any], rows: list[int], values: list[Any], span: tuple[int, int], fold: Callable[[list[int]], Any]
) -> None:
    times = [values[row] for row in rows]
    for row in rows:
        low, high = bisect_left(times, values[row] + span[0]), bisect_right(times, values[row] + span[1])
        found[row] = fold(rows[low:high])


def _rows(held: Sequence[list[Any]], rows: Sequence[int]) -> Sequence[Any]:
    """The values of some rows: single values, tuples for several inputs, or the rows themselves without inputs."""
    if not held:
        return rows
    if len(held) == 1:
        values = held[0]
        return [values[row] for row in rows]
    return [tuple(one[row] for one in held) for row in rows]
