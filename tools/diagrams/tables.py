"""The page of reference of the pipeline's tables, from their schema and the comments of their columns."""

from __future__ import annotations

import pyarrow as pa

from muster.pipeline.facts.comments import comment
from muster.pipeline.facts.schema import TABLES
from muster.pipeline.published import GROUP_ID, MOMENTS, is_sure
from tools.diagrams.pages import Parts

_TYPES = {"int64": "long", "int32": "int", "int16": "short", "bool": "boolean"}


def reference() -> str:
    """Every table with its columns."""
    return "\n\n".join(f"## `{name}`\n\n{_table(name, schema)}" for name, schema in TABLES.items())


def _table(name: str, schema: pa.Schema) -> str:
    lines = ["| column | type | always | meaning |", "|---|---|---|---|"]
    for field in schema:
        also = MOMENTS.get(field.name) or (GROUP_ID if field.name == "group" else None)
        names = f"`{field.name}`" + (f", `{also}`" if also else "")
        kind = _type(field.type) + (", timestamp" if field.name in MOMENTS else "")
        sure = "yes" if is_sure(name, field.name) else ""
        lines.append(f"| {names} | {kind} | {sure} | {comment(name, field.name) or ''} |")
    return "\n".join(lines)


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"array of {_type(kind.value_type)}"
    if pa.types.is_struct(kind):
        return f"struct of {', '.join(kind.field(at).name for at in range(kind.num_fields))}"
    return _TYPES.get(str(kind), str(kind))


PARTS: Parts = {"tables": reference}
