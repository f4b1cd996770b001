"""No later change makes a request more expensive without a reason: each kind of request has a budget, which is
counted.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from muster.coordinator.net.connection import Connection
from tests.budget import figures, phases
from tests.budget.scenes import costs_of, quiet

BUDGET = figures.read()
ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(figures.PYTHON not in BUDGET.costs, reason="bench/budget.toml has no figures of this Python")
def test_no_request_costs_more_than_its_budget() -> None:
    # a process of its own: what other tests have left behind costs some instructions
    command = [sys.executable, "-m", "tests.budget", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_python_has_the_same_kinds_of_requests() -> None:
    kinds = {frozenset(costs) for costs in BUDGET.costs.values()}
    assert len(kinds) == 1
    assert len(*kinds) > 80


def test_the_same_requests_cost_the_same_again() -> None:
    with quiet():
        once, again = costs_of("classic groups"), costs_of("classic groups")
    assert {kind: cost[:-1] for kind, cost in once.items()} == {kind: cost[:-1] for kind, cost in again.items()}


def test_the_table_of_phases_has_the_kinds_of_the_budget() -> None:
    (costs, *_) = BUDGET.costs.values()
    assert set(phases.KINDS) <= costs.keys()
    rows = re.findall(r"^\| ([a-z][^|]*) \| [0-9]", phases.RESULT.read_text(encoding="utf-8"), re.MULTILINE)
    assert tuple(rows) == phases.KINDS


def test_each_function_has_a_phase() -> None:
    assert phases.phase_of("coordinator/net/connection.py: Connection.data_received") == "read"
    assert phases.phase_of("protocol/messages/heartbeat.py: encode_heartbeat_response_v4") == "answer"
    assert phases.phase_of("protocol/messages/heartbeat.py: decode_heartbeat_request_v4") == "decode"
    assert phases.phase_of("coordinator/groups/offsets/commit.py: handle") == "decide"
    assert {phase for phase, _ in phases.PHASES} | {phases.OTHER} == set(phases.ORDER)


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
