"""The results along the commits, of all kinds in the same three columns: name, numbers and texts.

In Arrow a column of structs takes space for all its fields in each row, also where it is null. With a column for each
kind, each of the million commits beside them took 600 bytes more. They went from Python to Java, and through what Spark
writes for each field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_type

from muster.pipeline.schema import columns

FINDING: Final = pa.schema(
    [*columns("group string, found string"), ("numbers", pa.list_(pa.int64())), ("texts", pa.list_(pa.string()))]
)
"""A row of one kind, `found`, in the order of the fields of its schema after `group`, the first one.

Whole numbers and booleans are in `numbers`, texts in `texts`. A list of numbers may be the last field: it is the end of
`numbers`.
"""


def packed(found: str, rows: pa.StructArray) -> pa.RecordBatch:
    """Rows of a kind as FINDING."""
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
    """A list for each row: its value in each of these columns, and the list at the end."""
    place = np.arange(rows)[:, None] + rows * np.arange(len(some))
    order, sizes = place.ravel(), np.full(rows, len(some))
    ends = pa.array([], kind)
    if tail is not None:
        more = tail.value_lengths().to_numpy(zero_copy_only=False)
        # each list follows the columns of its row
        ends = tail.flatten()
        order = np.insert(order, np.repeat(np.cumsum(sizes), more), len(order) + np.arange(len(ends)))
        sizes = sizes + more
    values = pa.concat_arrays([*some, ends]).take(pa.array(order))
    return pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(sizes)), pa.int32()), values)


def unpacked(walk: DataFrame, found: str, schema: pa.Schema) -> DataFrame:
    """The rows of a kind with the columns of its schema. `walk`: rows of `commits.walked`."""
    # as text: a column that is an object costs eight calls into Java
    wanted = (f"cast({value} as {from_arrow_type(kind).simpleString()}) as `{name}`"
              for name, kind, value in _places(schema))  # fmt: skip
    return walk.where(f"found = '{found}'").selectExpr("`group`", *wanted)


def _places(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType, str]]:
    """The fields after the group, and where each one is."""
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
    """The same for one row of FINDING, in Python."""
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
