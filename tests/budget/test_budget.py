"""No later change makes a request dearer without a reason: each kind of request has a budget, which is counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from muster.coordinator.net.connection import Connection
from tests.budget import figures
from tests.budget.counting import Cost
from tests.budget.scenes import SCENES, costs_of, quiet

BUDGET = figures.read()


MAX_PLAYS = 3


def least_of(scene: str, allowed: Mapping[str, Cost]) -> dict[str, Cost]:
    """Return the costs, each the least of up to three plays: what other tests left in the process can only add."""
    costs = costs_of(scene)
    for _ in range(1, MAX_PLAYS):
        if not any(figures.larger(cost, allowed[kind]) for kind, cost in costs.items()):
            break
        costs = {kind: Cost._make(map(min, cost, costs[kind])) for kind, cost in costs_of(scene).items()}
    return costs


@pytest.mark.parametrize("scene", SCENES)
def test_no_request_costs_more_than_its_budget(scene: str) -> None:
    allowed = BUDGET.costs.get(figures.PYTHON)
    if allowed is None:
        pytest.skip(f"bench/budget.toml has no figures of Python {figures.PYTHON}")
    with quiet():
        costs = least_of(scene, allowed)
    dearer = {kind: rows for kind, cost in costs.items() if (rows := figures.larger(cost, allowed[kind]))}
    assert not dearer, 'it needs a reason: python -m tests.budget --why "..."'
    cheaper = {kind: rows for kind, cost in costs.items() if (rows := figures.smaller(cost, allowed[kind]))}
    assert not cheaper, "the budget must follow: python -m tests.budget"


def test_all_budgets_are_of_kinds_that_are_counted() -> None:
    with quiet():
        kinds = {kind for scene in ("connections", "classic groups") for kind in costs_of(scene)}
    for costs in BUDGET.costs.values():
        assert kinds <= set(costs)
        assert len(costs) >= 70


def test_the_same_requests_cost_the_same_again() -> None:
    with quiet():
        once, again = costs_of("classic groups"), costs_of("classic groups")
    assert {kind: cost[:-1] for kind, cost in once.items()} == {kind: cost[:-1] for kind, cost in again.items()}


DEARER = """
def dearer(connection, data, received):
    received(connection, data)
    return [number for number in data[:8]]
"""


def test_a_little_more_work_in_each_heartbeat_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Any] = {}
    exec(compile(DEARER, "muster/dearer.py", "exec"), found)  # code of tests would not count
    received = Connection.data_received
    with quiet():
        before = costs_of("everyday")["heartbeat, not alike"]
        monkeypatch.setattr(Connection, "data_received", lambda *given: found["dearer"](*given, received))
        after = costs_of("everyday")["heartbeat, not alike"]
    assert {"instructions", "calls"} <= set(figures.larger(after, before))
    assert not figures.smaller(after, before)
