"""Findings of all kinds pass through the same three columns unchanged."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from muster.pipeline.schema import columns
from muster.pipeline.tables.findings import FINDING, packed, read, unpacked
from tests.pipeline.engines import Engine, collected

PLAIN = pa.schema(columns("group string, topic string, partition int, is_last boolean, member_id string, end_ms long"))
LISTED = pa.schema([*columns("group string, member_id string, count int"), ("times_ms", pa.list_(pa.int64()))])
ONLY_NUMBERS = pa.schema(columns("group string, first_ms long"))

Row = dict[str, Any]
KINDS: dict[str, tuple[pa.Schema, list[Row]]] = {
    "plain": (
        PLAIN,
        [
            {"group": "a", "topic": "t", "partition": 3, "is_last": True, "member_id": None, "end_ms": -(2**63)},
            {"group": "b", "topic": "u", "partition": None, "is_last": None, "member_id": "m", "end_ms": None},
            {"group": "b", "topic": None, "partition": 0, "is_last": False, "member_id": "", "end_ms": 2**63 - 1},
        ],
    ),
    "listed": (
        LISTED,
        [
            {"group": "a", "member_id": "m", "count": 1, "times_ms": [5, 6, 7]},
            {"group": "a", "member_id": None, "count": None, "times_ms": []},
            {"group": "b", "member_id": "n", "count": 3, "times_ms": [9]},
        ],
    ),
    "numbers": (ONLY_NUMBERS, [{"group": "a", "first_ms": 1}, {"group": "b", "first_ms": None}]),
    "none": (PLAIN, []),
}


def struct(schema: pa.Schema, rows: list[Row]) -> pa.StructArray:
    return pa.array(rows, pa.struct(list(schema)))


@pytest.mark.parametrize("name", KINDS)
def test_a_packed_finding_is_read_unchanged(name: str) -> None:
    schema, rows = KINDS[name]
    batch = packed(name, struct(schema, rows))
    assert batch.schema == FINDING
    assert [read(row, schema) for row in batch.to_pylist()] == rows
    # 1 is True, but a row has the type of its value
    reported = [type(read(row, schema).get("is_last")) for row in batch.to_pylist()]
    assert reported == [type(row.get("is_last")) for row in rows]


def test_the_kinds_of_findings_are_separated(engine: Engine) -> None:
    batches = [packed(name, struct(schema, rows)) for name, (schema, rows) in KINDS.items()]
    walk = engine.frame(pa.Table.from_batches(batches, FINDING))
    for name, (schema, rows) in KINDS.items():
        found = unpacked(walk, name, schema)
        assert found.toArrow().schema.types == schema.types
        assert found.columns == schema.names
        assert sorted((row.asDict() for row in collected(found)), key=repr) == sorted(rows, key=repr)
