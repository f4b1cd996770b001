"""What is told of consumer groups: the events of the core, as the lines that an operator reads."""

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
from tests.coordinator.groups.consumer.test_elsewhere import compute
from tests.coordinator.groups.consumer.test_migration import join, sync

C = "(client c, 10.0.0.1)"


class Theatre(ConsumerGroupHarness):
    """A `ConsumerGroupHarness` that writes down what happens, and when."""

    def __init__(self, **more: Any) -> None:
        self.told_of: list[dict[str, Any]] = []
        super().__init__(**more)

    def collect(self, output: Any) -> Any:
        for one in output.events:
            if one.kind != "request_refused":
                self.told_of.append(json.loads(schema.to_json(one, self.now.wall_ms)))
        return super().collect(output)

    def lines(self, *, everything: bool = False) -> list[str]:
        """Without their times."""
        timeline = Timeline(UTC, dates=False, everything=everything)
        made = [line.partition(" ")[2] for value in self.told_of for line in timeline.feed(value)]
        self.told_of.clear()
        return made

    def last(self, kind: str) -> dict[str, Any]:
        return [one for one in self.told_of if one["kind"] == kind][-1]


def test_one_line_says_who_caused_it_how_long_it_took_and_who_was_waited_for() -> None:
    theatre = Theatre()
    theatre.enter("A", "t")
    theatre.advance(100)
    theatre.enter("B", "t")
    theatre.advance(800)
    theatre.cast("A", owned={"t": range(8)})
    theatre.advance(200)
    theatre.cast("A", owned={"t": range(4)})
    theatre.advance(100)
    theatre.cast("B", owned={})
    assert theatre.lines() == [
        "the group was created",
        f"epoch 1 → 2, 0 ms: member A {C} joined; 8 partitions taken; 1 member, uniform",
        f"epoch 2 → 3, 1.1 s: member B {C} joined; 4 partitions given up, 4 taken after 300 ms in the mean; "
        f"waited 1 s for 4 partitions of "
        f"member A {C}; 2 members, uniform",
    ]


def test_everything_is_told_when_asked() -> None:
    theatre = Theatre()
    theatre.enter("A", "t", timeout=60_000)
    theatre.lines()
    theatre.enter("B", "t")
    theatre.advance(500)
    theatre.cast("A", owned={"t": range(8)})
    theatre.advance(200)
    theatre.cast("A", owned={"t": range(4)})
    theatre.cast("B", owned={})
    assert theatre.lines(everything=True)[:5] == [
        f"member B {C} joined",
        f"epoch 3 begins in Stable: member B {C} joined",
        "targets of epoch 3 are there (uniform, computed in 0 ms): 2 members of 2 have another; partitions: 4 to move",
        f"member A {C} came to epoch 3 in 700 ms: gave up 4 partitions in 200 ms (t: 4 5 6 7)",
        f"member B {C} came to epoch 3 in 700 ms: got 4 partitions; waited 700 ms for A",
    ]


def settled(**more: Any) -> Theatre:
    """A and B share t."""
    theatre = Theatre(**more)
    theatre.enter("A", "t")
    theatre.enter("B", "t")
    theatre.cast("A", owned={"t": range(8)})
    theatre.cast("A", owned={"t": range(4)})
    theatre.cast("B", owned={})
    theatre.lines()
    return theatre


def test_a_steady_heartbeat_keeps_nothing() -> None:
    theatre = settled()
    assert theatre.consumers().reconciliation is None
    theatre.cast("A")
    assert theatre.told_of == []
    assert theatre.consumers().reconciliation is None


def test_topics_that_grow_come_and_go() -> None:
    theatre = settled()
    theatre.cast("B", names=["t", "u", "v"])
    theatre.lines()
    for image, words in (
        (topics(t=10, u=2), "t has 10 partitions instead of 8"),
        (topics(t=10, u=2, v=1), "v is there, with 1 partition"),
        (topics(t=10, v=1), "u was deleted"),
    ):
        theatre.notify(TopicsChanged(image))
        theatre.cast("A")
        bumped = theatre.last("epoch_bumped")
        assert (bumped["cause"], bumped["trigger"]) == ("topics_changed", None)
        assert words in theatre.lines(everything=True)[0]


def test_topics_after_a_load_are_not_compared() -> None:
    theatre = settled()
    theatre.consumers().hashed_topics = None
    theatre.notify(TopicsChanged(topics(t=12, u=2)))
    theatre.cast("A")
    assert theatre.last("epoch_bumped")["topics"] == []


def test_members_that_go() -> None:
    theatre = settled()
    theatre.cast("B", -1)
    theatre.advance(5)
    theatre.cast("A")
    assert theatre.lines() == [f"epoch 3 → 4, 5 ms: member B {C} left; 4 partitions taken; 1 member, uniform"]
    theatre.advance(45_000)
    assert theatre.lines() == [
        f"member A {C} sent no heartbeat for 45 s and was removed",
        "the group is empty (epoch 5)",
    ]


