"""The functions of Spark that the tables need, by Spark's names. `F` is this module if no Spark runs."""

from __future__ import annotations

import builtins
import json
import math
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from operator import gt, lt
from typing import Any, Final

import pyarrow as pa

from muster.pipeline.frames.column import (
    BOOL,
    LONG,
    Column,
    Context,
    Order,
    Vector,
    When,
    are_nested,
    as_column,
    by_name,
    first_kind,
    frozen,
    literal,
    order_key,
)
from muster.pipeline.frames.sql_text import parsed
from muster.pipeline.frames.types import fields_of, of_json, type_of
from muster.pipeline.frames.window import folded_over, numbered, shifted

_Fold = Callable[[Sequence[Any]], Any]

col = by_name
row_number = numbered


def lit(value: Any) -> Column:
    return value if isinstance(value, Column) else literal(value)


def when(condition: Column, value: Any) -> Column:
    return When([(condition, as_column(value, is_text=True))])


def expr(text: str) -> Column:
    return parsed(text)


def broadcast(rows: Any) -> Any:
    return rows


def desc(name: str) -> Order:
    return Order(by_name(name), is_falling=True)


# ---- of the values of one row


def _each(make: Callable[..., Any], *columns: Any, kind: pa.DataType | None = None) -> Column:
    """A function that is None if one of its values is None."""
    inputs = [as_column(one) for one in columns]

    def values(of: Context) -> Vector:
        held = [one.make(of).values for one in inputs]
        if len(held) == 1:
            return Vector([None if one is None else make(one) for one in held[0]], kind)
        return Vector([None if None in some else make(*some) for some in zip(*held, strict=True)], kind)

    return Column(values)


def coalesce(*columns: Any) -> Column:
    inputs = [as_column(one) for one in columns]

    def values(of: Context) -> Vector:
        held = [one.make(of) for one in inputs]
        found = held[0].values
        for more in held[1:]:
            if None not in found:
                break
            found = [b if a is None else a for a, b in zip(found, more.values, strict=True)]
        return Vector(found, first_kind(held))

    return Column(values)


def _best(is_better: Callable[[Any, Any], Any], columns: Sequence[Any]) -> Column:
    inputs = [as_column(one) for one in columns]

    def values(of: Context) -> Vector:
        held = [one.make(of) for one in inputs]
        found, *rest = [one.values for one in held]
        by = _of_keys(is_better) if any(are_nested(one.values) for one in held) else is_better
        for more in rest:
            found = [b if a is None or (b is not None and by(b, a)) else a for a, b in zip(found, more, strict=True)]
        return Vector(found, first_kind(held))

    return Column(values)


def _of_keys(is_better: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, other: is_better(order_key(one), order_key(other))


def _picked(pick: Callable[[Sequence[Any]], Any], some: Iterable[Any]) -> Any:
    known = [one for one in some if one is not None]
    return pick(known) if known else None


def greatest(*columns: Any) -> Column:
    return _best(gt, columns)


def least(*columns: Any) -> Column:
    return _best(lt, columns)


def max_of(some: Sequence[Any]) -> Any:
    """The largest value. Structs are compared field by field."""
    return builtins.max(some, key=order_key) if are_nested(some) else builtins.max(some)


def min_of(some: Sequence[Any]) -> Any:
    """The smallest value. Structs are compared field by field."""
    return builtins.min(some, key=order_key) if are_nested(some) else builtins.min(some)


def floor(column: Any) -> Column:
    return _each(math.floor, column, kind=LONG)


def ceil(column: Any) -> Column:
    return _each(math.ceil, column, kind=LONG)


def abs(column: Any) -> Column:  # Spark's name
    return _each(builtins.abs, column)


def round(column: Any, scale: int = 0) -> Column:  # Spark's name
    size = 10**scale
    return _each(lambda one: math.copysign(math.floor(math.fabs(one) * size + 0.5), one) / size, column)


def pmod(column: Any, by: Any) -> Column:
    return _each(lambda a, b: a % b, column, by)


def concat(*columns: Any) -> Column:
    return _each(lambda *some: "".join(some), *columns, kind=pa.string())


def concat_ws(between: str, *columns: Any) -> Column:
    inputs = [as_column(one) for one in columns]

    def values(of: Context) -> Vector:
        rows = zip(*(one.make(of).values for one in inputs), strict=True)
        return Vector([between.join(one for one in some if one is not None) for some in rows], pa.string())

    return Column(values)


def length(column: Any) -> Column:
    return _each(len, column)


def hex(column: Any) -> Column:  # Spark's name
    return _each(lambda one: one.hex().upper() if isinstance(one, bytes) else f"{one:X}", column, kind=pa.string())


def base64(column: Any) -> Column:
    return _each(lambda one: b64encode(one).decode(), column, kind=pa.string())


def xxhash64(*columns: Any) -> Column:
    """A hash of 64 bits. It is not Spark's, but equal values have equal hashes too."""
    inputs = [as_column(one) for one in columns]

    def values(of: Context) -> Vector:
        rows = zip(*(one.make(of).values for one in inputs), strict=True)
        return Vector([_hash(repr(some)) for some in rows], LONG)

    return Column(values)


@lru_cache(maxsize=4096)
def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)


