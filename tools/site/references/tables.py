"""The reference of the pipeline's tables: the columns of each table, from the schema and its comments."""

from __future__ import annotations

from muster.pipeline.schema import UNKNOWN
from muster.pipeline.tables.schema import TABLES
from tools.diagrams.tables import columns, shared

_HEAD = """# The pipeline's tables, column by column

[The pipeline's tables](../pipeline-tables.md) says what a row of each table is, and by which rules it is made.

* A type stands behind its columns. **Bold**: never null. Elsewhere null means "not known", if nothing else is stated.
* `time` is a long: ms since 1970 by the broker's clock. Beside `start_ms`, `start_time` has the same as TIMESTAMP in
  UTC. Four names differ: `time`, `from`, `until`, `log_time` (of `log_timestamp_ms`).
* Every table but `transactions` begins with `group` (string, never null). `group_id` has the same, for SQL.

## Columns of several tables

"""


def page() -> str:
    """The page."""
    parts = [_HEAD + shared()]
    parts += (f"## `{name}` {{ #{name} }}\n\n{columns(name)}" for name in TABLES if name != UNKNOWN)
    return "\n\n".join(parts) + "\n"
