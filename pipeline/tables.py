"""Decoded rows as tables (DataFrames), one for each kind, and their counts; and Arrow rows one by one for Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it
from pyspark.sql.pandas.types import from_arrow_schema

from muster.pipeline.schema import KINDS, table_columns

ROWS_AT_ONCE: Final = 256
"""Rows that are Python objects at the same time: nested rows take thirty times their memory in Arrow."""


def table(decoded: DataFrame, kind: str) -> DataFrame:
    """The rows of one kind with the columns that it fills. ValueError for a kind that is not in schema.KINDS."""
    if kind not in KINDS:
        raise ValueError(f"there is no table {kind!r}: it is one of {', '.join(KINDS)}")
    return decoded.where(F.col("kind") == kind).select(*table_columns(kind))


def shaped(rows: DataFrame, schema: pa.Schema, known: Mapping[str, Column]) -> DataFrame:
    """Rows in the columns and types of a schema: the `known` ones, else those that rows have, else null."""
    there = {**{name: F.col(name) for name in rows.columns}, **known}
    wanted = from_arrow_schema(schema).fields
    return rows.select(*(there.get(one.name, F.lit(None)).cast(one.dataType).alias(one.name) for one in wanted))


def counts(decoded: DataFrame) -> DataFrame:
    """How many rows there are: kind, key_type (null where none could be read), rows; by kind and key type."""
    return decoded.groupBy("kind", "key_type").agg(F.count("*").alias("rows")).orderBy("kind", "key_type")


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Rows as Python's own values, one after the other."""
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            yield from batch.slice(start, ROWS_AT_ONCE).to_pylist()


def as_row(value: Any) -> Any:
    """A named tuple as the dictionary that Arrow takes, with all that is in it."""
    if not isinstance(value, tuple):
        return value
    names = getattr(value, "_fields", None)
    return list(map(as_row, value)) if names is None else dict(zip(names, map(as_row, value), strict=True))


def batches_of(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows that Python made one after the other, as Arrow."""
    remaining = iter(rows)
    while some := list(islice(remaining, ROWS_AT_ONCE)):
        yield pa.RecordBatch.from_pylist(some, schema)


def by_group(
    rows: DataFrame,
    order: str,
    make: Callable[[str, Iterator[dict[str, Any]]], Iterable[dict[str, Any]]],
    schema: pa.Schema,
) -> DataFrame:
    """The rows that `make` makes of those of each group, which it is given in this order."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        groups = groupby(rows_of(batches), itemgetter("group"))
        return batches_of((row for group, some in groups for row in make(group, some)), schema)

    # all of a group together
    in_order = rows.repartition("group").sortWithinPartitions("group", order)
    return in_order.mapInArrow(run, from_arrow_schema(schema))