# ---- structs, lists and maps


def struct(*columns: Any) -> Column:
    inputs = [as_column(one) for one in columns]
    names = [one.label or f"col{at}" for at, one in enumerate(inputs, 1)]

    def values(of: Context) -> Vector:
        held = [one.make(of) for one in inputs]
        kinds = [one.kind for one in held]
        kind = None if None in kinds else pa.struct(list(zip(names, kinds, strict=True)))
        rows = zip(*(one.values for one in held), strict=True) if held else [()] * of.count
        return Vector([dict(zip(names, some, strict=True)) for some in rows], kind)

    return Column(values)


def array(*columns: Any) -> Column:
    inputs = [as_column(one) for one in columns]

    def values(of: Context) -> Vector:
        held = [one.make(of).values for one in inputs]
        return Vector(list(map(list, zip(*held, strict=True))) if held else [[] for _ in range(of.count)])

    return Column(values)


def create_map(*columns: Any) -> Column:
    inputs = [as_column(one) for one in columns]

    def values(of: Context) -> Vector:
        rows = zip(*(one.make(of).values for one in inputs), strict=True)
        return Vector([dict(zip(some[::2], some[1::2], strict=True)) for some in rows])

    return Column(values)


def map_from_entries(column: Any) -> Column:
    return _each(lambda some: dict(tuple(one.values()) for one in some), column)


def size(column: Any) -> Column:
    return _each(len, column)


def flatten(column: Any) -> Column:
    def values(of: Context) -> Vector:
        held = as_column(column).make(of)
        kind = None if held.kind is None else held.kind.value_type
        flat = (None if some is None or None in some else [one for inner in some for one in inner]
                for some in held.values)  # fmt: skip
        return Vector(list(flat), kind)

    return Column(values)


def array_sort(column: Any) -> Column:
    return _each(lambda some: sorted(some, key=lambda one: (one is None, order_key(one))), column)


def array_distinct(column: Any) -> Column:
    return _each(lambda some: list({frozen(one): one for one in some}.values()), column)


class _Elements(Context):
    """The elements of lists as rows. Each row also has the other columns of its list's row."""

    def __init__(self, outer: Context, variables: Sequence[Vector], rows: list[int]) -> None:
        super().__init__(len(rows))
        self.variables = variables
        self._outer = outer
        self._rows = rows

    def named(self, name: str) -> Vector:
        return self._outer.named(name).take(self._rows)

    def numbered(self, number: int) -> Vector | None:
        held = self._outer.numbered(number)
        return None if held is None else held.take(self._rows)

    def variable(self, owner: object, at: int) -> Vector | None:
        """The values of a variable of a lambda, also of an outer one."""
        own = self.cache.get("owner")
        if own is owner:
            return self.variables[at]
        held = self._outer.variable(owner, at) if isinstance(self._outer, _Elements) else None
        return None if held is None else held.take(self._rows)


def _variables(owner: object, count: int) -> list[Column]:
    def variable(at: int) -> Column:
        def make(of: Context) -> Vector:
            held = of.variable(owner, at) if isinstance(of, _Elements) else None
            assert held is not None, "a variable of a lambda outside of its lambda"
            return held

        return Column(make)

    return [variable(at) for at in range(count)]


