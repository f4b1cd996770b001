"""The DataFrames from which the tables are made: Spark's, or those of this process (`frame.Frame`).

A module of tables imports `F` and `Window` from here, by the names that Spark has. So each rule of a table is written
once. In the block `in_this_process`, the tables are made without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, Window
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type
else:
    Column = DataFrame = object

    class _Chosen:
        """The attributes of a module or class of Spark or, without Spark, of its counterpart in this package."""

        def __init__(self, spark: str, here: str) -> None:
            self._places = (spark, here)

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            module, _, attribute = self._places[_is_here.get()].partition(":")
            found = import_module(module)
            return getattr(getattr(found, attribute) if attribute else found, name)

    F = _Chosen("pyspark.sql.functions", "muster.pipeline.frames.functions")
    Window = _Chosen("pyspark.sql:Window", "muster.pipeline.frames.window:Window")

    def from_arrow_schema(schema):
        """The schema for `mapInArrow` and `applyInArrow`."""
        return schema if _is_here.get() else _types().from_arrow_schema(schema)

    def from_arrow_type(kind):
        """The type for `cast`."""
        return kind if _is_here.get() else _types().from_arrow_type(kind)

    def _types():
        return import_module("pyspark.sql.pandas.types")


_is_here: Final = ContextVar("_is_here", default=False)


@contextmanager
def in_this_process() -> Iterator[None]:
    """Tables that are made in this block need no Spark."""
    before = _is_here.set(True)
    try:
        yield
    finally:
        _is_here.reset(before)


def is_here() -> bool:
    """Whether the tables are made without Spark."""
    return _is_here.get()


def frame_of(table: pa.Table) -> DataFrame:
    """The rows of an Arrow table, in this process."""
    from muster.pipeline.frames.frame import Frame

    found: Any = Frame.of_table(table)
    rows: DataFrame = found
    return rows


def rows_of_frame(rows: DataFrame) -> Iterator[dict[str, Any]]:
    """The rows of a frame in this process, as dictionaries."""
    frame: Any = rows
    found: Iterator[dict[str, Any]] = frame.rows()
    return found


def empty(schema: pa.Schema, beside: DataFrame) -> DataFrame:
    """A table without rows. `beside`: any DataFrame, for its session."""
    if is_here():
        return frame_of(schema.empty_table())
    rows: DataFrame = beside.sparkSession.createDataFrame([], from_arrow_schema(schema))
    return rows


def spread(rows: DataFrame, column: str) -> DataFrame:
    """The same rows in many tasks of Spark. Rows with one value of a column stay together.

    Otherwise Spark would put a few bytes, and all the work, into one task.
    """
    if is_here():
        return rows
    spark = rows.sparkSession
    tasks = max(int(spark.conf.get("spark.sql.shuffle.partitions") or 1), 4 * spark.sparkContext.defaultParallelism)
    return rows.repartition(tasks, column)


__all__ = [
    "Column", "DataFrame", "F", "Window", "empty", "frame_of", "from_arrow_schema", "from_arrow_type",
    "in_this_process", "is_here", "rows_of_frame", "spread",
]  # fmt: skip
