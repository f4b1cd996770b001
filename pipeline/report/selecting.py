"""Rows of tables as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame

from muster.pipeline.report.content import Row, Some

LINES: Final = 40
"""Rows of a table of the page, unless it says otherwise."""

Tables = Mapping[str, DataFrame]


def some_of(rows: DataFrame, *order: Column | str, limit: int = LINES) -> Some:
    """The first rows in an order, and how many there are in all."""
    first = rows_of(rows.orderBy(*order).limit(limit))
    return Some(first, len(first) if len(first) < limit else rows.count())


def rows_of(rows: DataFrame) -> list[Row]:
    """All rows."""
    return [row.asDict(recursive=True) for row in rows.collect()]


def row_of(rows: DataFrame) -> Row:
    """The only row."""
    return rows_of(rows)[0]
