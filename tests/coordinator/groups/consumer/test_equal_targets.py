"""Members that all subscribe to the same topics: the next targets are made from the last ones, and equal those that
the assignor computes from all members.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.assignors.builtin import SERVER_ASSIGNORS
from muster.coordinator.groups.common.image import TopicsChanged
from muster.coordinator.groups.consumer import prepared_target, target
from muster.coordinator.groups.consumer.commands import AssignmentComputed, AssignmentWanted, TopicsFound
from muster.coordinator.groups.consumer.member import NOTHING
from tests.coordinator.groups.consumer.harness import IDS, ConsumerGroupHarness, T, topics
from tests.support.opcodes import instructions

UNIFORM = SERVER_ASSIGNORS["uniform"]


@pytest.fixture(autouse=True)
def all_targets_are_computed_in_threads() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, "AT_ONCE", -1)
        yield


def group(**counts: int) -> ConsumerGroupHarness:
    harness = ConsumerGroupHarness(helped=True)
    harness.notify(TopicsChanged(topics(**counts)))
    return harness


def compute(harness: ConsumerGroupHarness) -> AssignmentComputed | None:
    """Compute the wanted targets by both ways, and compare them. None when no targets are wanted."""
    if not harness.offloaded:
        return None
    wanted = harness.offloaded.pop(0)
    assert isinstance(wanted, AssignmentWanted)
    computed = prepared_target.compute(wanted, UNIFORM)
    quick, usual = computed.prepared_target, prepared_target.compute(replace(wanted, equal=None), UNIFORM)
    assert quick.member_targets == usual.prepared_target.member_targets
    assert quick.order == usual.prepared_target.order
    assert quick.records == usual.prepared_target.records
    kept, anew = quick.equal, usual.prepared_target.equal
    assert (kept is None) == (anew is None)
    assert kept is None or (kept.counts, list(kept.sizes.items())) == (anew.counts, list(anew.sizes.items()))
    return computed


def step(harness: ConsumerGroupHarness) -> None:
    while (computed := compute(harness)) is not None:
        harness.notify(computed)


MEMBERS = st.sampled_from([f"m-{number}" for number in range(9)])
CHANGES = st.one_of(
    st.tuples(st.just("joins"), MEMBERS),
    st.tuples(st.just("joins"), MEMBERS),
    st.tuples(st.just("leaves"), MEMBERS),
    st.tuples(st.just("returns"), st.sampled_from(["i-0", "i-1"])),
    st.tuples(st.just("differs"), MEMBERS),
    st.tuples(st.just("renames"), st.integers(0, 40)),
    st.tuples(st.just("grows"), st.sampled_from([(3, 2), (12, 5), (40, 9)])),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(CHANGES, max_size=20), st.booleans())
def test_targets_made_from_the_last_ones_are_those_of_the_assignor(
    changes: list[tuple[str, Any]],
    is_late: bool,
) -> None:
    harness, returns = group(t=12, u=5), 0
    harness.first_heartbeat("first", "t", "u")
    for what, who in changes:
        present = harness.consumers().members
        if what == "joins":
            harness.first_heartbeat(who, "t", "u")
        elif what == "leaves" and who in present:
            harness.heartbeat(who, -1)
        elif what == "differs":
            harness.first_heartbeat(who, "t")
        elif what == "renames":  # all members subscribe to topics that do not exist, too
            names = ["t", "u", *[f"missing-{number}" for number in range(who)]]
            for one in list(present):
                harness.heartbeat(one, names=names)
        elif what == "grows":
            harness.notify(TopicsChanged(topics(t=who[0], u=who[1])))
        elif what == "returns":
            returns += 1
            before = harness.consumers().static_member(who)
            if before is not None:
                harness.heartbeat(before.member_id, -2, instance=who)
            harness.first_heartbeat(f"s-{returns}", "t", "u", instance=who)
        computed = compute(harness)
        if is_late:  # the next change is made before these targets are in force
            harness.first_heartbeat(f"late-{len(present) % 3}", "t", "u")
        if computed is not None:
            harness.notify(computed)
        step(harness)
        harness.heartbeat("first", owned={})
        step(harness)


def settled(members: int, partitions: int) -> ConsumerGroupHarness:
    harness = group(t=partitions)
    for number in range(members):
        harness.first_heartbeat(f"m-{number}", "t")
    step(harness)
    harness.heartbeat("m-0")
    step(harness)
    return harness


def test_a_member_more_touches_only_the_members_whose_shares_change(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = settled(20, 200)
    harness.first_heartbeat("more", "t")
    monkeypatch.setattr(AssignmentWanted, "assign", None)
    wanted = harness.offloaded.pop(0)
    computed = prepared_target.compute(wanted, UNIFORM).prepared_target
    changed = {one for one, its in computed.member_targets.items() if its is not wanted.targets.get(one)}
    assert changed == set(computed.records)
    assert 2 < len(changed) < 12


def test_a_member_more_costs_a_fraction_of_all_targets() -> None:
    harness = settled(300, 3_000)
    harness.first_heartbeat("more", "t")
    wanted = harness.offloaded.pop(0)
    anew = replace(wanted, equal=None)
    costs = [instructions(lambda wanted=wanted: prepared_target.compute(wanted, UNIFORM)) for wanted in (wanted, anew)]
    assert costs[0] * 2 < costs[1]


@pytest.mark.parametrize(
    "strange",
    [
        {"nobody": ((T, (0,)),)},  # a target without a member
        {"m-0": ((T, (0, 1, 2, 3)),), "m-1": ((T, (0, 1)),)},  # two owners
        {"m-0": ((b"?" * 16, (0,)),)},  # a topic that the group does not have
        {"m-0": ((T, (99,)),)},
    ],
)
def test_targets_that_share_nothing_equally_are_left_to_the_assignor(strange: Any) -> None:
    harness = settled(2, 6)
    harness.consumers().targets.update(strange)
    harness.first_heartbeat("more", "t")
    computed = compute(harness)
    assert computed is not None
    assert sum(computed.prepared_target.equal.counts.values()) == 6


def test_a_member_without_partitions_gets_a_record_and_later_a_share() -> None:
    harness = settled(3, 2)
    assert NOTHING in harness.consumers().targets.values()
    harness.first_heartbeat("more", "t")
    step(harness)
    owner = next(one for one, its in harness.consumers().targets.items() if its and one != "m-0")
    harness.heartbeat(owner, -1)
    harness.heartbeat("m-0")
    step(harness)
    assert sum(map(bool, harness.consumers().targets.values())) == 2


def test_names_of_missing_topics_count_in_the_order_of_free_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ap":  # in a table of 16 buckets "p" is before "a", in one of 128 buckets behind it
        monkeypatch.setitem(IDS, name, name.encode() * 16)
    harness = group(a=3, p=3)
    harness.first_heartbeat("m-0", "a", "p")
    step(harness)
    assert [*harness.consumers().equal_targets.sizes] == [b"p" * 16, b"a" * 16]
    harness.heartbeat("m-0", names=["a", "p", *[f"missing-{number}" for number in range(60)]])
    step(harness)
    assert [*harness.consumers().equal_targets.sizes] == [b"a" * 16, b"p" * 16]


def test_members_with_one_pattern_have_equal_shares_too(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = group(t=12, u=5)

    def join(member: str) -> None:
        harness.first_heartbeat(member, pattern="t|u")
        while harness.offloaded:
            if isinstance(harness.offloaded[0], AssignmentWanted):
                computed = compute(harness)
                assert computed is not None
                harness.notify(computed)
            else:
                wanted = harness.offloaded.pop(0)
                harness.notify(TopicsFound(wanted, {"t|u": ["t", "u"]}))
        harness.heartbeat(member, owned={})
        step(harness)

    for member in "ABC":
        join(member)
    assert sorted(harness.consumers().equal_targets.counts.values()) == [5, 6, 6]
    harness.first_heartbeat("D", pattern="t|u")
    wanted = harness.offloaded.pop(0)
    monkeypatch.setattr(AssignmentWanted, "assign", None)
    assert prepared_target.compute(wanted, UNIFORM).prepared_target.equal.counts.keys() == set("ABCD")
