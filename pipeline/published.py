"""Tables in the form for users: with `group_id`, with times as TIMESTAMP, and with comments.

Inside the pipeline a time is in ms since 1970, and the column of the group is `group`. The written tables have these
columns too, and beside them the columns that are easier for SQL. Spark makes this form of a DataFrame (`published`),
this process of an Arrow table (`published_here`).
"""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from muster.pipeline.frames import Column, DataFrame, F
from muster.pipeline.frames.types import name_of
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
    "done_ms": "done_time",
    "idle_from_ms": "idle_from",
    "idle_until_ms": "idle_until",
}
"""The columns that are times, and their names as a TIMESTAMP. Other columns that end in `_ms` are durations."""
GROUP_ID: Final = "group_id"
_SAME_AS: Final[dict[str, tuple[str, ...]]] = {GROUP_ID: ("group",)} | {
    comments: tuple(name for name, other in MOMENTS.items() if other == comments) for comments in MOMENTS.values()
}
"""The columns that also have a second name."""
_MOMENT: Final = pa.timestamp("us", "UTC")
_OF_SPARK: Final = "org.apache.spark.sql.parquet.row.metadata"
"""The key under which a Parquet file has Spark's own schema, with comments."""
_IN_JSON: Final = {"bigint": "long", "int": "integer", "smallint": "short", "tinyint": "byte"}
"""The types that have another name in the JSON of Spark's schemas."""


def published(rows: DataFrame, table: str) -> DataFrame:
    """The rows of a table of Spark, with the columns for users at the end. The schema says which are never null."""
    own = {name: _sure(F.col(name), table, name) for name in rows.columns}
    also = {MOMENTS[name]: F.timestamp_millis(own[name]) for name in rows.columns if name in MOMENTS}
    also |= {GROUP_ID: own["group"]} if "group" in rows.columns else {}
    comments = dict(names_of(table, rows.columns))
    return rows.select(*(_commented(value, name, comments[name]) for name, value in (own | also).items()))


def published_here(rows: pa.Table, table: str) -> pa.Table:
    """The same for an Arrow table with the columns of a table. Raises ValueError for a null where none may be."""
    schema = empty(table).schema
    sources = {MOMENTS[name]: name for name in TABLES[table].names if name in MOMENTS} | {GROUP_ID: "group"}
    columns = []
    for field in schema:
        column = rows.column(sources.get(field.name, field.name))
        if column.null_count and not field.nullable:
            raise ValueError(f"the table {table} has a row without {field.name}")
        columns.append(pc.cast(column, pa.timestamp("ms", "UTC")) if field.type == _MOMENT else column)
    return pa.table([column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)


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
    own = TABLES[table]
    kinds = {field.name: field.type for field in own}
    kinds |= {MOMENTS[name]: _MOMENT for name in own.names if name in MOMENTS}
    kinds |= {GROUP_ID: kinds["group"]} if "group" in own.names else {}
    names = names_of(table, own.names)
    fields = [
        {
            "metadata": {"comment": words} if words else {},
            "name": name,
            "nullable": not is_sure(table, name),
            "type": _json_type(kinds[name]),
        }
        for name, words in names
    ]
    text = json.dumps({"fields": fields, "type": "struct"}, separators=(",", ":"), sort_keys=True)
    columns = [pa.field(name, kinds[name], not is_sure(table, name)) for name, _ in names]
    return pa.schema(columns, {_OF_SPARK: text}).empty_table()


def _json_type(kind: pa.DataType) -> Any:
    """An Arrow type in the JSON of Spark's schemas."""
    if pa.types.is_struct(kind):
        fields = [{"metadata": {}, "name": one.name, "nullable": True, "type": _json_type(one.type)} for one in kind]
        return {"type": "struct", "fields": fields}
    if pa.types.is_list(kind):
        return {"type": "array", "elementType": _json_type(kind.value_type), "containsNull": True}
    if kind == _MOMENT:
        return "timestamp"
    name = name_of(kind)
    return _IN_JSON.get(name, name)


def _sure(value: Column, table: str, name: str) -> Column:
    """The column, marked for Spark as never null. A null in it is an error."""
    if not is_sure(table, name):
        return value
    typed = name_of(TABLES[table].field(name).type)
    failed = f"cast(raise_error('the table {table} has a row without {name}') as {typed})"
    something = "array()" if typed.startswith("array") else "''" if typed == "string" else "0"
    # the unreachable last value proves to Spark that the result is never null: an error alone may be null. It is a
    # text, because columns cost a dozen calls into Java
    return F.expr(f"coalesce(`{name}`, {failed}, cast({something} as {typed}))")


def _commented(value: Column, name: str, words: str | None) -> Column:
    return value.alias(name) if words is None else value.alias(name, metadata={"comment": words})
