"""Hand-made rows of tables, and commits of a partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from muster.pipeline.sources.ends import ENDS
from muster.pipeline.tables.schema import TABLES
from tests.pipeline.engines import Engine
from tests.pipeline.tables.history import START_MS


def table_of(engine: Engine, name: str, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """Rows of a table of the facts; columns that are left out are null."""
    return engine.frame(pa.Table.from_pylist([dict(row) for row in rows], TABLES[name]))


def ends_of(engine: Engine, *rows: tuple[str, int, int, float]) -> DataFrame:
    """Ends of logs: topic, partition, end offset, and since when, in seconds since START_MS. Producers may be late."""
    found = [(topic, partition, end, ms(at_s), None) for topic, partition, end, at_s in rows]
    return engine.frame(pa.Table.from_pylist([dict(zip(ENDS.names, row, strict=True)) for row in found], ENDS))


def ms(at_s: float) -> int:
    """Seconds since START_MS as a time."""
    return START_MS + round(at_s * 1000)


class Commits:
    """Rows of the table `commits` of one group, in the order of the log."""

    def __init__(self, group: str, topic: str = "t") -> None:
        self.group = group
        self.topic = topic
        self.rows: list[dict[str, Any]] = []

    def by(self, owner: str | None, *commits: tuple[float, int], partition: int = 0, **other: Any) -> Commits:
        """Add commits (seconds, offset) of a partition that this member owns by the log; None: no owner is known."""
        for at_s, offset in commits:
            who = {"member_id": owner and f"{owner}-1", "client_id": owner, "members": None if owner is None else 2}
            self._add(at_s, {"partition": partition, "committed_offset": offset, "is_deleted": False, **who, **other})
        return self

    def deleted(self, at_s: float, partition: int = 0) -> Commits:
        """A tombstone."""
        return self._add(at_s, {"partition": partition, "is_deleted": True})

    def _add(self, at_s: float, row: dict[str, Any]) -> Commits:
        place = {"group": self.group, "topic": self.topic, "time_ms": ms(at_s), "log_partition": 0}
        self.rows.append({**place, "log_offset": len(self.rows), **row})
        return self
