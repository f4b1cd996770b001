"""The tables show what the groups did. Each module makes one table, or some related ones.

docs/pipeline-tables.md says what a row is. This module makes a DataFrame of the decoded rows of each kind, and counts
rows. It also passes Arrow rows to Python one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from muster.pipeline.frames import (
    Column,
    DataFrame,
    F,
    frame_of,
    from_arrow_schema,
    from_arrow_type,
    is_here,
    rows_of_frame,
)
from muster.pipeline.schema import KINDS, table_columns

ROWS_AT_ONCE: Final = 256
"""At most this many rows are Python objects at the same time. Nested rows take thirty times their memory in Arrow."""


def table(decoded: DataFrame, kind: str) -> DataFrame:
    """The rows of one kind, with the columns that the kind fills.

    Raises ValueError for a kind that is not in schema.KINDS.
    """
    if kind not in KINDS:
        raise ValueError(f"there is no table {kind!r}: it is one of {', '.join(KINDS)}")
    return decoded.where(F.col("kind") == kind).select(*table_columns(kind))


def shaped(rows: DataFrame, schema: pa.Schema, known: Mapping[str, Column]) -> DataFrame:
    """Rows with the columns and types of a schema.

    A column comes from `known`, or else from `rows`; if neither has it, it is null.
    """
    there = {**{name: F.col(name) for name in rows.columns}, **known}
    return rows.select(
        *(there.get(one.name, F.lit(None)).cast(from_arrow_type(one.type)).alias(one.name) for one in schema)
    )


def counts(decoded: DataFrame) -> DataFrame:
    """The number of rows by kind and key type: kind, key_type (null: not readable), rows."""
    return decoded.groupBy("kind", "key_type").agg(F.count("*").alias("rows")).orderBy("kind", "key_type")


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """The rows of batches as Python values, one after the other."""
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            yield from batch.slice(start, ROWS_AT_ONCE).to_pylist()


def as_row(value: Any) -> Any:
    """A named tuple as the dictionary that Arrow needs. Nested named tuples become dictionaries too."""
    if not isinstance(value, tuple):
        return value
    names = getattr(value, "_fields", None)
    return list(map(as_row, value)) if names is None else dict(zip(names, map(as_row, value), strict=True))


def batches_of(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows that Python makes one after the other, as Arrow batches."""
    remaining = iter(rows)
    while some := list(islice(remaining, ROWS_AT_ONCE)):
        yield pa.RecordBatch.from_pylist(some, schema)


def by_group(
    rows: DataFrame,
    order: str,
    make: Callable[[str, Iterator[dict[str, Any]]], Iterable[dict[str, Any]]],
    schema: pa.Schema,
) -> DataFrame:
    """The rows that `make` returns for the rows of each group. `make` gets them in the order `order`."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        groups = groupby(rows_of(batches), itemgetter("group"))
        return batches_of((row for group, some in groups for row in make(group, some)), schema)

    if is_here():
        groups = groupby(rows_of_frame(rows.sort("group", order)), itemgetter("group"))
        made = [row for group, some in groups for row in make(group, some)]
        return frame_of(pa.Table.from_pylist(made, schema))
    # all rows of a group are together
    in_order = rows.repartition("group").sortWithinPartitions("group", order)
    return in_order.mapInArrow(run, from_arrow_schema(schema))


def keep(rows: DataFrame) -> DataFrame:
    """The same rows as `rows`. Spark computes them when first needed, and keeps them."""
    if is_here():
        return rows
    from muster.pipeline.frames.spark import keep_in_spark

    return keep_in_spark(rows)
