"""The reference of the pipeline's tables: the columns of each table, from the schema and its comments."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Final

import pyarrow as pa

from muster.coordinator.groups.common import events
from muster.pipeline.episodes import thresholds
from muster.pipeline.published import MOMENTS, is_sure
from muster.pipeline.schema import UNKNOWN
from muster.pipeline.tables.comments import SHARED, comment, is_shared
from muster.pipeline.tables.schema import TABLES
from tools.site.references.docstrings import ROOT, constants

_TYPES: Final = {"int64": "long", "int32": "int", "int16": "short", "bool": "boolean"}
_BEFORE: Final = "_before"
_AFTER: Final = "_after"
_HEAD: Final = """# The pipeline's tables, column by column

[The pipeline's tables](../pipeline-tables.md) says what a row of each table is, and by which rules it is made.

* A type stands behind its columns. **Bold**: never null. Elsewhere null means "not known", if nothing else is stated.
* `time` is a long: ms since 1970 by the broker's clock. Beside `start_ms`, `start_time` has the same as TIMESTAMP in
  UTC. Four names differ: `time`, `from`, `until`, `log_time` (of `log_timestamp_ms`).
* Every table but `transactions` begins with `group` (string, never null). `group_id` has the same, for SQL.

## Columns of several tables

"""


def page() -> str:
    """The page. The table `unknown` is left out, because it has the columns of `malformed`."""
    parts = [_HEAD + shared()]
    parts += (f"## `{name}` {{ #{name} }}\n\n{columns(name)}" for name in TABLES if name != UNKNOWN)
    return "\n\n".join([*parts, _thresholds()]) + "\n"


def _thresholds() -> str:
    """The values behind episodes and verdicts. Times are in ms in the code, and in seconds here."""
    rows = ["## Thresholds of episodes and verdicts { #thresholds }", "", "| name | value | |", "|---|---|---|"]
    for module in (events, thresholds):
        path = Path(ROOT, *module.__name__.split(".")[1:]).with_suffix(".py")
        for one in constants(path.read_text(encoding="utf-8")):
            value = vars(thresholds).get(one.name)
            if value is not None and one.name not in ("SECOND", "MINUTE"):
                shown = f"{value / 1_000:g} s" if one.name.endswith("_MS") else f"{value:g}"
                rows.append(f"| `{one.name}` | {shown} | {one.text} |")
    return "\n".join(rows)


def shared() -> str:
    """The columns that have the same meaning in all tables."""
    return _table((f"`{name}`", words) for name, words in SHARED.items())


def columns(name: str) -> str:
    """The columns of one table. `group` and `actual_…` are described once on the page, and so are shared columns."""
    fields = [field for field in TABLES[name] if not _stands_elsewhere(name, field.name)]
    common = [field for field in fields if is_shared(name, field.name)]
    rows = [(_typed(name, common), "shared")] if common else []
    own = (field for field in fields if not is_shared(name, field.name))
    rows += ((_typed(name, some), words) for words, some in groupby(own, lambda field: _meaning(name, field.name)))
    return _table(rows)


def _table(rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join(("| column | meaning", "|---|---", *(f"| {column} | {meaning}" for column, meaning in rows)))


def _stands_elsewhere(table: str, column: str) -> bool:
    """Whether the page describes the column elsewhere: in its first lines, or in another row."""
    is_group = column == "group" and is_sure(table, column)
    return is_group or column.startswith("actual_") or (table == "comparison" and column.endswith(_AFTER))


def _typed(table: str, fields: Iterable[pa.Field]) -> str:
    """The names of columns with their types. Bold: the column is never null."""
    by_kind = groupby(fields, lambda field: _kind(table, field))
    return ", ".join(
        f"{', '.join(name for field in some for name in _names(table, field.name))} {kind}" for kind, some in by_kind
    )


def _names(table: str, column: str) -> list[str]:
    names = [column]
    if table == "comparison" and column.endswith(_BEFORE):
        names.append(column.removesuffix(_BEFORE) + _AFTER)
    return [f"`{name}`" for name in names]


def _kind(table: str, field: pa.Field) -> str:
    kind = "time" if field.name in MOMENTS else _type(field.type)
    return f"**{kind}**" if is_sure(table, field.name) else kind


def _meaning(table: str, column: str) -> str:
    words = (comment(table, column) or "").removesuffix("; null: not known")
    return words.removesuffix(", before the change") if table == "comparison" else words


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"array of {_type(kind.value_type)}"
    if pa.types.is_struct(kind):
        return f"({', '.join(kind.field(at).name for at in range(kind.num_fields))})"
    return _TYPES.get(str(kind), str(kind))