def _of_elements(body: Callable[..., Any], of: Context, held: Vector) -> tuple[Vector, list[int]]:
    """The body's values for all elements, and the row of each element."""
    owner = object()
    rows = [row for row, some in enumerate(held.values) if some for _ in some]
    elements = [one for some in held.values if some for one in some]
    kind = None if held.kind is None else held.kind.value_type
    inner = _Elements(of, [Vector(elements, kind)], rows)
    inner.cache["owner"] = owner
    return as_column(body(*_variables(owner, 1)), is_text=True).make(inner), rows


def _regrouped(held: Vector, values: Iterable[Any]) -> list[list[Any] | None]:
    each = iter(values)
    return [None if some is None else [next(each) for _ in some] for some in held.values]


def transform(column: Any, body: Callable[..., Any]) -> Column:
    def values(of: Context) -> Vector:
        held = as_column(column).make(of)
        made, _ = _of_elements(body, of, held)
        return Vector(_regrouped(held, made.values), None if made.kind is None else pa.list_(made.kind))

    return Column(values)


def filter(column: Any, body: Callable[..., Any]) -> Column:  # Spark's name
    def values(of: Context) -> Vector:
        held = as_column(column).make(of)
        made, _ = _of_elements(body, of, held)
        kept = (None if some is None else [one for one, is_it in zip(some, tested or (), strict=True) if is_it]
                for some, tested in zip(held.values, _regrouped(held, made.values), strict=True))  # fmt: skip
        return Vector(list(kept), held.kind)

    return Column(values)


def exists(column: Any, body: Callable[..., Any]) -> Column:
    def values(of: Context) -> Vector:
        held = as_column(column).make(of)
        made, _ = _of_elements(body, of, held)
        found = (None if some is None else True if True in some else None if None in some else False
                 for some in _regrouped(held, made.values))  # fmt: skip
        return Vector(list(found), BOOL)

    return Column(values)


def aggregate(column: Any, start: Any, more: Callable[..., Any]) -> Column:
    def values(of: Context) -> Vector:
        held = as_column(column).make(of).values
        totals = list(as_column(start).make(of).values)
        owner = object()
        body = more(*_variables(owner, 2))
        for at in range(builtins.max((len(some) for some in held if some), default=0)):
            rows = [row for row, some in enumerate(held) if some and len(some) > at]
            inner = _Elements(
                of, [Vector([totals[row] for row in rows]), Vector([held[row][at] for row in rows])], rows
            )
            inner.cache["owner"] = owner
            for row, total in zip(rows, body.make(inner).values, strict=True):
                totals[row] = total
        return Vector([None if some is None else total for some, total in zip(held, totals, strict=True)])

    return Column(values)


def _generated(column: Any, *, with_place: bool) -> Column:
    return Column(as_column(column).make, "col", has_places=with_place)


def explode(column: Any) -> Column:
    return _generated(column, with_place=False)


def posexplode(column: Any) -> Column:
    return _generated(column, with_place=True)


# ---- JSON


@lru_cache(maxsize=4096)
def _parsed_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return _BAD


_BAD: Final = object()


def from_json(column: Any, schema: str) -> Column:
    text = schema
    kind = type_of(text) if text.startswith(("array<", "struct<", "map<")) else fields_of(text)

    def make(value: str) -> Any:
        found = _parsed_json(value)
        if found is _BAD or not isinstance(found, Mapping):
            return {one.name: None for one in kind}
        return of_json(found, kind)

    return _each(make, column, kind=kind)


def get_json_object(column: Any, path: str) -> Column:
    names = path.removeprefix("$.").split(".")

    def make(value: str) -> Any:
        found = _parsed_json(value)
        for name in names:
            found = found.get(name) if isinstance(found, Mapping) else None
        return found if found is None or isinstance(found, str) else json.dumps(found, separators=(",", ":"))

    return _each(make, column, kind=pa.string())


def try_parse_json(column: Any) -> Column:
    """The text, if it is JSON; None, if it is not."""
    return _each(lambda one: None if _parsed_json(one) is _BAD else one, column, kind=pa.string())


def to_json(column: Any, options: Mapping[str, str] | None = None) -> Column:
    with_nulls = (options or {}).get("ignoreNullFields") == "false"

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(one) for key, one in value.items() if with_nulls or one is not None}
        if isinstance(value, list):
            return [plain(one) for one in value]
        return b64encode(value).decode() if isinstance(value, bytes) else value

    return _each(
        lambda one: json.dumps(plain(one), ensure_ascii=False, separators=(",", ":")), column, kind=pa.string()
    )


