"""Histories with known answers, one for each setting that can be changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from muster.pipeline.whatif import from_events, from_log
from muster.pipeline.whatif.compare import OTHER_ASSIGNOR, Comparison, compare
from muster.pipeline.whatif.costs import Figures
from muster.pipeline.whatif.settings import parse
from tests.pipeline.whatif.reality import GROUP, Consumer, Reality

PARTITIONS = 9
FORMING_MS = PARTITIONS * 6_000
"""The cost when members join an empty group: two initial delays."""


def running(*names: str, strategy: str = "range", instances: bool = False) -> tuple[Reality, dict[str, Consumer]]:
    """A group that has settled."""
    world = Reality(partitions=PARTITIONS)
    members = {name: Consumer(world, name, strategy, instance=f"i-{name}" if instances else None) for name in names}
    for member in members.values():
        member.start()
        world.run(100)
    world.run(60_000)
    return world, members


def near(ms: int) -> Any:
    """About this time: requests take some time more."""
    return pytest.approx(ms, abs=200)


def restart(world: Reality, member: Consumer, away_ms: int) -> None:
    member.stop()
    world.run(away_ms)
    member.start()
    world.run(60_000)


def asked(world: Reality, *settings: str) -> tuple[Figures, list[Figures]]:
    """What happened, and what would have happened. The replay of the real settings must give exactly what happened."""
    found = played(world, *settings)
    assert found.played == found.whatif[0].figures == found.actual
    return found.actual, figures(found)


def played(world: Reality, *settings: str) -> Comparison:
    texts = ("static=false", *settings)
    found = compare(
        from_events.history_of(GROUP, world.events, world.ms), [one for text in texts for one in parse(text)]
    )
    assert not found.fidelity.withheld, found.fidelity
    assert found.fidelity.share == 1.0
    return found


def figures(found: Comparison) -> list[Figures]:
    rows = [one.figures for one in found.whatif[1:]]
    return [one for one in rows if one is not None]


def test_static_membership_spares_the_rebalances_of_a_restart() -> None:
    world, members = running("a", "b", "c")
    restart(world, members["b"], 5_000)
    actual, (static,) = asked(world, "static")
    assert (actual.rebalances, actual.silent_partition_ms) == (3, 0)
    # no other member has its three partitions meanwhile
    assert static == Figures(1, 0, near(FORMING_MS), near(3 * 5_000), None, near(FORMING_MS))


def test_a_static_member_that_is_away_for_too_long_is_removed() -> None:
    world, members = running("a", "b", "c")
    restart(world, members["b"], 20_000)
    actual, (static, patient) = asked(world, "static", "static,session.timeout.ms=60000")
    assert (actual.rebalances, static.rebalances, static.detect_ms) == (3, 3, 10_000)
    assert (patient.rebalances, patient.detect_ms, patient.silent_partition_ms) == (1, None, near(3 * 20_000))


def test_a_death_is_noticed_at_the_end_of_the_session() -> None:
    world, members = running("a", "b", "c")
    members["b"].crash()
    world.run(120_000)
    actual, (quick, slow) = asked(world, "session.timeout.ms=6000", "session.timeout.ms=45000")
    assert [one.detect_ms for one in (actual, quick, slow)] == [10_000, 6_000, 45_000]
    assert [one.silent_partition_ms for one in (actual, quick, slow)] == [30_000, 18_000, 135_000]
    assert [one.rebalances for one in (actual, quick, slow)] == [2, 2, 2]


def test_a_death_that_is_not_seen_before_the_log_ends_costs_what_it_costs_so_far() -> None:
    world, members = running("a", "b", "c")
    members["b"].crash()
    world.run(62_000)
    actual, (patient, static) = asked(world, "session.timeout.ms=300000", "static,session.timeout.ms=300000")
    assert (actual.rebalances, actual.silent_partition_ms) == (2, near(3 * 10_000))
    for one in (patient, static):
        # from its last heartbeat on
        assert (one.rebalances, one.paused_partition_ms, one.detect_ms) == (1, near(FORMING_MS), None)
        assert one.silent_partition_ms == pytest.approx(3 * 62_000, abs=3 * 3_000)


def test_a_group_stopped_for_good_has_no_unread_time() -> None:
    world, members = running("a", "b", "c")
    for member in members.values():
        member.stop()
    world.run(600_000)
    actual, (static,) = asked(world, "static,session.timeout.ms=300000")
    assert actual.silent_partition_ms == static.silent_partition_ms == 0


def test_an_empty_group_reads_nothing_under_any_setting() -> None:
    world, members = running("a")
    restart(world, members["a"], 7_000)
    actual, (static, patient) = asked(world, "static", "group.initial.rebalance.delay.ms=30000")
    assert [one.silent_partition_ms for one in (actual, static, patient)] == [near(PARTITIONS * 7_000)] * 3
    # then it waits for more members, which never come; a static member continues with its partitions
    assert [one.paused_partition_ms for one in (actual, static, patient)] == [
        near(PARTITIONS * ms) for ms in (2 * 3_000, 3_000, 2 * 30_000)
    ]


def test_a_pause_is_no_death_under_a_longer_session() -> None:
    world, members = running("a", "b")
    members["b"].pause()
    world.at(20_000, members["b"].wake)
    world.run(120_000)
    actual, (longer,) = asked(world, "session.timeout.ms=45000")
    assert actual.rebalances == 3
    assert (longer.rebalances, longer.moved_partitions, longer.detect_ms) == (1, 0, None)


def test_a_restart_within_a_longer_session_waits_for_the_dead() -> None:
    """The new process joins at once; the group waits for the old one until its session is over."""
    world, members = running("a", "b", "c")
    members["b"].crash()
    world.run(2_000)
    members["b"].start()
    world.run(120_000)
    actual, (longer,) = asked(world, "session.timeout.ms=45000")
    assert longer.paused_partition_ms - actual.paused_partition_ms == PARTITIONS * 35_000


def test_a_cooperative_strategy_pauses_only_what_moves() -> None:
    world, _ = running("a", "b")
    Consumer(world, "c").start()
    world.run(60_000)
    actual, (cooperative,) = asked(world, "assignor=cooperative-sticky")
    # a had 0-4 and b 5-8; range gives 0-2, 3-5 and 6-8
    assert (actual.rebalances, actual.moved_partitions) == (2, 2 + 3)
    # a gives up two of five partitions and b one of four, for which all members join twice
    assert (cooperative.rebalances, cooperative.moved_partitions) == (3, 2 + 1)
    assert 0 < cooperative.paused_partition_ms - FORMING_MS < (actual.paused_partition_ms - FORMING_MS) / 2


def test_another_strategy_moves_less() -> None:
    world, members = running("a", "b", "c")
    restart(world, members["a"], 30_000)
    actual, (range_too, sticky) = asked(world, "assignor=range", "assignor=sticky")
    assert range_too == actual
    assert sticky.rebalances == actual.rebalances
    assert sticky.moved_partitions == 3 + 3 < actual.moved_partitions


def test_a_longer_delay_lets_members_join_together() -> None:
    world = Reality(partitions=PARTITIONS)
    for name in ("a", "b", "c"):
        Consumer(world, name).start()
        world.run(8_000)
    world.run(60_000)
    actual, found = asked(world, *(f"group.initial.rebalance.delay.ms={ms}" for ms in (0, 3_000, 10_000)))
    assert actual.rebalances == 3
    assert [one.rebalances for one in found] == [3, 3, 1]
    # no member reads while the group waits: one delay after another, as long as members join
    assert found[2].paused_partition_ms == near(PARTITIONS * 30_000)
    assert found[0].paused_partition_ms < found[1].paused_partition_ms < found[2].paused_partition_ms


def test_without_a_delay_the_first_member_is_alone() -> None:
    world = Reality(partitions=PARTITIONS)
    for name in ("a", "b"):
        Consumer(world, name).start()
        world.run(1_000)
    world.run(60_000)
    actual, (none,) = asked(world, "group.initial.rebalance.delay.ms=0")
    assert (actual.rebalances, none.rebalances) == (1, 2)


def test_members_that_heartbeat_more_often_notice_sooner() -> None:
    world, members = running("a", "b", "c")
    restart(world, members["b"], 30_000)
    actual, (often,) = asked(world, "heartbeat.interval.ms=300")
    assert often.rebalances == actual.rebalances
    assert often.paused_partition_ms - FORMING_MS < (actual.paused_partition_ms - FORMING_MS) / 5


def test_a_quick_heartbeat_cannot_be_improved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.pipeline.whatif.reality.HEARTBEAT_MS", 1_000)
    world, members = running("a", "b", "c")
    for _ in range(3):
        restart(world, members["b"], 30_000)
    actual, (same,) = asked(world, "heartbeat.interval.ms=1000")
    assert same.paused_partition_ms - FORMING_MS == pytest.approx(actual.paused_partition_ms - FORMING_MS, rel=0.2)


def test_a_deploy_in_other_steps() -> None:
    world, members = running("a", "b", "c", "d")
    for member in members.values():
        restart(world, member, 10_000)
    actual, (two, everybody) = asked(world, "deploy=rolling:2", "deploy=all")
    assert actual.rebalances == 1 + 8
    # two leave together and return together: one rebalance each time
    assert two.rebalances == 1 + 4
    # no member is left, and those that return meet in the delay
    assert everybody.rebalances == 1 + 1
    # but until then no member reads
    assert everybody.silent_partition_ms == near(PARTITIONS * 10_000)
    assert two.silent_partition_ms == 0


def test_a_deploy_of_static_members_all_at_once() -> None:
    world, members = running("a", "b", "c")
    for member in members.values():
        restart(world, member, 2_000)
    _, (found,) = asked(world, "static,deploy=all")
    assert (found.rebalances, found.silent_partition_ms) == (1, near(PARTITIONS * 2_000))


def test_a_topic_grows_under_every_strategy() -> None:
    world, members = running("a", "b", "c")
    world.grow("t", 12)
    members["a"].rejoin()
    world.run(30_000)
    actual, found = asked(world, "assignor=sticky", "assignor=cooperative-sticky", "static")
    assert [one.rebalances for one in found] == [actual.rebalances] * 3 == [2] * 3


def test_real_static_members_stay_what_they_were() -> None:
    world, members = running("a", "b", "c", instances=True)
    restart(world, members["b"], 5_000)
    members["c"].crash()
    world.run(60_000)
    actual, (static,) = asked(world, "static")
    assert static == actual
    assert (actual.rebalances, actual.detect_ms) == (2, 10_000)


# ---- strategies that are not Kafka's


def renamed(world: Reality, name: str) -> Reality:
    """Give the strategy another name."""
    world.events = json.loads(json.dumps(world.events).replace('"range"', f'"{name}"'))
    return world


def test_recorded_assignments_are_used_for_an_unknown_strategy() -> None:
    world, members = running("a", "b", "c")
    restart(world, members["b"], 20_000)
    found = played(renamed(world, "shop"), "session.timeout.ms=45000", "static", "assignor=sticky")
    assert [one.why for one in found.whatif] == [None] * 4


def test_an_unknown_strategy_cannot_be_replayed_for_new_member_sets() -> None:
    world, members = running("a", "b", "c")
    members["b"].stop()
    world.run(200)
    members["c"].stop()
    world.run(30_000)
    # so quick that a and c are a group for a moment
    found = played(renamed(world, "shop"), "heartbeat.interval.ms=10")
    assert found.whatif[1].figures is None
    assert found.whatif[1].why == "strategy 'shop' is not known here, and nobody saw what it gives these members"


def test_a_leader_with_its_own_assignment_is_recognized() -> None:
    """The leader names its strategy range, and distributes the shares in another order."""
    world, members = running("a", "b", "c")
    restart(world, members["b"], 20_000)
    for value in world.events:
        if value["kind"] == "rebalance_completed":
            shares = [one["assignment"] for one in value["members"]]
            for one, share in zip(value["members"], shares[1:] + shares[:1], strict=True):
                one["assignment"] = share
    found = played(world, "session.timeout.ms=45000")
    assert found.fidelity.why == OTHER_ASSIGNOR


# ---- what cannot be replayed


Change = Callable[[dict[str, Any]], object]


CHANGES: dict[str, tuple[str, Change]] = {
    "it is no group of consumers but of type 'connect'": (
        "member_joined",
        lambda value: value.update(protocol_type="connect"),
    ),
    "the subscription of a member cannot be read": (
        "member_joined",
        lambda value: value["member"]["protocols"][0].update(metadata="AA=="),
    ),
    "an assignment of it cannot be read": (
        "rebalance_completed",
        lambda value: value["members"][0].update(assignment=None),
    ),
    "no generation of it is in the log": ("rebalance_completed", lambda value: value.update(kind="something_new")),
}


@pytest.mark.parametrize("why", CHANGES)
def test_a_history_that_cannot_be_replayed_has_a_reason(why: str) -> None:
    kind, change = CHANGES[why]
    world, _ = running("a")
    for value in world.events:
        if value["kind"] == kind:
            change(value)
    found = compare(from_events.history_of(GROUP, world.events), parse("static"))
    assert (found.fidelity.withheld, found.fidelity.why, found.whatif) == (True, why, [])


def test_too_little_fidelity_withholds_the_what_if() -> None:
    world, members = running("a", "b", "c")
    restart(world, members["b"], 20_000)
    for value in world.events:
        # as if every generation had a member of which nothing else is known
        if value["kind"] == "rebalance_completed":
            value["members"].append({**value["members"][0], "member": "a-stranger", "assignment": []})
    found = compare(from_events.history_of(GROUP, world.events), parse("static"))
    assert found.fidelity.withheld
    assert found.fidelity.why is not None
    assert "0 of 3 generations as they were, 99% are needed; mostly members differ" in found.fidelity.why


def test_a_partial_history_is_replayed() -> None:
    world, members = running("a", "b", "c")
    restart(world, members["b"], 20_000)
    first = next(at for at, value in enumerate(world.events) if value["kind"] == "rebalance_completed")
    world.events = world.events[first:]
    actual, (static,) = asked(world, "static,session.timeout.ms=60000")
    assert (actual.rebalances, static.rebalances) == (2, 0)


# ---- from the offsets log alone


def test_a_history_from_the_offsets_log_gives_the_same_figures() -> None:
    world, members = running("a", "b", "c")
    restart(world, members["b"], 5_000)
    members["c"].crash()
    world.run(60_000)
    ends = {value["member"]["member"]: "expired" for value in world.events if value["kind"] == "member_expired"}
    found = compare(from_log.history_of(GROUP, world.records, ends, world.ms), parse("session.timeout.ms=45000"))
    assert (found.fidelity.source, found.fidelity.share, found.actual.rebalances) == ("log", 1.0, 4)
    (longer,) = [one.figures for one in found.whatif]
    assert longer is not None
    assert (found.actual.detect_ms, longer.detect_ms) == (10_000, 45_000)


def test_without_commits_missing_members_count_as_left() -> None:
    world, members = running("a", "b")
    members["b"].crash()
    world.run(60_000)
    found = compare(from_log.history_of(GROUP, world.records, None, world.ms), parse("session.timeout.ms=45000"))
    assert (found.fidelity.share, found.actual.detect_ms) == (1.0, None)
