"""Expressions over columns, and their values. A Column has the operators and the methods of Spark's Column."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
from operator import add, ge, gt, le, lt, mul, sub
from typing import Any, Final

import pyarrow as pa

from muster.pipeline.frames.types import casted, type_of

BOOL: Final = pa.bool_()
LONG: Final = pa.int64()


class Places:
    """The numbers of some rows, in an order. None stands for a row of nulls."""

    def __init__(self, rows: Sequence[int | None]) -> None:
        self.rows = rows

    @cached_property
    def arrow(self) -> pa.Array:
        """The numbers as an Arrow array, for all columns of a frame."""
        return pa.array(self.rows, LONG)


class Vector:
    """The values of a column: a Python list, an Arrow array, or both. Each is made from the other when needed.

    Values that were taken from another vector are copied when they are needed. Of a frame with forty columns, few are.
    """

    __slots__ = ("_arrow", "_list", "_taken", "kind")

    def __init__(self, values: list[Any] | None, kind: pa.DataType | None = None, arrow: pa.Array | None = None):
        self._list = values
        self._arrow = arrow
        self._taken: tuple[Vector, Places] | None = None
        self.kind = kind if arrow is None else arrow.type
        """The Arrow type. None: the values show it."""

    def __len__(self) -> int:
        if self._taken is not None:
            return len(self._taken[1].rows)
        if self._list is not None:
            return len(self._list)
        return 0 if self._arrow is None else len(self._arrow)

    @property
    def values(self) -> list[Any]:
        """The values as a list."""
        if self._list is None:
            if self._taken is not None and self._taken[0]._is_listed():
                (source, places), self._taken = self._taken, None
                values = source.values
                self._list = [None if row is None else values[row] for row in places.rows]
            else:
                array = self._array()
                assert array is not None
                self._list = array.to_pylist()
        return self._list

    def _is_listed(self) -> bool:
        """Whether the values, or those from which they are taken, are a list."""
        return self._list is not None or (self._taken is not None and self._taken[0]._is_listed())

    def _array(self) -> pa.Array | None:
        """The values as an Arrow array, if they come from one."""
        if self._taken is not None:
            source, places = self._taken
            array = source._array()
            if array is not None:
                self._arrow, self._taken = array.take(places.arrow), None
        return self._arrow

    def arrow(self, kind: pa.DataType | None = None) -> pa.Array:
        """The values as an Arrow array (None: of the type that the values show)."""
        wanted = self.kind if kind is None else kind
        array = self._array()
        if array is not None:
            return array if wanted == array.type else array.cast(wanted)
        return pa.array(self.values, wanted)

    def take(self, rows: Sequence[int | None] | Places) -> Vector:
        """The values at these places. None as a place gives None."""
        taken = Vector(None, self.kind)
        taken._taken = (self, rows if isinstance(rows, Places) else Places(rows))
        return taken

    def cast(self, kind: pa.DataType) -> Vector:
        """The values, converted to a type."""
        if self.kind == kind:
            return self
        return Vector(list(casted(self.values, kind)), kind)

    def then(self, other: Vector) -> Vector:
        """These values, and the values of another vector behind them."""
        kind = self.kind if self.kind is not None else other.kind
        own, theirs = self._array(), other._array()
        if own is not None and theirs is not None and own.type == theirs.type:
            return Vector(None, None, pa.concat_arrays([own, theirs]))
        return Vector([*self.values, *other.values], kind)


class Context(ABC):
    """The rows for which an expression is computed."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.cache: dict[Any, Any] = {}

    @abstractmethod
    def named(self, name: str) -> Vector:
        """The values of a column. The name may be `struct.field`. Raises KeyError."""

    @abstractmethod
    def numbered(self, number: int) -> Vector | None:
        """The values of the column that has this number (`frame.Field.number`), if it is among these rows."""

    def number_of(self, name: str) -> int | None:
        """The number of the column with this name, if the rows have one."""

    def folded(self, fold: Callable[[Sequence[Any]], Any], inputs: Sequence[Column]) -> list[Any]:
        """The results of `fold` for the rows of each group."""
        raise TypeError(f"{fold} needs groupBy, agg or over; it has {len(inputs)} inputs")


