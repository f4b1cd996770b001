"""Tables as text, CSV or JSON lines, in the form of Spark's writers. Without Spark."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from muster.pipeline.arguments import CSV, JSON

ROWS_AT_ONCE: Final = 1_024
"""At most this many rows are Python objects at the same time."""
_QUOTED: Final = (",", '"', "\n", "\r")


def write_text_table(table: pa.Table, file: Path, form: str) -> None:
    """Write a table into a file, in place of an old one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", encoding="utf-8", newline="") as stream:
        stream.writelines(f"{line}\n" for line in _LINES[form](table))


def _json_lines(table: pa.Table) -> Iterator[str]:
    return (json.dumps(_plain(row), ensure_ascii=False, separators=(",", ":")) for row in _rows(table))


def _csv_lines(table: pa.Table) -> Iterator[str]:
    yield ",".join(map(_cell, table.column_names))
    for row in _rows(table):
        yield ",".join(map(_cell, row.values()))


_LINES: Final[Mapping[str, Callable[[pa.Table], Iterator[str]]]] = {CSV: _csv_lines, JSON: _json_lines}


def _rows(table: pa.Table) -> Iterable[dict[str, Any]]:
    return (row for batch in table.to_batches(ROWS_AT_ONCE) for row in batch.to_pylist())


def _plain(value: Any) -> Any:
    """A value of Arrow as one of JSON."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return list(map(_plain, value))
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict | list):
        text = json.dumps(_known(_plain(value)), ensure_ascii=False, separators=(",", ":"))
    else:
        plain = _plain(value)
        text = str(plain).lower() if isinstance(plain, bool) else str(plain)
    return text if text and not any(one in text for one in _QUOTED) else '"' + text.replace('"', '""') + '"'


def _known(value: Any) -> Any:
    """A nested value without the fields that are null."""
    if isinstance(value, dict):
        return {name: _known(one) for name, one in value.items() if one is not None}
    return list(map(_known, value)) if isinstance(value, list) else value
