"""The strategy of share groups. tests/assignors/test_frozen.py compares it with Kafka's class."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.assignors.assignor import Assignment, Member, Topic
from muster.assignors.simple import SimpleAssignor
from tests.assignors.groups import members, sizes
from tests.assignors.test_properties import Group, groups

SIMPLE = SimpleAssignor()


def readers(assignment: Assignment) -> Counter[tuple[str, int]]:
    """The number of readers of each partition."""
    return Counter((topic, p) for its in assignment.values() for topic, partitions in its.items() for p in partitions)


def with_targets(group: list[Member], made: Assignment) -> list[Member]:
    return [replace(member, owned=made[member.member_id]) for member in group]


def test_a_group_without_members_has_no_assignment() -> None:
    assert SIMPLE.assign([], sizes(t=2)) == {}


def test_two_members_with_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match="'a' occurs twice"):
        SIMPLE.assign([*members(a="t"), *members(a="t")], sizes(t=2))


def test_more_partitions_than_members_have_one_reader_each() -> None:
    assert SIMPLE.assign(members(a="t", b="t"), sizes(t=3)) == {"a": {"t": [0, 2]}, "b": {"t": [1]}}


def test_fewer_partitions_than_members_are_read_by_several() -> None:
    made = SIMPLE.assign(members(a="t", b="t", c="t"), sizes(t=2))
    assert made == {"a": {"t": [0, 1]}, "b": {"t": [0]}, "c": {"t": [1]}}


def test_a_new_member_takes_only_what_others_have_beyond_their_share() -> None:
    before = SIMPLE.assign(members(a="t", b="t"), sizes(t=4))
    group = [*with_targets(members(a="t", b="t"), before), *members(c="t")]
    after = SIMPLE.assign(group, sizes(t=4))
    assert readers(after) == dict.fromkeys([("t", p) for p in range(4)], 1)
    assert all(set(after[one]["t"]) <= set(before[one]["t"]) for one in "ab")


def test_only_partitions_with_initialized_state_are_assigned() -> None:
    group, topics = members(a="t u", b="t u"), sizes(t=3, u=2)
    assert readers(SIMPLE.assign(group, topics, {"t": [1]})) == {("t", 1): 2}
    assert SIMPLE.assign(group, topics, {}) == {"a": {}, "b": {}}


def test_a_topic_that_no_member_reads_any_more_is_lost() -> None:
    before = SIMPLE.assign(members(a="t u", b="t u"), sizes(t=2, u=2))
    group = with_targets(members(a="t", b="t"), before)
    assert readers(SIMPLE.assign(group, sizes(t=2, u=2))) == {("t", 0): 1, ("t", 1): 1}


def test_members_without_topics_have_nothing() -> None:
    group = [replace(one, owned={"t": [0]}) for one in members(a="", b="")]
    assert SIMPLE.assign(group, sizes(t=1)) == {"a": {}, "b": {}}
    group = [Member("a", ("missing",), {"t": [0]}), Member("b", ("other",))]
    assert SIMPLE.assign(group, sizes(t=1)) == {"a": {}, "b": {}}


def test_a_member_that_drops_a_topic_keeps_the_topic_without_partitions_as_in_the_record_of_kafka() -> None:
    before = SIMPLE.assign(members(a="t u", b="t u"), sizes(t=2, u=2))
    group = with_targets(members(a="t", b="t u"), before)
    after = SIMPLE.assign(group, sizes(t=2, u=2))
    assert after["a"].get("u", []) == []
    assert readers(after) == {("t", 0): 1, ("t", 1): 1, ("u", 0): 1, ("u", 1): 1}


@given(groups(alike=True, racks=False))
@settings(max_examples=50, deadline=None)
def test_with_equal_subscriptions_partitions_have_equally_many_readers(group: Group) -> None:
    its, topics = group
    assignable = [(name, p) for name in its[0].topics for p in range(topics[name].partitions)]
    made = SIMPLE.assign(its, topics)
    sharing = -(-len(its) // len(assignable))
    assert readers(made) == dict.fromkeys(assignable, sharing)
    loads = sorted(sum(map(len, share.values())) for share in made.values())
    assert loads[0] >= 1
    assert loads[-1] - loads[0] <= 1


@given(groups(racks=False), st.integers(0, 7))
@settings(max_examples=50, deadline=None)
def test_each_topic_is_shared_by_its_subscribers_also_when_a_member_has_left(group: Group, leaving: int) -> None:
    its, topics = group
    made = SIMPLE.assign(its, topics)
    assert SIMPLE.assign(with_targets(its, made), topics) == made
    stay = with_targets(its, made)
    stay.pop(leaving % len(its))
    after = SIMPLE.assign(stay, topics)
    read = {name for member in stay for name in member.topics}
    wanted = {(name, p) for name in read for p in range(topics[name].partitions)}
    assert {one for one, count in readers(after).items() if count and one[0] in read} == wanted


def test_a_large_group_shares_thousands_of_partitions() -> None:
    group = [Member(f"member-{number:04}", ("t",)) for number in range(1_000)]
    made = SIMPLE.assign(group, {"t": Topic(2_500, (), bytes(range(16)))})
    assert {len(share["t"]) for share in made.values()} == {2, 3}