def test_one_that_does_not_give_up_in_time() -> None:
    theatre = Theatre()
    theatre.enter("A", "t", timeout=3_000)
    theatre.enter("B", "t")
    theatre.cast("A", owned={"t": range(8)})
    theatre.lines()
    theatre.advance(3_000)
    assert theatre.last("epoch_bumped")["cause"] == "revocation_timeout"
    theatre.cast("B", owned={})
    assert theatre.lines() == [
        f"member A {C} did not give up its partitions in time and was removed",
        f"epoch 2 → 4, 3 s: member B {C} joined; 1 more went; 8 partitions taken after 1.5 s in the mean; "
        f"waited 3 s for 4 partitions of "
        f"member A {C}; 1 member, uniform",
    ]


def test_a_static_member_goes_and_comes_back() -> None:
    theatre = Theatre()
    theatre.enter("A", "t", instance="i")
    theatre.cast("A", -2, instance="i")
    theatre.enter("B", "t", instance="i")
    assert theatre.lines()[2:] == [
        f"static member i {C} has gone and will be back: its partitions are kept for 45 s",
        f"static member i {C} came back as B; A is fenced",
    ]


def test_nobody_waits_for_who_is_away() -> None:
    theatre = Theatre()
    theatre.enter("A", "t", instance="i")
    for other in ("B", "C"):
        theatre.enter(other, "t")
        for name in "ABC":
            if name in theatre.consumers().members:
                theatre.cast(name, owned={"t": []}, instance="i" if name == "A" else None)
    assert theatre.consumers().state == "Stable"
    theatre.cast("A", -2, instance="i")
    theatre.lines()
    theatre.cast("C", -1)
    theatre.advance(10)
    theatre.cast("B")
    assert theatre.lines() == [
        f"epoch 4 → 5, 10 ms: member C {C} left; 1 partition taken; 1 of 2 kept working untouched; 2 members, uniform"
    ]


def test_the_last_one_that_leaves() -> None:
    theatre = Theatre()
    theatre.enter("A", "t")
    theatre.cast("A", -1)
    assert theatre.lines()[-1] == f"the group is empty (epoch 3): member A {C} left"


def test_large_targets_say_how_long_they_took() -> None:
    theatre = Theatre(helped=True)
    theatre.notify(TopicsChanged(topics(t=600)))
    theatre.enter("A", "t")
    theatre.advance(70)
    theatre.notify(compute(theatre))
    target = theatre.last("target_assigned")
    assert (target["took_ms"], target["since_epoch_ms"], target["gained"], target["changed"]) == (70, 70, 600, 1)
    theatre.enter("B", "t")
    theatre.advance(30)
    theatre.notify(AssignmentComputed(theatre.elsewhere.pop(0), None))
    assert theatre.last("target_failed")["took_ms"] == 30


def test_a_pattern_that_is_resolved() -> None:
    theatre = Theatre(helped=True)
    theatre.enter("A", pattern="t.*")
    theatre.notify(TopicsFound(theatre.elsewhere.pop(0), {"t.*": ["t"]}))
    assert theatre.last("epoch_bumped")["cause"] == "pattern_resolved"
    assert theatre.last("member_joined")["pattern"] == "t.*"


def test_migration_both_ways() -> None:
    theatre = Theatre(group_consumer_migration_policy="bidirectional")
    member = join(theatre, "", "u").member_id
    theatre.sync(member, {member: b""})
    theatre.lines()
    theatre.enter("C", "u")
    assert theatre.lines(everything=True)[0] == (
        f"the classic group became a consumer group in epoch 1, with 1 classic member: member C {C} joined"
    )
    generation = join(theatre, member, "u").generation_id
    sync(theatre, member, generation)
    theatre.lines()
    theatre.cast("C", -1)
    told = theatre.lines(everything=True)
    assert f"the group became a classic group in epoch {generation}, 1 member left in it: member C {C} left" in told
    assert told[-1] == f"a rebalance begins in Stable: member C {C} left"
    answer = join(theatre, member, "u")
    theatre.sync(member, {member: assignment_bytes({"u": [0, 1]})}, generation=answer.generation_id)
    done = theatre.last("rebalance_completed")
    assert sorted(done["before"]) == sorted([member, "C"])
    assert (done["moves"][0]["kept"], done["moves"][0]["moved"]) == (1, 1)


def test_many_members_are_counted_not_told_each() -> None:
    theatre = Theatre()
    theatre.notify(TopicsChanged(topics(t=60)))
    members = [f"m{number:02}" for number in range(30)]
    for name in members:
        theatre.enter(name, "t")
    had: dict[str, list[int]] = {name: [] for name in members}
    for _ in range(6):
        for name in members:
            member = theatre.member(name)
            had[name] = [one for row in member.position.assigned for one in row[1]]
            theatre.cast(name, owned={"t": had[name]})
    assert theatre.consumers().state == "Stable"
    done = [one for one in theatre.told_of if one["kind"] == "epoch_reconciled"][-1]
    told = [one for one in theatre.told_of if one["kind"] == "member_reconciled"]
    assert done["epochs"] == done["causes"]["member_joined"] == 29
    assert len(told) == history.MAX_MEMBER_EVENTS + 1
    assert len(done["slowest"]) == reconciliation_facts.MAX_SLOWEST
    assert max(len(json.dumps(one)) for one in theatre.told_of) < 8_000
