"""Tables in the form for users: with `group_id`, with times as TIMESTAMP, and with comments.

Inside the pipeline a time is in ms since 1970, and the column of the group is `group`. The written tables have these
columns too, and beside them the columns that are easier for SQL.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType, TimestampType

from muster.pipeline.tables.comments import comment
from muster.pipeline.tables.schema import NEVER_NULL, TABLES

MOMENTS: Final = {
    "time_ms": "time",
    "start_ms": "start_time",
    "end_ms": "end_time",
    "first_ms": "first_time",
    "last_ms": "last_time",
    "from_ms": "from",
    "until_ms": "until",
    "ending_ms": "ending_time",
    "fenced_ms": "fenced_time",
    "committed_ms": "committed_time",
    "stated_ms": "stated_time",
    "log_timestamp_ms": "log_time",
    "start_earliest_ms": "start_earliest_time",
    "start_latest_ms": "start_latest_time",
    "silent_from_ms": "silent_from_time",
    "oldest_ms": "oldest_time",
    "changed_ms": "changed_time",
    "deleted_ms": "deleted_time",
}
"""The columns that are times, and their names as a TIMESTAMP. Other columns that end in `_ms` are durations."""
GROUP_ID: Final = "group_id"
_SAME_AS: Final[dict[str, tuple[str, ...]]] = {GROUP_ID: ("group",)} | {
    comments: tuple(name for name, other in MOMENTS.items() if other == comments) for comments in MOMENTS.values()
}
"""The columns that also have a second name."""
_OF_SPARK: Final = "org.apache.spark.sql.parquet.row.metadata"
"""The key under which a Parquet file has Spark's own schema, with comments."""


def published(rows: DataFrame, table: str) -> DataFrame:
    """The rows of a table, with the columns for users at the end. The schema says which columns are never null."""
    kinds = {field.name: field.dataType for field in rows.schema.fields}
    own = {name: _sure(F.col(name), table, name, kinds[name]) for name in rows.columns}
    also = {MOMENTS[name]: F.timestamp_millis(own[name]) for name in rows.columns if name in MOMENTS}
    also |= {GROUP_ID: own["group"]} if "group" in rows.columns else {}
    comments = dict(names_of(table, rows.columns))
    return rows.select(*(_commented(value, name, comments[name]) for name, value in (own | also).items()))


def names_of(table: str, columns: list[str]) -> list[tuple[str, str | None]]:
    """All columns with which a table is written, each with its meaning."""
    more: list[tuple[str, str | None]] = [
        (MOMENTS[name], f"{comment(table, name) or name} (UTC)") for name in columns if name in MOMENTS
    ]
    if "group" in columns:
        more.append((GROUP_ID, comment(table, "group")))
    return [*((name, comment(table, name)) for name in columns), *more]


def is_sure(table: str, column: str) -> bool:
    """Whether a column of a written table is never null."""
    return any(name in NEVER_NULL[table] for name in _SAME_AS.get(column, (column,)))


def empty(table: str) -> pa.Table:
    """A table without rows, with all comments and other facts about its columns."""
    own = from_arrow_schema(TABLES[table])
    kinds = {field.name: field.dataType for field in own.fields}
    kinds |= {MOMENTS[name]: TimestampType() for name in own.names if name in MOMENTS}
    kinds |= {GROUP_ID: kinds["group"]} if "group" in own.names else {}
    comments = StructType(
        [
            StructField(name, kinds[name], not is_sure(table, name), {"comment": words} if words else None)
            for name, words in names_of(table, own.names)
        ]
    )
    return to_arrow_schema(comments, timezone="UTC").with_metadata({_OF_SPARK: comments.json()}).empty_table()


def _sure(value: Column, table: str, name: str, kind: DataType) -> Column:
    """The column, marked for Spark as never null. A null in it is an error."""
    if not is_sure(table, name):
        return value
    typed = kind.simpleString()
    failed = f"cast(raise_error('the table {table} has a row without {name}') as {typed})"
    something = "array()" if isinstance(kind, ArrayType) else "''" if isinstance(kind, StringType) else "0"
    # the unreachable last value proves to Spark that the result is never null: an error alone may be null. It is a
    # text, because columns cost a dozen calls into Java
    return F.expr(f"coalesce(`{name}`, {failed}, cast({something} as {typed}))")


def _commented(value: Column, name: str, words: str | None) -> Column:
    return value.alias(name) if words is None else value.alias(name, metadata={"comment": words})
