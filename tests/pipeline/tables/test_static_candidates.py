from __future__ import annotations

from typing import Any

from muster.pipeline.tables.memberships import static_candidates
from tests.pipeline.engines import Engine, collected
from tests.pipeline.tables.rows import ms, table_of


def stay(
    member: str, start_s: float, end_s: float | None = None, cause: str | None = None, **other: Any
) -> dict[str, Any]:
    row = {"group": "g", "member_id": member, "client_id": "c", "host": "/h", "start_ms": ms(start_s)}
    return {**row, "end_ms": None if end_s is None else ms(end_s), "end_cause": cause, **other}


def test_returned_members_have_the_length_of_their_absence(engine: Engine) -> None:
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
    generations = [{"group": "g", "members": [{"member_id": "b", "session_timeout_ms": 45_000}]}]
    tables = (("memberships", memberships), ("generations", generations))
    found = collected(static_candidates(*(table_of(engine, name, rows) for name, rows in tables)))
    assert sorted(tuple(row) for row in found) == [
        ("g", "c", "/h", 2, 12_500, 20_000, 65_000),
        ("h", "c", "/h", 3, 6_000, 6_000, 9_000),
    ]
