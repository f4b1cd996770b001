"""Selects rows of tables as plain values, in one pass over each table. No pass needs more memory for a larger log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muster.pipeline.kept import ParquetTable
from muster.pipeline.report.content import Row, Some

LINES: Final = 40
"""The largest number of rows of a table on the page, unless the table has its own limit."""
_MANY: Final = 200_000
"""When this number of rows is collected, all but the wanted ones are dropped."""

Tables = Mapping[str, ParquetTable]
Batches = Iterable[pa.RecordBatch]
Ints = np.ndarray[Any, Any]


class Key(NamedTuple):
    """A column by which rows are ordered, and its direction."""

    column: str
    is_descending: bool = False
    nulls_first: bool = False


def up(column: str, *, nulls_first: bool = True) -> Key:
    """Order by a column, the smallest value first."""
    return Key(column, False, nulls_first)


def down(column: str) -> Key:
    """Order by a column: the largest value first, missing values last."""
    return Key(column, True)


def with_columns(batches: Batches, **made: Callable[[pa.RecordBatch], Any]) -> Iterator[pa.RecordBatch]:
    """Batches with additional columns, which are computed from the others."""
    for batch in batches:
        columns = {name: make(batch) for name, make in made.items()}
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, *columns.values()], names=[*batch.schema.names, *columns]
        )  # fmt: skip


def where(batches: Batches, is_kept: Callable[[pa.RecordBatch], Any]) -> Iterator[pa.RecordBatch]:
    """The rows for which a condition is true."""
    return (batch.filter(is_kept(batch)) for batch in batches)


def some_of(batches: Batches, *order: Key, limit: int = LINES) -> Some:
    """The first rows in an order, and the number of all rows."""
    total = 0
    first: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        total += batch.num_rows
        first = _first([*first, batch], order, limit)
    return Some(_plain(first), total)


def _first(batches: Sequence[pa.RecordBatch], order: Sequence[Key], limit: int) -> list[pa.RecordBatch]:
    rows = pa.Table.from_batches(batches)
    picked: list[pa.RecordBatch] = rows.take(in_order(rows, order)[:limit]).combine_chunks().to_batches()
    return picked


def in_order(rows: pa.Table, order: Sequence[Key]) -> pa.Array:
    """The indexes of rows, in an order."""
    keys: dict[str, Any] = {}
    ways = []
    for at, key in enumerate(order):
        values = rows[key.column]
        if values.null_count:
            # Arrow puts nulls at the end in both directions
            keys[f"n{at}"] = pc.cast(pc.is_null(values), pa.int8())
            ways.append((f"n{at}", "descending" if key.nulls_first else "ascending"))
        keys[f"k{at}"] = pc.cast(values, pa.int8()) if pa.types.is_boolean(values.type) else values
        ways.append((f"k{at}", "descending" if key.is_descending else "ascending"))
    return pc.sort_indices(pa.table(keys), sort_keys=ways)


def grouped(batches: Batches, keys: Sequence[str], **wanted: tuple[str, str]) -> pa.Table:
    """Rows with the same keys as one row. Each wanted column is the `sum`, `min`, `max` or `count` of another."""
    found: list[pa.Table] = []
    most = _MANY
    for batch in batches:
        if batch.num_rows:
            found.append(_merged(pa.table(batch), keys, wanted))
        if sum(one.num_rows for one in found) > most:
            found = [_again(found, keys, wanted)]
            most = max(_MANY, 2 * found[0].num_rows)
    return _again(found, keys, wanted) if found else pa.table({name: [] for name in (*keys, *wanted)})


def _again(found: Sequence[pa.Table], keys: Sequence[str], wanted: Mapping[str, tuple[str, str]]) -> pa.Table:
    if len(found) == 1:
        return found[0]
    again = {name: (name, "sum" if how == "count" else how) for name, (_, how) in wanted.items()}
    return _merged(pa.concat_tables(found), keys, again)


def _merged(rows: pa.Table, keys: Sequence[str], wanted: Mapping[str, tuple[str, str]]) -> pa.Table:
    made = rows.group_by(list(keys)).aggregate(list(wanted.values()))
    return pa.table(
        [made[name] for name in keys] + [made[f"{column}_{how}"] for column, how in wanted.values()],
        names=[*keys, *wanted],
    )


class Room(NamedTuple):
    """The groups whose rows are wanted, and how many rows each may have. With weights, it is the sum of the weights."""

    groups: Sequence[str]
    sizes: Sequence[int]


class Newest(NamedTuple):
    """The selected rows of some groups."""

    rows: Mapping[str, Sequence[Row]]
    """The rows of each group, in their order."""
    totals: Mapping[str, int]
    """The sum over all rows of each group: their number, or their weight."""


def newest(
    table: ParquetTable, columns: Sequence[str], room: Room, *order: Key,
    weight: Callable[[pa.RecordBatch], Any] | None = None,
    weighed: Sequence[str] = (), made: Callable[[Batches], Batches] | None = None,
) -> Newest:  # fmt: skip
    """The first rows of each group in an order, as many as fit.

    `weight`: how much of the space a row takes, from the columns `weighed`; without it, each row takes one. `made`:
    makes other rows, with `group`, from the rows that are kept. The rows that `made` returns have no order.
    """
    names = pa.array(room.groups, pa.string())
    light = dict.fromkeys(("group", *(key.column for key in order), *weighed))
    sizes = np.asarray(room.sizes, dtype=np.int64)
    totals = np.zeros(len(sizes), dtype=np.int64)
    found: list[pa.Table] = []
    begin = 0
    for batch in table.batches(*light):
        codes = pc.index_in(batch["group"], names)
        weights = pa.array(np.ones(batch.num_rows, np.int64)) if weight is None else weight(batch)
        numbers = pa.array(np.arange(begin, begin + batch.num_rows))
        begin += batch.num_rows
        keys = {key.column: batch[key.column] for key in order if key.column != "group"}
        rows = pa.table({**keys, "code": codes, "weight": weights, "number": numbers}).filter(pc.is_valid(codes))
        if not rows.num_rows:
            continue
        np.add.at(totals, rows["code"].to_numpy(), rows["weight"].to_numpy())
        found.append(rows)
        if sum(one.num_rows for one in found) > _MANY:
            found = [_within(found, order, sizes)]
    if not found:
        return Newest({}, {})
    rows = _within(found, order, sizes)
    return Newest(
        _by_group(table, columns, rows, made),
        {name: int(total) for name, total in zip(room.groups, totals, strict=True) if total},
    )


def _within(found: Sequence[pa.Table], order: Sequence[Key], sizes: Ints) -> pa.Table:
    """The rows that fit, by group and in their order."""
    rows = pa.concat_tables(found).combine_chunks()
    rows = rows.take(in_order(rows, (up("code"), *order)))
    codes, weights = rows["code"].to_numpy(), rows["weight"].to_numpy()
    so_far = np.cumsum(weights)
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
    before = np.repeat(np.r_[0, so_far[starts[1:] - 1]], np.diff(np.r_[starts, codes.size]))
    return rows.filter(pa.array(so_far - before <= sizes[codes]))


def _by_group(
    table: ParquetTable, columns: Sequence[str], wanted: pa.Table, made: Callable[[Batches], Batches] | None
) -> dict[str, list[Row]]:
    numbers = wanted["number"].to_numpy()
    ascending = np.argsort(numbers)
    batches: Batches = table.rows(numbers[ascending], *dict.fromkeys(("group", *columns)))
    found = _plain(batches if made is None else made(batches))
    by_group: dict[str, list[Row]] = {}
    for row in found if made is not None else (found[place] for place in np.argsort(ascending)):
        by_group.setdefault(row["group"], []).append(row)
    return by_group


def _plain(batches: Batches) -> list[Row]:
    return [row for batch in batches for row in batch.to_pylist()]


def plain_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """All rows of a small table, as dictionaries."""
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def mean(total: float | None, count: int) -> float | None:
    """The mean of `count` known values with the sum `total`. It is None without known values."""
    return None if total is None or not count else total / count
