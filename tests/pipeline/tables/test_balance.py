"""How even assignments are, and how much of the previous assignment they kept."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from muster.pipeline.tables.generations import balance, measure
from muster.pipeline.tables.schema import TABLES
from tests.pipeline.engines import Engine, collected


def share(name: str, partitions: list[int], instance: str | None = None) -> dict[str, Any]:
    return {"member_id": name, "instance_id": instance, "assigned": [{"topic": "t", "partitions": partitions}]}


def row(shares: list[dict[str, Any]], before: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"group": "g", "generation": 2, "start_ms": 7, "shares": shares, "before": before}


def test_even_and_uneven_assignments_are_measured() -> None:
    assert measure(row([share("a", [0, 1]), share("b", [2, 3])])) == {
        "group": "g",
        "generation": 2,
        "start_ms": 7,
        "members": 2,
        "partitions": 4,
        "least": 2,
        "most": 2,
        "skew": 0.0,
        "stickiness": None,
    }
    uneven = measure(row([share("a", [0, 1, 2]), share("b", [3])]))
    assert (uneven["least"], uneven["most"], uneven["skew"]) == (1, 3, 0.5)


def test_the_kept_share_of_partitions_is_measured() -> None:
    before = [share("a", [0, 1]), share("b", [2, 3])]
    assert measure(row([share("a", [0, 1]), share("b", [2, 3])], before))["stickiness"] == 1.0
    assert measure(row([share("a", [2, 3]), share("b", [0, 1])], before))["stickiness"] == 0.0
    assert measure(row([share("a", [0, 2]), share("b", [1, 3])], before))["stickiness"] == 0.5


def test_a_static_member_is_the_same_under_a_new_member_id() -> None:
    before = [share("a", [0, 1], "i")]
    assert measure(row([share("new", [0, 1], "i")], before))["stickiness"] == 1.0


def test_a_member_without_partitions_counts() -> None:
    none = {"member_id": "b", "instance_id": None, "assigned": None}
    found = measure(row([share("a", [0]), none]))
    assert (found["members"], found["least"], found["most"], found["skew"]) == (2, 0, 1, 1.0)


def test_the_table_balance_has_a_row_for_each_generation(engine: Engine) -> None:
    def generation(number: int, *members: dict[str, Any]) -> dict[str, Any]:
        given = {"group": "g", "generation": number, "start_ms": number, "members": list(members)}
        return dict.fromkeys(TABLES["generations"].names) | given

    other = {"member_id": "w", "instance_id": None, "assigned": None}
    rows = [
        generation(3, share("a", [0]), share("b", [1])),
        generation(1, share("a", [0, 1])),
        generation(2, other),
        generation(4),
    ]
    table = balance(engine.frame(pa.Table.from_pylist(rows, TABLES["generations"])))
    assert table.columns == TABLES["balance"].names
    found = {one.generation: (one.members, one.most, one.stickiness) for one in collected(table)}
    assert found == {1: (1, 2, None), 3: (2, 1, pytest.approx(1.0))}