class Column:
    """An expression. `make` gives its values for the rows of a context."""

    def __init__(
        self,
        make: Callable[[Context], Vector],
        name: str = "",
        *,
        equal: tuple[Column, Column] | None = None,
        both: tuple[Column, Column] | None = None,
        number: int | None = None,
        path: str = "",
        names: tuple[str, ...] = (),
        has_places: bool | None = None,
        running: Callable[[Any, Context], Vector] | None = None,
    ) -> None:
        self.make = make
        self.label = name
        self.equal = equal
        """The two sides of a comparison for equality."""
        self.both = both
        """The two sides of `and`."""
        self.number = number
        """The number of a column of a frame."""
        self.path = path
        """The name, if the expression is only a name."""
        self.names = names or (name,)
        """The names of all columns that the expression makes (`alias`)."""
        self.has_places = has_places
        """Whether the places of the elements are a column too (`posexplode`). None if nothing is exploded."""
        self.running = running
        """Gives the values over a window; None: the expression is no window function."""

    # ---- names

    def alias(self, *names: str, metadata: object = None) -> Column:
        del metadata
        return Column(self.make, names[0], names=names, has_places=self.has_places)

    def __getattr__(self, name: str) -> Column:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, key: Any) -> Column:
        if isinstance(key, str):
            return Column(lambda of: _field(self.make(of), key), key)
        place = as_column(key, is_text=True)

        def make(of: Context) -> Vector:
            held, wanted = self.make(of), place.make(of).values
            kind = _inner(held.kind)
            return Vector([_item(one, at) for one, at in zip(held.values, wanted, strict=True)], kind)

        return Column(make)

    # ---- comparisons

    def __eq__(self, other: object) -> Column:  # type: ignore[override]  # Spark's makes a column too
        there = as_column(other, is_text=True)
        return Column(_binary(self, there, lambda a, b: a == b, BOOL), equal=(self, there))

    def __ne__(self, other: object) -> Column:  # type: ignore[override]  # Spark's makes a column too
        return _apply(self, other, lambda a, b: a != b, BOOL)

    def __lt__(self, other: object) -> Column:
        return _apply(self, other, lt, BOOL)

    def __le__(self, other: object) -> Column:
        return _apply(self, other, le, BOOL)

    def __gt__(self, other: object) -> Column:
        return _apply(self, other, gt, BOOL)

    def __ge__(self, other: object) -> Column:
        return _apply(self, other, ge, BOOL)

    __hash__ = None  # type: ignore[assignment]  # columns are not equal or different

    def eqNullSafe(self, other: object) -> Column:
        there = as_column(other, is_text=True)

        def make(of: Context) -> Vector:
            return Vector([a == b for a, b in zip(self.make(of).values, there.make(of).values, strict=True)], BOOL)

        return Column(make, equal=(self, there))

    def isNull(self) -> Column:
        return Column(lambda of: Vector([one is None for one in self.make(of).values], BOOL))

    def isNotNull(self) -> Column:
        return Column(lambda of: Vector([one is not None for one in self.make(of).values], BOOL))

    def isin(self, *values: Any) -> Column:
        wanted = set(values)
        return Column(lambda of: Vector([None if one is None else one in wanted for one in self.make(of).values], BOOL))

    def between(self, low: Any, high: Any) -> Column:
        is_in: Column = (self >= low) & (self <= high)
        return is_in

    def rlike(self, pattern: str) -> Column:
        search = re.compile(pattern).search
        return Column(
            lambda of: Vector([None if one is None else bool(search(one)) for one in self.make(of).values], BOOL)
        )

    # ---- logic

    def __and__(self, other: object) -> Column:
        there = as_column(other, is_text=True)

        def make(of: Context) -> Vector:
            pairs = zip(self.make(of).values, there.make(of).values, strict=True)
            return Vector(
                [False if a is False or b is False else None if a is None or b is None else True for a, b in pairs],
                BOOL,
            )

        return Column(make, both=(self, there))

    __rand__ = __and__

    def __or__(self, other: object) -> Column:
        there = as_column(other, is_text=True)

        def make(of: Context) -> Vector:
            pairs = zip(self.make(of).values, there.make(of).values, strict=True)
            return Vector([True if a or b else None if a is None or b is None else False for a, b in pairs], BOOL)

        return Column(make)

    __ror__ = __or__

    def __invert__(self) -> Column:
        return Column(lambda of: Vector([None if one is None else not one for one in self.make(of).values], BOOL))

    # ---- numbers

    def __add__(self, other: object) -> Column:
        return _apply(self, other, add)

    def __radd__(self, other: object) -> Column:
        return _apply(as_column(other, is_text=True), self, add)

    def __sub__(self, other: object) -> Column:
        return _apply(self, other, sub)

    def __rsub__(self, other: object) -> Column:
        return _apply(as_column(other, is_text=True), self, sub)

    def __mul__(self, other: object) -> Column:
        return _apply(self, other, mul)

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> Column:
        return _apply(self, other, lambda a, b: a / b if b else None, pa.float64())

    def __neg__(self) -> Column:
        return Column(lambda of: Vector([None if one is None else -one for one in self.make(of).values]))

    # ---- types, order, windows

    def cast(self, kind: str | pa.DataType) -> Column:
        wanted = type_of(kind) if isinstance(kind, str) else kind
        return Column(lambda of: self.make(of).cast(wanted), self.label)

    def try_cast(self, kind: str) -> Column:
        wanted = type_of(kind)

        def one_of(value: Any) -> Any:
            try:
                return casted([value], wanted)[0]
            except ValueError:
                return None

        return Column(lambda of: Vector(list(map(one_of, self.make(of).values)), wanted))

    def desc(self) -> Order:
        return Order(self, is_falling=True)

    def asc_nulls_last(self) -> Order:
        return Order(self, nulls_last=True)

    def over(self, window: Any) -> Column:
        running = self.running
        if running is None:
            raise TypeError(f"{self.label or 'this expression'} is no window function")
        return Column(lambda of: running(window, of))


