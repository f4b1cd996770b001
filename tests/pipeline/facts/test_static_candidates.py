from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from muster.pipeline.facts.static_candidates import static_candidates
from tests.pipeline.facts.rows import ms, table_of


def stay(
    member: str, start_s: float, end_s: float | None = None, cause: str | None = None, **other: Any
) -> dict[str, Any]:
    row = {"group": "g", "member_id": member, "client_id": "c", "host": "/h", "start_ms": ms(start_s)}
    return {**row, "end_ms": None if end_s is None else ms(end_s), "end_cause": cause, **other}


def rebalance(cause: str, trigger: str, moved: int, group: str = "g") -> dict[str, Any]:
    return {"group": group, "cause": cause, "trigger_member_id": trigger, "moved": moved}


def test_what_static_membership_would_have_spared(spark: SparkSession) -> None:
    memberships = [
        stay("a", 0, 100, "left"),
        stay("b", 105, 200, "expired"),
        stay("c", 220),
        stay("x", 0, 100, "left", client_id="other"),
        *(stay(f"s{index}", index, index + 0.5, "left", instance_id="i", client_id="static") for index in range(3)),
        *(stay(f"p{index}", 10 * index, 10 * index + 4, "left", group="h") for index in range(4)),
        stay("lonely", 0, 5, "left", group="k", client_id=None),
        stay("lonely-2", 6, group="k", client_id=None),
    ]
    rebalances = [
        rebalance("member_joined", "a", 9),
        rebalance("member_left", "a", 1),
        rebalance("member_joined", "b", 2),
        rebalance("session_expired", "b", 4),
        rebalance("member_joined", "c", 8),
        rebalance("subscription_changed", "c", 16),
        rebalance("member_joined", "x", 32),
        rebalance("member_left", "a", 64, group="other"),
    ]
    generations = [{"group": "g", "members": [{"member_id": "b", "session_timeout_ms": 45_000}]}]
    tables = (("memberships", memberships), ("rebalances", rebalances), ("generations", generations))
    found = static_candidates(*(table_of(spark, name, rows) for name, rows in tables)).collect()
    # the first rebalance of "a" is that of its first arrival: nothing spares that
    assert sorted(tuple(row) for row in found) == [
        ("g", "c", "/h", 2, 4, 15, 12_500, 20_000, 65_000),
        ("h", "c", "/h", 3, 0, 0, 6_000, 6_000, 9_000),
    ]
