"""What every strategy guarantees, on groups that hypothesis draws.

Member ids are single letters. Each falls into its own bucket, so that Java would take them in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.assignors.assignor import Assignment, Member, Topic
from tests.assignors.cases import Case
from tests.assignors.groups import loads, moved, owners, settled
from tests.assignors.histories import ASSIGNORS, rounds

Group = tuple[list[Member], dict[str, Topic]]
BALANCED = ("roundrobin", "sticky", "cooperative-sticky", "uniform")
STICKY = ("sticky", "cooperative-sticky", "uniform")
RACKS = st.one_of(st.none(), st.sampled_from("xyz"))


@st.composite
def groups(draw: st.DrawFn, least: int = 1, alike: bool | None = None, racks: bool = True) -> Group:
    """A few members of a few topics. Their subscriptions are equal, or drawn one by one."""
    names = "tuvw"[: draw(st.integers(1, 4))]
    with_racks = racks and draw(st.booleans())
    topics = {}
    for number, name in enumerate(names):
        size = draw(st.integers(1, 8))
        places = [draw(st.sets(st.sampled_from("xyz"), min_size=1)) for _ in range(size)] if with_racks else []
        topics[name] = Topic(size, places, (number * 7919).to_bytes(16, "big"))
    equal = draw(st.booleans()) if alike is None else alike
    members = []
    for member_id in "abcdefgh"[: draw(st.integers(least, 8))]:
        subset = names if equal else draw(st.sets(st.sampled_from(names), min_size=1))
        members.append(Member(member_id, tuple(sorted(subset)), rack=draw(RACKS) if with_racks else None))
    return members, topics


def same(assignment: Assignment) -> dict[str, dict[str, list[int]]]:
    """The assignment, whatever the order of topics and partitions."""
    return {m: {t: sorted(p) for t, p in sorted(mine.items())} for m, mine in assignment.items()}


def assert_complete(members: list[Member], topics: Mapping[str, Topic], assignment: Assignment) -> None:
    """Each partition of a subscribed topic has one owner, who is subscribed to it."""
    assert set(assignment) == {member.member_id for member in members}
    subscribed = {member.member_id: set(member.topics) for member in members}
    owned = owners(assignment)
    wanted = set().union(*subscribed.values())
    assert set(owned) == {(name, p) for name in wanted for p in range(topics[name].partitions)}
    assert all(name in subscribed[owner] for (name, _), owner in owned.items())


@pytest.mark.parametrize("strategy", ASSIGNORS)
@given(groups(), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_assignments_are_complete_and_independent_of_member_order(strategy: str, group: Group, rng: object) -> None:
    members, topics = group
    assert_complete(members, topics, ASSIGNORS[strategy].assign(members, topics))
    after = settled(ASSIGNORS[strategy], members, topics)[0]
    shuffled, mixed = list(after), list(topics.items())
    rng.shuffle(shuffled)
    rng.shuffle(mixed)
    assert same(ASSIGNORS[strategy].assign(shuffled, dict(mixed))) == same(ASSIGNORS[strategy].assign(after, topics))


@pytest.mark.parametrize("strategy", BALANCED)
@given(groups(alike=True))
@settings(max_examples=25, deadline=None)
def test_members_with_equal_subscriptions_get_equal_shares(strategy: str, group: Group) -> None:
    assignment = settled(ASSIGNORS[strategy], *group)[1]
    assert loads(assignment)[0] - loads(assignment)[-1] <= 1


@pytest.mark.parametrize("strategy", ["range", "server-range"])
@given(groups())
@settings(max_examples=25, deadline=None)
def test_range_shares_each_topic_equally(strategy: str, group: Group) -> None:
    members, topics = group
    assignment = ASSIGNORS[strategy].assign(members, topics)
    for name in topics:
        sizes = [len(assignment[m.member_id].get(name, ())) for m in members if name in m.topics]
        assert max(sizes, default=0) - min(sizes, default=0) <= 1


@given(groups(alike=True))
@settings(max_examples=25, deadline=None)
def test_range_co_partitions_topics_of_equal_size(group: Group) -> None:
    members, topics = group
    assignment = ASSIGNORS["range"].assign(members, topics)
    for one in topics:
        for other in topics:
            if topics[one].partitions == topics[other].partitions:
                assert all(sorted(m.get(one, [])) == sorted(m.get(other, [])) for m in assignment.values())


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
@given(groups(racks=False))
@settings(max_examples=40, deadline=None)
def test_no_single_move_improves_the_balance(strategy: str, group: Group) -> None:
    members, topics = group
    assignment = settled(ASSIGNORS[strategy], members, topics)[1]
    load = {member_id: sum(map(len, mine.values())) for member_id, mine in assignment.items()}
    for (name, _), owner in owners(assignment).items():
        takers = [load[m.member_id] for m in members if name in m.topics]
        assert load[owner] <= min(takers) + 1


@pytest.mark.parametrize("strategy", STICKY)
@given(groups(least=2, alike=True, racks=False), st.integers(0, 7))
@settings(max_examples=25, deadline=None)
def test_only_partitions_of_a_leaving_member_move(strategy: str, group: Group, leaving: int) -> None:
    members, topics = group
    after, before = settled(ASSIGNORS[strategy], members, topics)
    gone = after.pop(leaving % len(after)).member_id
    assert moved(before, ASSIGNORS[strategy].assign(after, topics)) == sum(map(len, before[gone].values()))


@pytest.mark.parametrize("strategy", STICKY)
@given(groups(alike=True, racks=False))
@settings(max_examples=25, deadline=None)
def test_only_the_share_of_a_joining_member_moves(strategy: str, group: Group) -> None:
    members, topics = group
    after, before = settled(ASSIGNORS[strategy], members, topics)
    joined, grown = settled(ASSIGNORS[strategy], [*after, Member("i", members[0].topics)], topics)
    assert moved(before, grown) == sum(map(len, grown["i"].values()))
    assert same(settled(ASSIGNORS[strategy], joined, topics)[1]) == same(grown)


@given(groups(alike=True, racks=False), st.integers(0, 7), st.integers(0, 8))
@settings(max_examples=40, deadline=None)
def test_two_cooperative_rounds_suffice_and_kept_partitions_are_never_revoked(
    group: Group, leaving: int, joining: int
) -> None:
    strategy = ASSIGNORS["cooperative-sticky"]
    members, topics = group
    after = settled(strategy, members, topics)[0]
    del after[leaving % len(after)]
    after += [Member(member_id, members[0].topics) for member_id in "ABCDEFGH"[:joining]]
    calls, settled_members = rounds(Case("cooperative-sticky", after, topics), 10, 9)
    assert len(calls) <= 2
    final = {m.member_id: m.owned for m in settled_members}
    for call in calls:
        assignment = strategy.assign(call.members, call.topics)
        for m in call.members:
            for name, partitions in m.owned.items():
                kept = set(partitions) & set(final[m.member_id].get(name, ()))
                assert kept <= set(assignment[m.member_id].get(name, ()))


@given(groups(), groups(), st.integers(0, 7))
@settings(max_examples=40, deadline=None)
def test_cooperative_assignments_never_give_a_partition_that_is_still_owned(
    group: Group, other: Group, leaving: int
) -> None:
    """The rule holds for all racks and subscriptions."""
    strategy = ASSIGNORS["cooperative-sticky"]
    members, topics = group
    after = settled(strategy, members, topics)[0]
    del after[leaving % len(after)]
    after += [
        Member(m.member_id.upper(), tuple(t for t in m.topics if t in topics) or tuple(topics), rack=m.rack)
        for m in other[0]
    ]
    for call in rounds(Case("cooperative-sticky", after, topics), 10)[0]:
        held = owners({m.member_id: {t: list(p) for t, p in m.owned.items()} for m in call.members})
        for partition, owner in owners(strategy.assign(call.members, call.topics)).items():
            assert held.get(partition, owner) == owner