class When(Column):
    """The Column of `F.when`: the value of the first pair whose condition is true."""

    def __init__(self, pairs: Sequence[tuple[Column, Column]], rest: Column | None = None) -> None:
        super().__init__(self._of)
        self._pairs = pairs
        self._rest = rest

    def when(self, condition: Column, value: object) -> Column:
        return When([*self._pairs, (condition, as_column(value, is_text=True))])

    def otherwise(self, value: object) -> Column:
        return When(self._pairs, as_column(value, is_text=True))

    def _of(self, of: Context) -> Vector:
        values = [value.make(of) for _, value in self._pairs]
        rest = Vector([None] * of.count) if self._rest is None else self._rest.make(of)
        found = list(rest.values)
        for (condition, _), value in zip(self._pairs[::-1], values[::-1], strict=True):
            found = [
                new if is_it else old
                for is_it, new, old in zip(condition.make(of).values, value.values, found, strict=True)
            ]
        return Vector(found, first_kind([*values, rest]))


class Order:
    """A Column by which rows are sorted."""

    def __init__(self, column: Column, *, is_falling: bool = False, nulls_last: bool = False) -> None:
        self.column = column
        self.is_falling = is_falling
        self.nulls_last = nulls_last


def first_kind(vectors: Iterable[Vector]) -> pa.DataType | None:
    """The first known type."""
    return next((one.kind for one in vectors if one.kind is not None and one.kind != pa.null()), None)


def literal(value: Any) -> Column:
    """The Column that has one value in all rows."""
    kind = pa.string() if isinstance(value, str) else BOOL if isinstance(value, bool) else None
    return Column(lambda of: Vector([value] * of.count, kind))


def by_name(name: str) -> Column:
    """The Column of a name, which may be `struct.field`."""
    return Column(lambda of: of.named(name), name.rpartition(".")[2], path=name)


def as_column(value: object, *, is_text: bool = False) -> Column:
    """A Column as it is. A text is a column's name, or with `is_text` a value. Every other value is a literal."""
    if isinstance(value, Column):
        return value
    return by_name(value) if isinstance(value, str) and not is_text else literal(value)


def _binary(
    left: Column, right: Column, operate: Callable[[Any, Any], Any], kind: pa.DataType | None
) -> Callable[[Context], Vector]:
    def make(of: Context) -> Vector:
        pairs = zip(left.make(of).values, right.make(of).values, strict=True)
        return Vector([None if a is None or b is None else operate(a, b) for a, b in pairs], kind)

    return make


def _apply(left: Column, right: object, operate: Callable[[Any, Any], Any], kind: pa.DataType | None = None) -> Column:
    return Column(_binary(left, as_column(right, is_text=True), operate, kind))


def _inner(kind: pa.DataType | None) -> pa.DataType | None:
    if kind is None:
        return None
    return kind.item_type if pa.types.is_map(kind) else kind.value_type if pa.types.is_list(kind) else None


def _item(held: Any, place: Any) -> Any:
    if held is None or place is None:
        return None
    if isinstance(held, dict):
        return held.get(place)
    return held[place] if 0 <= place < len(held) else None


def _field(held: Vector, name: str) -> Vector:
    kind = held.kind
    if kind is not None and pa.types.is_list(kind):
        # the field of each struct of a list
        values = [None if some is None else [None if one is None else one[name] for one in some]
                  for some in held.values]  # fmt: skip
        return Vector(values, pa.list_(kind.value_type.field(name).type))
    found = kind.field(name).type if kind is not None and pa.types.is_struct(kind) else None
    return Vector([None if one is None else one[name] for one in held.values], found)


def field_of(held: Vector, names: Sequence[str]) -> Vector:
    """The field of a struct, by the path of its names."""
    for name in names:
        held = _field(held, name)
    return held


def are_nested(values: Iterable[Any]) -> bool:
    """Whether the values of a column are structs or lists, by the first known value."""
    return isinstance(next((one for one in values if one is not None), None), dict | list)


def frozen(value: Any) -> Hashable:
    """A value as a key of a dictionary."""
    if isinstance(value, dict):
        return tuple((key, frozen(one)) for key, one in value.items())
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def order_key(value: Any) -> Any:
    """A key with which None is the smallest value. Structs and lists are compared field by field."""
    if value is None:
        return (0,)
    if isinstance(value, dict):
        return (1, tuple(map(order_key, value.values())))
    return (1, tuple(map(order_key, value))) if isinstance(value, list) else (1, value)
