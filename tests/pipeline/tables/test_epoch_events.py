"""Epochs of KIP-848 groups from `__group_events`: what the core reports, as rows of the table `rebalances`."""

from __future__ import annotations

from typing import Any

from muster.coordinator.groups.common.image import TopicsChanged
from muster.pipeline.tables.event_rebalances import KINDS, epoch_rows_of_group
from tests.coordinator.groups.consumer.harness import topics
from tests.coordinator.groups.consumer.test_history import HistoryHarness
from tests.coordinator.groups.consumer.test_migration import join

BEGAN = 1_700_000_000_000


def read(harness: HistoryHarness) -> list[dict[str, Any]]:
    """The rows, made of events as the pipeline reads them."""
    found = [
        {"epoch": None, "cause": None, "trigger": None, "moved": None, "gained": None, "lost": None}
        | one
        | {"time_ms": one["time"], "member_count": one.get("members")}
        for one in harness.events_as_json
        if one["kind"] in KINDS
    ]
    return list(epoch_rows_of_group("g", found))


def short(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("generation", "cause", "trigger_member_id", "members_before", "members_after", "members_joined")
    return tuple(row[name] for name in (*names, "members_left", "moved", "gained", "took_ms"))


def test_each_epoch_is_a_row() -> None:
    harness = HistoryHarness()
    harness.first_heartbeat("A", "t")
    harness.advance(1_000)
    harness.first_heartbeat("B", "t")
    harness.advance(500)
    harness.heartbeat("A", owned={"t": range(8)})
    harness.heartbeat("A", owned={"t": range(4)})
    harness.heartbeat("B", owned={})
    harness.notify(TopicsChanged(topics(t=10, u=2)))
    harness.heartbeat("A")
    harness.heartbeat("B", -1)
    harness.advance(45_000)
    rows = read(harness)
    assert list(map(short, rows)) == [
        (2, "member_joined", "A", 0, 1, 1, 0, 0, 8, 0),
        (3, "member_joined", "B", 1, 2, 1, 0, 4, 0, 500),
        (4, "topics_changed", None, 2, 2, 0, 0, 0, 2, 0),
        (5, "member_left", "B", 2, 1, 0, 1, 0, 0, 45_000),
        (6, "session_expired", "A", 1, 0, 0, 1, 0, 0, 0),
    ]
    assert {(row["source"], row["confidence"]) for row in rows} == {("events", 1.0)}
    assert rows[0]["start_ms"] == BEGAN


def test_epochs_of_a_partial_event_log_are_read() -> None:
    harness = HistoryHarness()
    harness.first_heartbeat("A", "t")
    harness.events_as_json.clear()
    harness.first_heartbeat("B", "t")
    (row,) = read(harness)
    assert short(row)[:6] == (3, "member_joined", "B", 1, 2, 1)
    assert row["end_ms"] == row["start_ms"]


def test_the_downgrade_of_a_group_ends_its_epochs() -> None:
    harness = HistoryHarness(group_consumer_migration_policy="bidirectional")
    member = join(harness, "", "u").member_id
    harness.sync(member, {member: b""})
    harness.first_heartbeat("C", "u")
    harness.advance(100)
    harness.heartbeat("C", -1)
    rows = read(harness)
    assert [(row["generation"], row["took_ms"], row["members_before"]) for row in rows] == [(2, 100, 1)]
