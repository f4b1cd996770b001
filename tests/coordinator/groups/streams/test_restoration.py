"""Tasks that restore their state, by the offsets that members report."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.groups.streams import restoration
from tests.coordinator.groups.streams.harness import StreamsGroupHarness, topics

TOPOLOGY = "0:t%store 1:u"
RUNS = restoration.RUNS


@pytest.fixture
def harness() -> StreamsGroupHarness:
    return StreamsGroupHarness(
        image=topics(t=2, u=2, store=2),
        group_streams_num_standby_replicas=1,
        group_streams_acceptable_recovery_lag=100,
    )


def reported(harness: StreamsGroupHarness) -> list[tuple[str, str, int, list[tuple[Any, ...]]]]:
    """The events about restored tasks: the kind, the member, the count, and the rows."""
    return [
        (one.kind, one.facts["member"].member, one.facts["count"], [tuple(row.values()) for row in one.facts["tasks"]])
        for one in harness.events
        if one.kind.startswith("tasks_")
    ]


def test_an_active_task_is_restored_when_it_runs_and_this_is_reported_once(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, TOPOLOGY)
    harness.advance(1_000)
    harness.heartbeat("a", task_offsets=[("0", 0, 10)], task_end_offsets=[("0", 0, 1_000), ("0", 1, 9)])
    harness.advance(1_000)
    harness.heartbeat("a", task_offsets=[("0", 0, 950), ("0", 1, -4)])
    assert reported(harness) == [("tasks_restoring", "a", 1, [("0_0", "active", 990)])]
    harness.advance(3_000)
    for _ in range(2):
        harness.heartbeat("a", task_offsets=[("0", 0, RUNS), ("0", 1, RUNS)], task_end_offsets=[])
    assert reported(harness)[1:] == [("tasks_restored", "a", 1, [("0_0", "active", 5_000, 990)])]
    assert not harness.streams().members["a"].restoring


def test_a_standby_task_is_restored_at_the_acceptable_lag(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, TOPOLOGY)
    harness.heartbeat("b", 0, TOPOLOGY)
    harness.heartbeat("a", active="0/0,1/0", standby="", warmup="")
    harness.heartbeat("b")
    harness.heartbeat("a")
    assert set(harness.streams().members["b"].restoring) == {("active", "0", 1), ("standby", "0", 0)}
    harness.heartbeat("b", task_offsets=[("0", 0, 899)], task_end_offsets=[("0", 0, 1_000)])
    harness.advance(2_000)
    harness.heartbeat("b", task_offsets=[("0", 0, 900)])
    harness.heartbeat("b", task_offsets=[("0", 0, 10)])  # it falls behind, but it was restored once
    assert reported(harness) == [
        ("tasks_restoring", "b", 1, [("0_0", "standby", 101)]),
        ("tasks_restored", "b", 1, [("0_0", "standby", 2_000, 101)]),
    ]


def test_a_task_that_is_taken_away_is_forgotten(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, TOPOLOGY)
    harness.heartbeat("a", task_offsets=[("0", 0, 0), ("0", 1, 0)], task_end_offsets=[("0", 0, 5), ("0", 1, 7)])
    assert reported(harness) == [("tasks_restoring", "a", 2, [("0_1", "active", 7), ("0_0", "active", 5)])]
    harness.heartbeat("b", 0, TOPOLOGY)
    harness.heartbeat("a", active="0/0,1/0", standby="", warmup="")
    assert set(harness.streams().members["a"].restoring) == {("active", "0", 0), ("standby", "0", 1)}


def test_an_event_names_a_limited_number_of_tasks(
    harness: StreamsGroupHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restoration, "MAX_ROWS", 1)
    harness.heartbeat("a", 0, TOPOLOGY)
    harness.heartbeat("a", task_offsets=[("0", 0, 0), ("0", 1, 0)], task_end_offsets=[("0", 0, 5), ("0", 1, 7)])
    assert reported(harness) == [("tasks_restoring", "a", 2, [("0_1", "active", 7)])]
