"""Tables as others are given them: with `group_id`, times as TIMESTAMP, and comments.

Inside the pipeline times are ms since 1970 and the group is `group`. Both stay; what is easier for SQL stands beside.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.facts.comments import comment

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
}
"""Columns that are times, and what they are called as a TIMESTAMP; others that end in `_ms` are durations."""
GROUP_ID: Final = "group_id"


def published(rows: DataFrame, table: str) -> DataFrame:
    """The rows of a table, with the columns that are for others behind its own."""
    own = [_told(F.col(name), name, comment(table, name)) for name in rows.columns]
    more = [
        _told(F.timestamp_millis(F.col(name)), MOMENTS[name], f"{comment(table, name) or name} (UTC)")
        for name in rows.columns
        if name in MOMENTS
    ]
    if "group" in rows.columns:
        more.append(_told(F.col("group"), GROUP_ID, comment(table, "group")))
    return rows.select(*own, *more)


def names_of(table: str, columns: list[str]) -> list[tuple[str, str | None]]:
    """Every column that a table is written with, and what it means."""
    more: list[tuple[str, str | None]] = [
        (MOMENTS[name], f"{comment(table, name) or name} (UTC)") for name in columns if name in MOMENTS
    ]
    if "group" in columns:
        more.append((GROUP_ID, comment(table, "group")))
    return [*((name, comment(table, name)) for name in columns), *more]


def _told(value: Column, name: str, words: str | None) -> Column:
    return value.alias(name) if words is None else value.alias(name, metadata={"comment": words})
