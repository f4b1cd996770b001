"""The tables: what the groups did, one module for related tables. docs/pipeline-tables.md has the columns.

Here are decoded rows as DataFrames, one for each kind, and their counts. Python gets Arrow rows here one by one. `keep`
and `planned_once` save planning time. Spark keeps the rows of a persisted table, but tables made of it still carry its
plan. Spark checks each step against all steps before it. A join of a table with its own descendants copies them. For
these tables this took more time than the work itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from muster.pipeline.schema import KINDS, table_columns

ROWS_AT_ONCE: Final = 256
"""So many rows are Python objects at the same time: nested rows take thirty times their memory in Arrow."""


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
    """How many rows there are: kind, key_type (null: not readable), rows; by kind and key type."""
    return decoded.groupBy("kind", "key_type").agg(F.count("*").alias("rows")).orderBy("kind", "key_type")


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Rows as Python's own values, one after the other."""
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            yield from batch.slice(start, ROWS_AT_ONCE).to_pylist()


def as_row(value: Any) -> Any:
    """A named tuple as the dictionary that Arrow takes, with all nested ones."""
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
    """The rows that `make` makes of the rows of each group, which it gets in this order."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        groups = groupby(rows_of(batches), itemgetter("group"))
        return batches_of((row for group, some in groups for row in make(group, some)), schema)

    # all of a group together
    in_order = rows.repartition("group").sortWithinPartitions("group", order)
    return in_order.mapInArrow(run, from_arrow_schema(schema))


_ADAPTIVE: Final = "spark.sql.adaptive.enabled"


@contextmanager
def planned_once(spark: SparkSession) -> Iterator[None]:
    """Queries that begin in this block are not planned again while they run.

    Tables that `keep` keeps are still planned again, if they were planned before. After each step of a query Spark
    writes its plan for a page, whether the page is served or not. This plan has the plans of all kept tables that it
    starts from. These tables start from each other, so that was two thirds of the time that all plans took.
    """
    before = spark.conf.get(_ADAPTIVE)
    spark.conf.set(_ADAPTIVE, "false")
    try:
        yield
    finally:
        spark.conf.set(_ADAPTIVE, before or "true")


def keep(rows: DataFrame) -> DataFrame:
    """`rows`, computed when first needed and kept until `spark.catalog.clearCache`.

    Tables made of them do not carry their plan, if Spark's internals allow that. Spark has no public name for it.
    """
    kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        return _as_leaf(kept)
    except (
        Py4JError,
        AttributeError,
        TypeError,
    ):  # another version of Spark, or one whose internals cannot be reached (Connect)
        return kept


def _as_leaf(kept: DataFrame) -> DataFrame:
    """The same rows, with Spark's own store of kept rows (InMemoryRelation) as plan."""
    spark = kept.sparkSession
    session = spark._jsparkSession
    place = session.sharedState().cacheManager().lookupCachedData(kept._jdf).get().cachedRepresentation()
    jvm: Any = spark._jvm
    return ClassicDataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, place), spark)
