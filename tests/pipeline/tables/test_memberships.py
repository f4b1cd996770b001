"""From when to when a member was in the group, by the generations that have it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from muster.pipeline.tables.inferred_rebalances import INFERRED_REBALANCE
from muster.pipeline.tables.memberships import memberships
from tests.pipeline.engines import Engine, collected
from tests.pipeline.tables.rows import ms, table_of


def test_a_client_that_returns_with_its_member_id_has_two_stays(engine: Engine) -> None:
    """Java's clients of KIP-848 groups do so, for example after they did not poll in time."""
    there = {2: "a", 3: "ab", 4: "a", 5: "ab", 6: "ab", 7: "a"}
    rows = [
        {
            "group": "g", "generation": number, "source": "log", "start_ms": ms(10 * number),
            "end_ms": ms(10 * number + 10), "members": [{"member_id": name, "client_id": name} for name in names],
        }
        for number, names in there.items()
    ]  # fmt: skip
    gone = [{"group": "g", "end_ms": ms(10 * number), "gone": [_gone(number)]} for number in (4, 7)]
    inferred = engine.frame(pa.Table.from_pylist(gone, INFERRED_REBALANCE))
    found = collected(
        memberships(table_of(engine, "generations", rows), inferred, None).orderBy("member_id", "start_ms")
    )
    assert [
        (row.member_id, row.start_ms, row.end_ms, row.end_cause, row.first_generation, row.last_generation)
        for row in found
    ] == [
        ("a", ms(20), ms(80), None, 2, 7),
        ("b", ms(30), ms(38), "left", 3, 3),
        ("b", ms(50), ms(68), "expired", 5, 6),
    ]  # fmt: skip


def _gone(number: int) -> dict[str, Any]:
    return {"member_id": "b", "end_cause": {4: "left", 7: "expired"}[number], "end_ms": ms(10 * number - 2)}
