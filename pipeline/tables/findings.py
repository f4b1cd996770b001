"""The results of the pass over the commits. All kinds of results have the same three columns: name, numbers and texts.

In Arrow, a column of structs takes space for all its fields, even in a row with null. When each kind had its own
column, each of the million commits took 600 bytes more. These bytes went from Python to Java, and through the code that
Spark writes for each field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from muster.pipeline.frames import DataFrame
from muster.pipeline.frames.types import name_of
from muster.pipeline.schema import columns

FINDING: Final = pa.schema(
    [*columns("group string, found string"), ("numbers", pa.list_(pa.int64())), ("texts", pa.list_(pa.string()))]
)
"""A result. Its kind is `found`, and its values are in the order of the fields of the kind's schema.

The first field is always `group`. Whole numbers and booleans are in `numbers`, and texts in `texts`. The last field may
be a list of numbers: it follows the other `numbers`.
"""


def packed(found: str, rows: pa.StructArray) -> pa.RecordBatch:
    """The rows of one kind in the form of FINDING."""
    fields = list(rows.type)[1:]
    numbers = [rows.field(one.name) for one in fields if _is_number(one.type)]
    texts = [rows.field(one.name) for one in fields if pa.types.is_string(one.type)]
    tail = rows.field(fields[-1].name) if pa.types.is_list(fields[-1].type) else None
    arrays = [
        rows.field("group"),
        pa.repeat(found, len(rows)),
        _side_by_side([one.cast(pa.int64()) for one in numbers], len(rows), pa.int64(), tail),
        _side_by_side(texts, len(rows), pa.string()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=FINDING)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _side_by_side(some: Sequence[pa.Array], rows: int, kind: pa.DataType, tail: pa.ListArray | None = None) -> pa.Array:
    """One list for each row: the row's values of these columns, then the numbers of its list at the end."""
    place = np.arange(rows)[:, None] + rows * np.arange(len(some))
    order, sizes = place.ravel(), np.full(rows, len(some))
    ends = pa.array([], kind)
    if tail is not None:
        more = tail.value_lengths().to_numpy(zero_copy_only=False)
        # in each row, the numbers of the list follow the values of the columns
        ends = tail.flatten()
        order = np.insert(order, np.repeat(np.cumsum(sizes), more), len(order) + np.arange(len(ends)))
        sizes = sizes + more
    values = pa.concat_arrays([*some, ends]).take(pa.array(order))
    return pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(sizes)), pa.int32()), values)


def unpacked(walk: DataFrame, found: str, schema: pa.Schema) -> DataFrame:
    """The rows of one kind, with the columns of its schema. `walk`: rows of `commits.walked`."""
    # the expression is a text, because a column object costs eight calls into Java
    wanted = (f"cast({value} as {name_of(kind)}) as `{name}`"
              for name, kind, value in _places(schema))  # fmt: skip
    return walk.where(f"found = '{found}'").selectExpr("`group`", *wanted)


def _places(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType, str]]:
    """The fields after the group, and the position of each field in `numbers` or `texts`."""
    numbers = texts = 0
    for one in list(schema)[1:]:
        if _is_number(one.type):
            yield one.name, one.type, f"numbers[{numbers}]"
            numbers += 1
        elif pa.types.is_string(one.type):
            yield one.name, one.type, f"texts[{texts}]"
            texts += 1
        else:
            yield one.name, one.type, f"slice(numbers, {numbers + 1}, size(numbers))"


def read(row: Mapping[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """The values of one row of FINDING, by the fields of its schema, as Python values."""
    numbers, texts = iter(row["numbers"]), iter(row["texts"])
    found = {"group": row["group"]}
    for one in list(schema)[1:]:
        if pa.types.is_boolean(one.type):
            number = next(numbers)
            found[one.name] = None if number is None else bool(number)
        elif pa.types.is_integer(one.type):
            found[one.name] = next(numbers)
        elif pa.types.is_string(one.type):
            found[one.name] = next(texts)
        else:
            found[one.name] = list(numbers)
    return found
