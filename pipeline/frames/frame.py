"""A table in this process: it has the methods of Spark's DataFrame that the tables need, and computes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count as counter
from typing import Any, Final, NamedTuple

import pyarrow as pa

from muster.pipeline.frames.column import (
    Column,
    Context,
    Places,
    Vector,
    as_column,
    field_of,
    first_kind,
    literal,
)
from muster.pipeline.frames.sql_text import parsed
from muster.pipeline.frames.window import grouped, in_order, keys_of, orders_of

_NUMBERS: Final = counter()

_Run = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Field(NamedTuple):
    """A column of a frame."""

    name: str
    vector: Vector
    number: int
    """The column keeps its number in the frames that are made of this one."""
    of: str = ""
    """The name of the frame (`alias`) that the column comes from."""


class Row(tuple[Any, ...]):
    """A row that `collect` returns. Its values have numbers, and names too."""

    names: tuple[str, ...]

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self.names.index(key) if isinstance(key, str) else key)

    def __getattr__(self, name: str) -> Any:
        if name in self.names:
            return self[name]
        raise AttributeError(name)


def field(name: str, vector: Vector) -> Field:
    """A column with a new number."""
    return Field(name, vector, next(_NUMBERS))


class Frame:
    """Some rows. No method changes them."""

    def __init__(self, fields: Sequence[Field], count: int) -> None:
        self.fields = fields
        self.size = count

    # ---- what it is

    @staticmethod
    def of_table(table: pa.Table) -> Frame:
        """The rows of an Arrow table."""
        whole = table.combine_chunks()
        columns = [pa.nulls(0, one.type) if not one.num_chunks else one.chunk(0) for one in whole.columns]
        return Frame(
            [field(name, Vector(None, None, column)) for name, column in zip(table.schema.names, columns, strict=True)],
            table.num_rows,
        )

    @property
    def columns(self) -> list[str]:
        return [one.name for one in self.fields]

    def __getitem__(self, name: str) -> Column:
        found = next(one for one in self.fields if one.name == name)
        number = found.number

        def make(of: Context) -> Vector:
            held = of.numbered(number)
            return of.named(name) if held is None else held

        return Column(make, name, number=number)

    def __getattr__(self, name: str) -> Column:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows as dictionaries. They share nothing with the frame."""
        names = self.columns
        values = (_own_values(one.vector) for one in self.fields)
        return (dict(zip(names, some, strict=True)) for some in zip(*values, strict=True))

    def batch(self, schema: pa.Schema | None = None) -> pa.RecordBatch:
        """The rows as an Arrow batch (None: with the types that the values show)."""
        kinds = [None] * len(self.fields) if schema is None else schema.types
        arrays = [one.vector.arrow(kind) for one, kind in zip(self.fields, kinds, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, names=self.columns)

    def toArrow(self) -> pa.Table:
        return pa.Table.from_batches([self.batch()])

    def collect(self) -> list[Row]:
        made = type("_Row", (Row,), {"names": tuple(self.columns)})
        values = [one.vector.values for one in self.fields]
        return [made(some) for some in zip(*values, strict=True)]

    def first(self) -> Row | None:
        return next(iter(self.limit(1).collect()), None)

    def count(self) -> int:
        return self.size

    def isEmpty(self) -> bool:
        return not self.size

    # ---- rows

    def where(self, condition: str | Column) -> Frame:
        tested = (parsed(condition) if isinstance(condition, str) else condition).make(_Rows(self)).values
        kept = [row for row, is_it in enumerate(tested) if is_it]
        return self if len(kept) == self.size else self._taken(kept)

    filter = where

    def limit(self, most: int) -> Frame:
        return self if most >= self.size else self._taken(list(range(most)))

    def distinct(self) -> Frame:
        groups = grouped([one.vector for one in self.fields], self.size)
        return self._taken([rows[0] for rows in groups])

    def orderBy(self, *columns: Any) -> Frame:
        return self._taken(in_order(_Rows(self), orders_of(columns)))

    sortWithinPartitions = sort = orderBy

    def repartition(self, *_: Any) -> Frame:
        return self

    def _taken(self, rows: Sequence[int | None]) -> Frame:
        places = Places(rows)
        return Frame([one._replace(vector=one.vector.take(places)) for one in self.fields], len(rows))

    # ---- columns

    def alias(self, name: str) -> Frame:
        return Frame([one._replace(of=name) for one in self.fields], self.size)

    def select(self, *columns: Any) -> Frame:
        asked: list[Column] = []
        for one in columns[0] if len(columns) == 1 and isinstance(columns[0], list) else columns:
            if isinstance(one, str) and (one == "*" or one.endswith(".*")):
                asked += self._all_of(one)
            else:
                asked.append(as_column(one))
        made = next((one for one in asked if one.has_places is not None), None)
        if made is None:
            rows = _Rows(self)
            return Frame([_field(one, rows) for one in asked], self.size)
        return self._exploded(asked, made)

    def _all_of(self, text: str) -> Iterator[Column]:
        if text == "*":
            return (_of_field(one) for one in self.fields)
        name = text.removesuffix(".*")
        kind = _Rows(self).named(name).kind
        return (as_column(f"{name}.{one.name}") for one in kind or ())

    def _exploded(self, asked: Sequence[Column], made: Column) -> Frame:
        rows = _Rows(self)
        held = made.make(rows)
        of = [row for row, some in enumerate(held.values) if some for _ in some]
        kind = None if held.kind is None else held.kind.value_type
        elements = Vector([one for some in held.values if some for one in some], kind)
        fields = []
        for one in asked:
            if one is not made:
                known = _field(one, rows)
                fields.append(known._replace(vector=known.vector.take(of)))
                continue
            if made.has_places:
                places = [place for some in held.values if some for place in range(len(some))]
                fields.append(field(made.names[0], Vector(places)))
            fields.append(field(made.names[-1], elements))
        return Frame(fields, len(of))

    def selectExpr(self, *texts: str) -> Frame:
        return self.select(*map(parsed, texts))

    def withColumn(self, name: str, column: Column) -> Frame:
        return self.withColumns({name: column})

    def withColumns(self, columns: dict[str, Column]) -> Frame:
        replaced = {name: column.alias(name) for name, column in columns.items()}
        kept = [replaced.pop(one.name) if one.name in replaced else _of_field(one) for one in self.fields]
        return self.select(*kept, *replaced.values())

    def drop(self, *names: str) -> Frame:
        return Frame([one for one in self.fields if one.name not in names], self.size)

    def fillna(self, value: Any, names: Sequence[str]) -> Frame:
        def filled(one: Field) -> Field:
            if one.name not in names:
                return one
            return field(one.name, Vector([value if each is None else each for each in one.vector.values]))

        return Frame([filled(one) for one in self.fields], self.size)

    # ---- several frames

    def unionByName(self, other: Frame, allowMissingColumns: bool = False) -> Frame:
        there = {one.name: one.vector for one in other.fields}
        own = {one.name: one.vector for one in self.fields}
        if not allowMissingColumns and own.keys() != there.keys():
            raise ValueError(f"only one side has the columns {', '.join(sorted(own.keys() ^ there.keys()))}")
        names = [*own, *(name for name in there if name not in own)]
        total = self.size + other.size

        def joined(name: str) -> Vector:
            kind = first_kind(side[name] for side in (own, there) if name in side)
            return _or_nulls(own.get(name), self.size, kind).then(_or_nulls(there.get(name), other.size, kind))

        return Frame([field(name, joined(name)) for name in names], total)

    def unionAll(self, other: Frame) -> Frame:
        renamed = [theirs._replace(name=own.name) for own, theirs in zip(self.fields, other.fields, strict=True)]
        return self.unionByName(Frame(renamed, other.size))

    def crossJoin(self, other: Frame) -> Frame:
        return self.join(other, literal(True), "inner")

    def join(self, other: Frame, on: Any, how: str = "inner") -> Frame:
        names = [on] if isinstance(on, str) else on if isinstance(on, list | tuple) else None
        if names is None:
            pairs = _matching(self, other, on)
        else:
            pairs = _equal(
                [self._named(name) for name in names],
                [other._named(name) for name in names],
                is_safe=False,
            )
        if how in ("left_semi", "left_anti"):
            matched = {left for left, _ in pairs}
            return self._taken([row for row in range(self.size) if (row in matched) == (how == "left_semi")])
        left: list[int | None] = [one for one, _ in pairs]
        right: list[int | None] = [one for _, one in pairs]
        if how in ("left", "full"):
            lonely = sorted(set(range(self.size)).difference(left))
            left += lonely
            right += [None] * len(lonely)
        if how == "full":
            lonely = sorted(set(range(other.size)).difference(right))
            left += [None] * len(lonely)
            right += lonely
        return _side_by_side(self._taken(left), other._taken(right), names or (), is_full=how == "full")

    def _named(self, name: str) -> Vector:
        return _Rows(self).named(name)

    # ---- groups

    def groupBy(self, *columns: Any) -> Groups:
        return Groups(self, [as_column(one) for one in columns])

    def agg(self, *columns: Column) -> Frame:
        return Groups(self, []).agg(*columns)

    # ---- Python and Arrow

    def mapInArrow(self, run: _Run, schema: pa.Schema) -> Frame:
        batches = run(iter([self.batch()] if self.size else []))
        return Frame.of_table(pa.Table.from_batches((one.select(schema.names).cast(schema) for one in batches), schema))


class _Rows(Context):
    """The rows of a frame."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame.size)
        self._frame = frame

    def named(self, name: str) -> Vector:
        found = [one for one in self._frame.fields if one.name == name]
        if found:
            if len({one.number for one in found}) > 1:
                raise KeyError(f"there are several columns {name}")
            return found[0].vector
        first, _, rest = name.partition(".")
        if rest:
            of_frame = [one for one in self._frame.fields if one.of == first and one.name == rest]
            return of_frame[0].vector if of_frame else field_of(self.named(first), rest.split("."))
        raise KeyError(f"there is no column {name}: there are {', '.join(self._frame.columns)}")

    def number_of(self, name: str) -> int | None:
        return next((one.number for one in self._frame.fields if one.name == name), None)

    def numbered(self, number: int) -> Vector | None:
        return next((one.vector for one in self._frame.fields if one.number == number), None)


class Groups:
    """The rows of a frame with equal keys (`groupBy`)."""

    def __init__(self, frame: Frame, keys: Sequence[Column]) -> None:
        rows = _Rows(frame)
        self._frame = frame
        self._keys = [_field(one, rows) for one in keys]
        self._groups = grouped([one.vector for one in self._keys], frame.size) if keys else [list(range(frame.size))]

    def agg(self, *columns: Column) -> Frame:
        context = _Grouped(self._frame, self._keys, self._groups)
        keys = [one._replace(vector=one.vector.take([rows[0] for rows in self._groups])) for one in self._keys]
        return Frame([*keys, *(_field(one, context) for one in columns)], len(self._groups))

    def applyInArrow(self, make: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> Frame:
        whole = pa.Table.from_batches([self._frame.batch()])
        found = [make(whole.take(pa.array(rows))).cast(schema) for rows in self._groups if rows]
        return Frame.of_table(pa.concat_tables([*found, schema.empty_table()]))


class _Grouped(Context):
    """The groups of a frame's rows. Each group counts as one row."""

    def __init__(self, frame: Frame, keys: Sequence[Field], groups: Sequence[Sequence[int]]) -> None:
        super().__init__(len(groups))
        self._rows = _Rows(frame)
        self._keys = keys
        self._groups = groups

    def named(self, name: str) -> Vector:
        found = next((one for one in self._keys if one.name == name), None)
        if found is None:
            raise KeyError(f"{name} is no key of the groups")
        return found.vector.take([rows[0] for rows in self._groups])

    def numbered(self, number: int) -> Vector | None:
        found = next((one for one in self._keys if one.number == number), None)
        return None if found is None else found.vector.take([rows[0] for rows in self._groups])

    def folded(self, fold: Callable[[Sequence[Any]], Any], inputs: Sequence[Column]) -> list[Any]:
        held = [one.make(self._rows) for one in inputs]
        if held:
            self.cache[id(inputs[0])] = held[0].kind
        if not held:
            return [fold(rows) for rows in self._groups]
        if len(held) == 1:
            values = held[0].values
            return [fold([values[row] for row in rows]) for rows in self._groups]
        pairs = list(zip(*(one.values for one in held), strict=True))
        return [fold([pairs[row] for row in rows]) for rows in self._groups]


def _field(column: Column, rows: Context) -> Field:
    number = rows.number_of(column.path) if column.number is None else column.number
    return Field(column.label, column.make(rows), next(_NUMBERS) if number is None else number)


def _of_field(one: Field) -> Column:
    return Column(lambda _: one.vector, one.name, number=one.number)


def _or_nulls(vector: Vector | None, count: int, kind: pa.DataType | None) -> Vector:
    if vector is not None:
        return vector
    return Vector([None] * count, kind) if kind is None else Vector(None, None, pa.nulls(count, kind))


def _own_values(vector: Vector) -> Iterable[Any]:
    kind = vector.kind
    if kind is None or pa.types.is_nested(kind):
        return map(_copied, vector.values)
    return vector.values


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return [_copied(one) for one in value] if isinstance(value, list) else value


_Pairs = list[tuple[int, int]]


def _equal(left: Sequence[Vector], right: Sequence[Vector], *, is_safe: bool) -> _Pairs:
    """The pairs of rows with equal keys. With `is_safe`, None is equal to None."""
    if not left:
        raise ValueError("a join needs at least one key")
    places: dict[Any, list[int]] = {}
    for row, key in enumerate(keys_of(right)):
        places.setdefault(key, []).append(row)
    found: _Pairs = []
    for row, key in enumerate(keys_of(left)):
        if is_safe or None not in key:
            found += ((row, other) for other in places.get(key, ()))
    return found


def _matching(left: Frame, right: Frame, on: Column) -> _Pairs:
    """The pairs of rows for which a condition is true."""
    sides = [_of_sides(left, right, one.equal) for one in _conditions(on) if one.equal is not None]
    keys = [one for one in sides if one is not None]
    if keys:
        pairs = _equal([one for one, _ in keys], [one for _, one in keys], is_safe=True)
    else:
        pairs = [(row, other) for row in range(left.size) for other in range(right.size)]
    both = _side_by_side(left._taken([one for one, _ in pairs]), right._taken([one for _, one in pairs]), ())
    tested = on.make(_Rows(both)).values
    return [pair for pair, is_it in zip(pairs, tested, strict=True) if is_it]


def _conditions(on: Column) -> Iterator[Column]:
    """The conditions that `and` joins."""
    if on.both is None:
        yield on
    else:
        for one in on.both:
            yield from _conditions(one)


def _of_sides(left: Frame, right: Frame, both: tuple[Column, Column]) -> tuple[Vector, Vector] | None:
    """The two sides of an equality, if one is of `left` alone and one of `right` alone."""
    for one, other in (both, both[::-1]):
        if _is_of(left, one) and _is_of(right, other):
            return one.make(_Rows(left)), other.make(_Rows(right))
    return None


def _is_of(frame: Frame, column: Column) -> bool:
    if column.number is not None:
        return any(one.number == column.number for one in frame.fields)
    return column.label in frame.columns


def _side_by_side(left: Frame, right: Frame, names: Sequence[str], *, is_full: bool = False) -> Frame:
    """The columns of both frames. The columns `names` come first, and occur once."""
    keys = []
    for name in names:
        own = next(one for one in left.fields if one.name == name)
        if is_full:
            theirs = next(one for one in right.fields if one.name == name)
            values = [b if a is None else a for a, b in zip(own.vector.values, theirs.vector.values, strict=True)]
            own = own._replace(vector=Vector(values, own.vector.kind))
        keys.append(own)
    rest = [one for one in (*left.fields, *right.fields) if one.name not in names]
    return Frame([*keys, *rest], left.size)
