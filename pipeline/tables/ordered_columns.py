"""Columns of ordered rows as numpy arrays, with the values before and after each row in its part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

LARGEST: Final = (1 << 63) - 1
_LEAST: Final = -LARGEST - 1


class Column(NamedTuple):
    """A column of whole numbers. A number that is not `valid` is missing."""

    values: Ints
    valid: Mask

    def at(self, rows: Ints, there: Mask | None = None) -> Column:
        """The values of these rows. They are missing where `there` is false."""
        valid = self.valid[rows] if there is None else self.valid[rows] & there
        return Column(self.values[rows], valid)

    def where(self, kept: Mask) -> Column:
        """The column with missing values where `kept` is false."""
        return Column(self.values, self.valid & kept)

    def or_else(self, other: Column) -> Column:
        """The column, with the values of `other` where its own are missing."""
        return Column(np.where(self.valid, self.values, other.values), self.valid | other.valid)

    def filled(self, value: int) -> Ints:
        """All values as numbers, with `value` in place of the missing ones."""
        return np.where(self.valid, self.values, value)

    def array(self, kind: pa.DataType) -> pa.Array:
        """The column as an Arrow array."""
        return pa.array(self.values.astype(kind.to_pandas_dtype()), kind, mask=~self.valid)


class Texts(NamedTuple):
    """A column of texts as numbers: equal texts have the same number."""

    numbers: Column
    words: pa.Array

    def at(self, rows: Ints, there: Mask | None = None) -> Texts:
        """The texts of these rows. They are missing where `there` is false."""
        return Texts(self.numbers.at(rows, there), self.words)

    def array(self) -> pa.Array:
        """The column as an Arrow array."""
        return self.words.take(pa.array(self.numbers.values, mask=~self.numbers.valid))


def either(one: Texts, other: Texts) -> Texts:
    """The texts of the first column, or of the second one where the first has none."""
    words = pa.concat_arrays([one.words, other.words]).dictionary_encode()
    same = words.indices.to_numpy().astype(np.int64)
    count = len(one.words)
    first, second = (
        Column(same[place.values] if len(same) else place.values, place.valid)
        for place in (one.numbers, Column(other.numbers.values + count, other.numbers.valid))
    )
    return Texts(first.or_else(second), words.dictionary)


def known(values: Any) -> Column:
    """A column in which no value is missing."""
    return Column(np.asarray(values, np.int64), np.ones(len(values), np.bool_))


def nothing(rows: int) -> Column:
    """A column in which all values are missing."""
    return Column(np.zeros(rows, np.int64), np.zeros(rows, np.bool_))


def column_of(column: pa.ChunkedArray) -> Column:
    """A column from Arrow's whole numbers. Its numbers have as many bytes as Arrow's."""
    values: Any = pc.fill_null(column, 0).to_numpy()
    return Column(values, np.asarray(pc.is_valid(column)))


def mask_of(column: pa.ChunkedArray) -> Mask:
    """A mask from Arrow's booleans. Null becomes false."""
    return np.asarray(pc.fill_null(column, False))


def texts_of(column: pa.ChunkedArray) -> Texts:
    """A column of texts from Arrow's texts, with or without a dictionary."""
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    whole = coded.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        if not whole.num_chunks:
            return Texts(nothing(0), pa.array([], pa.string()))
        whole = whole.chunk(0)
    return Texts(column_of(pa.chunked_array([whole.indices])), whole.dictionary)


def minus(left: Column, right: Column) -> Column:
    """left - right. If the result does not fit into a long, it is the largest or the smallest long."""
    a, b = left.values, right.values
    with np.errstate(over="ignore"):
        plain = a - b
    beyond = ((a ^ b) & (a ^ plain)) < 0
    return Column(np.where(beyond, np.where(a > b, LARGEST, _LEAST), plain), left.valid & right.valid)


def greatest(*columns: Column) -> Column:
    """The largest value of each row, without the missing values, as Spark's `greatest` computes it."""
    found = columns[0]
    for one in columns[1:]:
        both = found.valid & one.valid
        larger = np.where(both, np.maximum(found.values, one.values), np.where(found.valid, found.values, one.values))
        found = Column(larger, found.valid | one.valid)
    return found


def behind(end: Column, offset: Column) -> Column:
    """The number of records between an offset and an end, at least 0."""
    rest = minus(end, offset)
    return Column(np.maximum(rest.values, 0), rest.valid)


def begins(*columns: Column) -> Mask:
    """Whether a row differs from the row before in at least one of these columns."""
    rows = len(columns[0].values)
    found = np.ones(rows, np.bool_)
    if rows:
        found[1:] = False
    for one in columns:
        values, valid = one.values, one.valid
        found[1:] |= (valid[1:] != valid[:-1]) | (valid[1:] & (values[1:] != values[:-1]))
    return found


