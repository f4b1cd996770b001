"""Hand-made histories of groups: rows in the form of the decoder, and events in the form of the server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from muster.pipeline.schema import CLASSIC_GROUP, DECODED, OFFSET_COMMIT, RAW
from muster.pipeline.tables.inputs import EVENTS_TOPIC
from tests.pipeline.engines import Engine

Shares = Mapping[str, list[int]]
START_MS = 1_700_000_000_000


def member(name: str, shares: Shares | None = None, **other: Any) -> dict[str, Any]:
    """A member of a classic group: its id is `name`-1 unless said otherwise, its client id `name`."""
    return {
        "member_id": f"{name}-1",
        "client_id": name,
        "client_host": f"/{name}",
        "rebalance_timeout_ms": 300_000,
        "session_timeout_ms": 10_000,
        "topics": sorted(shares or {"t": []}),
        "owned": [],
        "assigned": [{"topic": topic, "partitions": numbers} for topic, numbers in (shares or {}).items()],
        **other,
    }


class Log:
    """The rows of one log partition, with ascending offsets. Times are seconds since START_MS."""

    def __init__(self, group: str = "g") -> None:
        self.group = group
        self.rows: list[dict[str, Any]] = []

    def state(self, at_s: float, generation: int, *members: dict[str, Any], **other: Any) -> Log:
        """The group's record."""
        row = {
            "kind": CLASSIC_GROUP,
            "generation": generation,
            "protocol_type": "consumer" if generation else "",
            "protocol": "range" if members else None,
            "leader": members[0]["member_id"] if members else None,
            "state_timestamp_ms": START_MS + round(at_s * 1000),
            "members": list(members),
            "is_tombstone": False,
        }
        return self._add(at_s, {**row, **other})

    def gone(self, at_s: float) -> Log:
        """The group's tombstone."""
        return self._add(at_s, {"kind": CLASSIC_GROUP, "is_tombstone": True})

    def commit(self, at_s: float, partition: int, offset: int = 0, topic: str = "t", **other: Any) -> Log:
        """An offset commit."""
        row = {
            "kind": OFFSET_COMMIT,
            "topic": topic,
            "partition": partition,
            "committed_offset": offset,
            "commit_timestamp_ms": START_MS + round(at_s * 1000),
            "is_tombstone": False,
        }
        return self._add(at_s, {**row, **other})

    def _add(self, at_s: float, row: dict[str, Any]) -> Log:
        where = {"log_partition": 0, "log_offset": len(self.rows), "log_timestamp_ms": START_MS + round(at_s * 1000)}
        self.rows.append({"group": self.group, **where, **row})
        return self

    def table(self) -> pa.Table:
        """The rows in the form of the decoder."""
        return pa.Table.from_pylist(self.rows, DECODED)


def decoded(engine: Engine, *logs: Log) -> DataFrame:
    """The rows of some logs."""
    return engine.frame(pa.concat_tables([log.table() for log in logs]))


def raw_events(engine: Engine, values: Iterable[Any], *, key: bytes | None = b"g") -> DataFrame:
    """Raw rows of `__group_events`: a value that is a dictionary is one event."""
    rows = [
        dict(zip(RAW.names, (EVENTS_TOPIC, 0, offset, START_MS, key, _value(value)), strict=False))
        for offset, value in enumerate(values)
    ]
    return engine.frame(pa.Table.from_pylist(rows, RAW))


def _value(value: Any) -> bytes | None:
    return json.dumps(value).encode() if isinstance(value, dict) else value