# ---- of the rows of a group, or of a window


def _aggregate(
    fold: _Fold,
    *columns: Any,
    more: Callable[[Any, Any], Any] | None = None,
    kind: pa.DataType | None = None,
    keeps_kind: bool = False,
) -> Column:
    """A function over many rows. `more` joins its results of two sets of rows.

    `keeps_kind`: the result has the type of the first column.
    """
    inputs = [as_column(one) for one in columns]

    def values(of: Context) -> Vector:
        found = of.folded(fold, inputs)
        known = of.cache.get(id(inputs[0])) if keeps_kind and inputs else None
        return Vector(found, kind if known is None else known)

    return Column(values, running=folded_over(fold, inputs, more))


def _known(values: Iterable[Any]) -> list[Any]:
    return [one for one in values if one is not None]


def _total(values: Sequence[Any]) -> Any:
    some = _known(values)
    return sum_of(some) if some else None


def sum_of(values: Iterable[Any]) -> Any:
    """The sum of values that are not None."""
    total: Any = 0
    for one in values:
        total += one
    return total


def _joined(pick: Callable[[Sequence[Any]], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: _picked(pick, (a, b))


def count(column: Any) -> Column:
    if column == "*" if isinstance(column, str) else False:
        return _aggregate(len, more=lambda a, b: a + b, kind=LONG)
    return _aggregate(lambda values: len(_known(values)), column, more=lambda a, b: a + b, kind=LONG)


def count_if(column: Any) -> Column:
    return _aggregate(lambda values: sum_of(one is True for one in values), column, more=lambda a, b: a + b, kind=LONG)


def count_distinct(column: Any) -> Column:
    return _aggregate(lambda values: len({frozen(one) for one in _known(values)}), column, kind=LONG)


def sum(column: Any) -> Column:  # Spark's name
    return _aggregate(_total, column, more=lambda a, b: _total((a, b)))


def try_sum(column: Any) -> Column:
    limit = 1 << 63

    def fold(values: Sequence[Any]) -> Any:
        total = _total(values)
        return None if total is not None and not -limit <= total < limit else total

    return _aggregate(fold, column)


def max(column: Any) -> Column:  # Spark's name
    return _aggregate(lambda values: _picked(max_of, values), column, more=_joined(max_of), keeps_kind=True)


def min(column: Any) -> Column:  # Spark's name
    return _aggregate(lambda values: _picked(min_of, values), column, more=_joined(min_of), keeps_kind=True)


def first(column: Any, ignorenulls: bool = False) -> Column:
    def fold(values: Sequence[Any]) -> Any:
        some = _known(values) if ignorenulls else values
        return some[0] if some else None

    return _aggregate(fold, column, more=lambda a, _: a, keeps_kind=True)


def _by(is_better: Callable[[Any, Any], bool], column: Any, order: Any) -> Column:
    def fold(pairs: Sequence[Any]) -> Any:
        found = best = None
        for value, place in pairs:
            if place is not None and (best is None or not is_better(best, place)):
                found, best = value, place
        return found

    return _aggregate(fold, column, order, keeps_kind=True)


def max_by(column: Any, order: Any) -> Column:
    return _by(_of_keys(gt), column, order)


def min_by(column: Any, order: Any) -> Column:
    return _by(_of_keys(lt), column, order)


def bool_or(column: Any) -> Column:
    def fold(values: Sequence[Any]) -> Any:
        some = _known(values)
        return True in some if some else None

    return _aggregate(fold, column, kind=BOOL)


def collect_list(column: Any) -> Column:
    return _aggregate(_known, column)


def percentile(column: Any, share: float) -> Column:
    def fold(values: Sequence[Any]) -> Any:
        some = sorted(_known(values))
        if not some:
            return None
        place = share * (len(some) - 1)
        low = math.floor(place)
        return some[low] + (some[math.ceil(place)] - some[low]) * (place - low)

    return _aggregate(fold, column, kind=pa.float64())


def lag(column: Any, step: int = 1) -> Column:
    return shifted(as_column(column), -step)


def lead(column: Any, step: int = 1) -> Column:
    return shifted(as_column(column), step)
