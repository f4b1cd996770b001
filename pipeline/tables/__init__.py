"""The tables show what the groups did. Each module makes one table, or some related ones.

docs/pipeline-tables.md has the columns. This module makes a DataFrame of the decoded rows of each kind, and counts
rows. It also passes Arrow rows to Python one by one. `keep` and `planned_once` save planning time. Spark keeps the rows
of a persisted table, but tables made from it still carry its plan. Spark checks each step of a plan against all steps
before. In a join of a table with another table that was made from it, Spark copies the plan. For the tables of the
pipeline, this took more time than the work itself.
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
    wanted = from_arrow_schema(schema).fields
    return rows.select(*(there.get(one.name, F.lit(None)).cast(one.dataType).alias(one.name) for one in wanted))


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

    # all rows of a group are together
    in_order = rows.repartition("group").sortWithinPartitions("group", order)
    return in_order.mapInArrow(run, from_arrow_schema(schema))


_ADAPTIVE: Final = "spark.sql.adaptive.enabled"


@contextmanager
def planned_once(spark: SparkSession) -> Iterator[None]:
    """Queries that begin in this block are not planned again while they run.

    If tables that `keep` keeps were planned before, they are planned again all the same. After each step of a query
    Spark writes its plan as text, whether a page shows it or not. This plan has the plans of all kept tables that the
    query reads. Our tables read each other, so these texts took two thirds of the time for all plans.
    """
    before = spark.conf.get(_ADAPTIVE)
    spark.conf.set(_ADAPTIVE, "false")
    try:
        yield
    finally:
        spark.conf.set(_ADAPTIVE, before or "true")


def keep(rows: DataFrame) -> DataFrame:
    """The same rows as `rows`. They are computed when first needed, and kept until `spark.catalog.clearCache`.

    Tables made from them do not carry their plan, if Spark's internals allow that. Spark has no public method for it.
    """
    kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        return _as_leaf(kept)
    except (
        Py4JError,
        AttributeError,
        TypeError,
    ):  # another version of Spark, or one without access to the internals (Connect)
        return kept


def _as_leaf(kept: DataFrame) -> DataFrame:
    """The same rows. Their plan is only Spark's own store of kept rows (InMemoryRelation)."""
    spark = kept.sparkSession
    session = spark._jsparkSession
    place = session.sharedState().cacheManager().lookupCachedData(kept._jdf).get().cachedRepresentation()
    jvm: Any = spark._jvm
    return ClassicDataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, place), spark)