class Parts:
    """Parts of rows, one after the other. A part begins where `first` is true."""

    def __init__(self, first: Mask) -> None:
        rows = len(first)
        self.rows = np.arange(rows, dtype=np.int64)
        self.number: Ints = np.cumsum(first, dtype=np.int64) - 1
        starts = np.flatnonzero(first)
        self.starts: Ints = starts.astype(np.int64)
        self.first: Ints = self.starts[self.number]
        self.last: Ints = np.append(self.starts[1:], rows)[self.number] - 1

    def before(self, column: Column, steps: int = 1) -> Column:
        """The value `steps` rows before, in the same part."""
        there = self.rows - steps >= self.first
        return column.at(np.maximum(self.rows - steps, 0), there)

    def after(self, column: Column, steps: int = 1) -> Column:
        """The value `steps` rows after, in the same part."""
        there = self.rows + steps <= self.last
        return column.at(np.minimum(self.rows + steps, max(len(self.rows) - 1, 0)), there)

    def latest(self, mask: Mask, *, before: bool = False) -> tuple[Ints, Mask]:
        """The last row with `mask` up to this row, and whether such a row exists. `before`: without this row."""
        found = np.maximum.accumulate(np.where(mask, self.rows, -1))
        if before:
            found = np.concatenate((np.full(min(len(found), 1), -1, np.int64), found[:-1]))
        there = found >= self.first
        return np.where(there, found, 0), there

    def count(self, mask: Mask) -> Ints:
        """The number of rows in the part for which `mask` is true."""
        return np.bincount(self.number, mask).astype(np.int64)[self.number]

    def count_so_far(self, mask: Mask) -> Ints:
        """The number of rows in the part up to this one for which `mask` is true."""
        total = np.cumsum(mask, dtype=np.int64)
        return total - (total[self.first] - mask[self.first])

    def max_so_far(self, column: Column) -> Column:
        """The largest value in the part up to this row."""
        words, ranks = np.unique(column.values, return_inverse=True)
        # a missing value gets a lower rank than all others, and each part has higher ranks than the parts before
        rank = np.where(column.valid, ranks + 1, 0) + self.number * (len(words) + 1)
        found = np.maximum.accumulate(rank) - self.number * (len(words) + 1)
        return Column(words[np.maximum(found - 1, 0)], found > 0) if len(words) else column

    def min_so_far(self, column: Column) -> Column:
        """The smallest value in the part up to this row."""
        # ~x reverses the order of numbers, and every number has such an opposite
        found = self.max_so_far(Column(~column.values, column.valid))
        return Column(~found.values, found.valid)

    def within(self, column: Column, first: int, last: int) -> tuple[Column, Column, Ints]:
        """The least value, the largest value and the number of values in some rows beside each row.

        These are the rows from `first` to `last` after the row. A negative number means a row before.
        """
        rows = len(self.rows)
        least, most, count = nothing(rows), nothing(rows), np.zeros(rows, np.int64)
        for step in range(first, last + 1):
            one = self.before(column, -step) if step <= 0 else self.after(column, step)
            least = Column(~greatest(Column(~least.values, least.valid), Column(~one.values, one.valid)).values,
                           least.valid | one.valid)  # fmt: skip
            most = greatest(most, one)
            count += one.valid
        return least, most, count


def sorted_rows(*keys: Any) -> Ints:
    """The indexes of the rows in the order of these keys, the first key first. Equal rows stay in their order."""
    return np.lexsort(keys[::-1]).astype(np.int64)


def struct(fields: pa.Schema, values: Mapping[str, Any]) -> pa.StructArray:
    """A column of structs with these fields. The values are a Column, Texts, or numpy arrays."""
    arrays = []
    for field in fields:
        value = values[field.name]
        if isinstance(value, Column):
            arrays.append(value.array(field.type))
        elif isinstance(value, Texts):
            arrays.append(value.array())
        else:
            arrays.append(pa.array(value, field.type))
    return pa.StructArray.from_arrays(arrays, fields=list(fields))


NO_MEMBERS: Final = 0


def marks_at(place: Parts, is_mark: Mask, state: Column, generation: Column, members: Column) -> list[Column]:
    """State, generation and number of members at each row, as the last mark up to the row has them.

    A group without any mark has no members.
    """
    mark, there = place.latest(is_mark)
    is_silent = place.count(is_mark) == 0
    has = members.at(mark, there)
    return [
        state.at(mark, there),
        generation.at(mark, there),
        Column(np.where(is_silent, NO_MEMBERS, has.values), has.valid | is_silent),
    ]


def owners_at(place: Sequence[Ints], log_offset: Ints, is_owner: Mask) -> tuple[Ints, Mask]:
    """For each row: the row that has the partition's owner, and whether such a row exists.

    It is the last owner's row of the same `place` up to the row's offset. If several have the same offset, the last one
    counts.
    """
    order = sorted_rows(*place, log_offset, ~is_owner)
    last, has_last = Parts(begins(*(known(key[order]) for key in place))).latest(is_owner[order])
    found, there = np.empty(len(order), np.int64), np.empty(len(order), np.bool_)
    found[order], there[order] = order[last], has_last
    return found, there
