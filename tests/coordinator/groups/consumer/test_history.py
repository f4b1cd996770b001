"""The history of consumer groups: the events of the core, as the lines that an operator reads."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any

from muster.assignors.subscription import assignment_bytes
from muster.coordinator.groups.common.image import TopicsChanged
from muster.coordinator.groups.consumer import history, reconciliation_facts
from muster.coordinator.groups.consumer.commands import AssignmentComputed, TopicsFound
from muster.coordinator.history import schema
from muster.coordinator.history.timeline import Timeline
from tests.coordinator.groups.consumer.harness import ConsumerGroupHarness, topics
from tests.coordinator.groups.consumer.test_migration import join, sync
from tests.coordinator.groups.consumer.test_offloaded_work import compute

C = "(client c, 10.0.0.1)"


class HistoryHarness(ConsumerGroupHarness):
    """A `ConsumerGroupHarness` that keeps the events of its core with their times."""

    def __init__(self, **more: Any) -> None:
        self.events_as_json: list[dict[str, Any]] = []
        super().__init__(**more)

    def collect(self, output: Any) -> Any:
        for one in output.events:
            if one.kind != "request_refused":
                self.events_as_json.append(json.loads(schema.to_json(one, self.now.wall_ms)))
        return super().collect(output)

    def lines(self, *, everything: bool = False) -> list[str]:
        """The lines of the events since the last call, without their times."""
        timeline = Timeline(UTC, dates=False, everything=everything)
        made = [line.partition(" ")[2] for value in self.events_as_json for line in timeline.feed(value)]
        self.events_as_json.clear()
        return made

    def last(self, kind: str) -> dict[str, Any]:
        return [one for one in self.events_as_json if one["kind"] == kind][-1]


def test_the_line_of_a_rebalance_says_its_cause_its_time_and_the_slowest_member() -> None:
    harness = HistoryHarness()
    harness.first_heartbeat("A", "t")
    harness.advance(100)
    harness.first_heartbeat("B", "t")
    harness.advance(800)
    harness.heartbeat("A", owned={"t": range(8)})
    harness.advance(200)
    harness.heartbeat("A", owned={"t": range(4)})
    harness.advance(100)
    harness.heartbeat("B", owned={})
    assert harness.lines() == [
        "the group was created",
        f"epoch 1 → 2, 0 ms: member A {C} joined; 8 partitions taken; 1 member, uniform",
        f"epoch 2 → 3, 1.1 s: member B {C} joined; 4 partitions given up, 4 taken after 300 ms on average; "
        f"waited 1 s for 4 partitions of "
        f"member A {C}; 2 members, uniform",
    ]


def test_all_events_have_lines_if_everything_is_asked_for() -> None:
    harness = HistoryHarness()
    harness.first_heartbeat("A", "t", timeout=60_000)
    harness.lines()
    harness.first_heartbeat("B", "t")
    harness.advance(500)
    harness.heartbeat("A", owned={"t": range(8)})
    harness.advance(200)
    harness.heartbeat("A", owned={"t": range(4)})
    harness.heartbeat("B", owned={})
    assert harness.lines(everything=True)[:5] == [
        f"member B {C} joined",
        f"epoch 3 begins in Stable: member B {C} joined",
        "epoch 3 has its targets (uniform, computed in 0 ms): 2 members of 2 have another; partitions: 4 to move",
        f"member A {C} reached epoch 3 in 700 ms: gave up 4 partitions in 200 ms (t: 4 5 6 7)",
        f"member B {C} reached epoch 3 in 700 ms: got 4 partitions; waited 700 ms for A",
    ]


def settled(**more: Any) -> HistoryHarness:
    """A group in which A and B share t."""
    harness = HistoryHarness(**more)
    harness.first_heartbeat("A", "t")
    harness.first_heartbeat("B", "t")
    harness.heartbeat("A", owned={"t": range(8)})
    harness.heartbeat("A", owned={"t": range(4)})
    harness.heartbeat("B", owned={})
    harness.lines()
    return harness


def test_a_steady_heartbeat_makes_no_event() -> None:
    harness = settled()
    assert harness.consumers().reconciliation is None
    harness.heartbeat("A")
    assert harness.events_as_json == []
    assert harness.consumers().reconciliation is None


def test_the_history_reports_topics_that_grow_appear_and_disappear() -> None:
    harness = settled()
    harness.heartbeat("B", names=["t", "u", "v"])
    harness.lines()
    for image, words in (
        (topics(t=10, u=2), "t has 10 partitions instead of 8"),
        (topics(t=10, u=2, v=1), "v is there, with 1 partition"),
        (topics(t=10, v=1), "u was deleted"),
    ):
        harness.notify(TopicsChanged(image))
        harness.heartbeat("A")
        bumped = harness.last("epoch_bumped")
        assert (bumped["cause"], bumped["trigger"]) == ("topics_changed", None)
        assert words in harness.lines(everything=True)[0]


def test_topic_changes_are_not_reported_after_a_load() -> None:
    harness = settled()
    harness.consumers().hashed_topics = None
    harness.notify(TopicsChanged(topics(t=12, u=2)))
    harness.heartbeat("A")
    assert harness.last("epoch_bumped")["topics"] == []


def test_the_history_reports_members_that_leave_or_expire() -> None:
    harness = settled()
    harness.heartbeat("B", -1)
    harness.advance(5)
    harness.heartbeat("A")
    assert harness.lines() == [f"epoch 3 → 4, 5 ms: member B {C} left; 4 partitions taken; 1 member, uniform"]
    harness.advance(45_000)
    assert harness.lines() == [
        f"member A {C} sent no heartbeat for 45 s and was removed",
        "the group is empty (epoch 5)",
    ]


def test_the_history_reports_a_member_that_does_not_revoke_in_time() -> None:
    harness = HistoryHarness()
    harness.first_heartbeat("A", "t", timeout=3_000)
    harness.first_heartbeat("B", "t")
    harness.heartbeat("A", owned={"t": range(8)})
    harness.lines()
    harness.advance(3_000)
    assert harness.last("epoch_bumped")["cause"] == "revocation_timeout"
    harness.heartbeat("B", owned={})
    assert harness.lines() == [
        f"member A {C} did not give up its partitions in time and was removed",
        f"epoch 2 → 4, 3 s: member B {C} joined; 1 more went; 8 partitions taken after 1.5 s on average; "
        f"waited 3 s for 4 partitions of "
        f"member A {C}; 1 member, uniform",
    ]


def test_the_history_reports_a_static_member_that_leaves_and_returns() -> None:
    harness = HistoryHarness()
    harness.first_heartbeat("A", "t", instance="i")
    harness.heartbeat("A", -2, instance="i")
    harness.first_heartbeat("B", "t", instance="i")
    assert harness.lines()[2:] == [
        f"static member i {C} has gone and will be back: its partitions are kept for 45 s",
        f"static member i {C} came back as B; A is fenced",
    ]


def test_the_history_does_not_count_waits_for_an_absent_static_member() -> None:
    harness = HistoryHarness()
    harness.first_heartbeat("A", "t", instance="i")
    for other in ("B", "C"):
        harness.first_heartbeat(other, "t")
        for name in "ABC":
            if name in harness.consumers().members:
                harness.heartbeat(name, owned={"t": []}, instance="i" if name == "A" else None)
    assert harness.consumers().state == "Stable"
    harness.heartbeat("A", -2, instance="i")
    harness.lines()
    harness.heartbeat("C", -1)
    harness.advance(10)
    harness.heartbeat("B")
    assert harness.lines() == [
        f"epoch 4 → 5, 10 ms: member C {C} left; 1 partition taken; 1 of 2 kept all partitions; 2 members, uniform"
    ]


def test_the_history_reports_that_the_last_member_left() -> None:
    harness = HistoryHarness()
    harness.first_heartbeat("A", "t")
    harness.heartbeat("A", -1)
    assert harness.lines()[-1] == f"the group is empty (epoch 3): member A {C} left"


def test_events_of_offloaded_targets_say_how_long_they_took() -> None:
    harness = HistoryHarness(helped=True)
    harness.notify(TopicsChanged(topics(t=600)))
    harness.first_heartbeat("A", "t")
    harness.advance(70)
    harness.notify(compute(harness))
    target = harness.last("target_assigned")
    assert (target["took_ms"], target["since_epoch_ms"], target["gained"], target["changed"]) == (70, 70, 600, 1)
    harness.first_heartbeat("B", "t")
    harness.advance(30)
    harness.notify(AssignmentComputed(harness.offloaded.pop(0), None))
    assert harness.last("target_failed")["took_ms"] == 30


def test_the_history_reports_a_resolved_pattern() -> None:
    harness = HistoryHarness(helped=True)
    harness.first_heartbeat("A", pattern="t.*")
    harness.notify(TopicsFound(harness.offloaded.pop(0), {"t.*": ["t"]}))
    assert harness.last("epoch_bumped")["cause"] == "pattern_resolved"
    assert harness.last("member_joined")["pattern"] == "t.*"


def test_the_history_reports_upgrades_and_downgrades() -> None:
    harness = HistoryHarness(group_consumer_migration_policy="bidirectional")
    member = join(harness, "", "u").member_id
    harness.sync(member, {member: b""})
    harness.lines()
    harness.first_heartbeat("C", "u")
    assert harness.lines(everything=True)[0] == (
        f"the classic group became a consumer group in epoch 1, with 1 classic member: member C {C} joined"
    )
    generation = join(harness, member, "u").generation_id
    sync(harness, member, generation)
    harness.lines()
    harness.heartbeat("C", -1)
    reported = harness.lines(everything=True)
    assert f"the group became a classic group in epoch {generation}, 1 member left in it: member C {C} left" in reported
    assert reported[-1] == f"a rebalance begins in Stable: member C {C} left"
    answer = join(harness, member, "u")
    harness.sync(member, {member: assignment_bytes({"u": [0, 1]})}, generation=answer.generation_id)
    done = harness.last("rebalance_completed")
    assert sorted(done["before"]) == sorted([member, "C"])
    assert (done["moves"][0]["kept"], done["moves"][0]["moved"]) == (1, 1)


def test_the_history_counts_many_members_instead_of_listing_each() -> None:
    harness = HistoryHarness()
    harness.notify(TopicsChanged(topics(t=60)))
    members = [f"m{number:02}" for number in range(30)]
    for name in members:
        harness.first_heartbeat(name, "t")
    had: dict[str, list[int]] = {name: [] for name in members}
    for _ in range(6):
        for name in members:
            member = harness.member(name)
            had[name] = [one for row in member.position.assigned for one in row[1]]
            harness.heartbeat(name, owned={"t": had[name]})
    assert harness.consumers().state == "Stable"
    done = [one for one in harness.events_as_json if one["kind"] == "epoch_reconciled"][-1]
    reported = [one for one in harness.events_as_json if one["kind"] == "member_reconciled"]
    assert done["epochs"] == done["causes"]["member_joined"] == 29
    assert len(reported) == history.MAX_MEMBER_EVENTS + 1
    assert len(done["slowest"]) == reconciliation_facts.MAX_SLOWEST
    assert max(len(json.dumps(one)) for one in harness.events_as_json) < 8_000
