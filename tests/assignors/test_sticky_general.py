from __future__ import annotations

from muster.assignors.assignor import Assignment, Member, Topic
from muster.assignors.sticky import CooperativeStickyAssignor, StickyAssignor, encode_owned
from tests.assignors.groups import loads, moved, sizes, written


def had(member_id: str, topics: str, generation: int = 1, rack: str | None = None, **owned: list[int]) -> Member:
    return Member(member_id, tuple(topics.split()), rack=rack, user_data=encode_owned(owned, generation))


def assign(topics: dict[str, Topic], *members: Member) -> Assignment:
    return StickyAssignor().assign(members, topics)


def test_topics_with_the_fewest_subscribers_are_assigned_first() -> None:
    got = assign(sizes(t=4, u=4), had("a", "t u"), had("b", "t"))
    assert written(got) == {"a": "up0 up1 up2 up3", "b": "tp0 tp1 tp2 tp3"}


def test_members_that_can_own_no_more_keep_their_partitions() -> None:
    got = assign(sizes(t=6, u=1), had("a", "u"), had("b", "t"), had("c", "t"))
    assert loads(got) == [3, 3, 1]
    assert got["a"] == {"u": [0]}


def test_general_sticky_moves_no_more_than_balance_requires() -> None:
    before: Assignment = {"a": {"t": [0, 1, 2, 3], "u": [0, 1]}, "b": {}}
    got = assign(sizes(t=4, u=2, v=1), had("a", "t u v", **before["a"]), had("b", "t u"))
    assert loads(got) == [4, 3]
    assert moved(before, got) == 3


def test_a_returning_member_of_an_older_generation_gets_its_partitions_back() -> None:
    topics = sizes(t=6, u=1)
    got = assign(topics, had("a", "t u", 5, t=[0, 1, 2, 3, 4, 5], u=[0]), had("b", "t", 3, t=[3, 4, 5]))
    assert got["b"]["t"] == [3, 4, 5]


def test_a_previous_owner_that_takes_no_part_does_not_fail_the_assignment() -> None:
    topics = sizes(t=6)
    got = assign(topics, had("a", "t", 5, t=[0, 1, 2, 3, 4, 5]), had("b", "t", 5), had("old", "gone", 3, t=[0, 1]))
    assert loads(got) == [3, 3, 0]
    assert got["old"] == {}


def test_racks_decide_among_subscribers_of_equal_load() -> None:
    topics = {"t": Topic(4, [{"x"}, {"y"}, {"x"}, {"y"}]), "u": Topic(1, [{"x"}])}
    got = assign(topics, had("a", "t u", rack="x"), had("b", "t", rack="y"))
    assert written(got) == {"a": "tp0 tp2 up0", "b": "tp1 tp3"}


def test_general_sticky_without_topics_assigns_nothing() -> None:
    members = [Member("a", ("t",)), Member("b", ("t", "u"))]
    assert CooperativeStickyAssignor().assign(members, {}) == {"a": {}, "b": {}}
