from __future__ import annotations

from muster.assignors.assignor import Member, Topic
from muster.assignors.sticky_group import EqualShares, Group


def shares(topics: dict[str, Topic], *members: Member) -> EqualShares:
    return EqualShares(Group(members, topics, lambda member: (member.owned.items(), member.generation)))


def test_the_larger_shares_stay_with_members_that_have_them() -> None:
    got = shares({"t": Topic(5)}, Member("a", ("t",), {"t": [0, 1]}, 1), Member("b", ("t",), {"t": [2, 3, 4]}, 1))
    assert got.shares == [[0, 1], [2, 3, 4]]
    assert got.moving == {}


def test_partitions_that_move_from_a_current_owner_are_reported() -> None:
    got = shares({"t": Topic(5)}, Member("a", ("t",)), Member("b", ("t",), {"t": [4, 3, 2, 1, 0]}, 1))
    assert got.shares == [[3, 4], [0, 1, 2]]
    assert got.moving == {3: 0, 4: 0}


def test_contested_partitions_are_reported_as_moving() -> None:
    got = shares({"t": Topic(2)}, Member("a", ("t",), {"t": [0, 1]}, 1), Member("b", ("t",), {"t": [1]}, 1))
    assert got.shares == [[0], [1]]
    assert got.moving == {1: 1}


def test_free_partitions_go_in_turn_to_members_below_the_least_share() -> None:
    got = shares({"t": Topic(7)}, Member("a", ("t",), {"t": [6]}, 1), Member("b", ("t",)), Member("c", ("t",)))
    assert got.shares == [[6, 0, 5], [1, 3], [2, 4]]


def test_partitions_with_the_fewest_racks_are_assigned_first() -> None:
    topics = {"t": Topic(4, [{"x", "y"}, {"x", "y"}, {"x"}, {"y"}])}
    got = shares(topics, Member("a", ("t",), rack="x"), Member("b", ("t",), rack="y"))
    assert [sorted(codes) for codes in got.shares] == [[0, 2], [1, 3]]


def test_partitions_without_a_matching_rack_go_to_any_member_below_its_share() -> None:
    topics = {"t": Topic(4, [{"x"}, {"x"}, {"x"}, {"x", "z"}])}
    got = shares(topics, Member("a", ("t",), rack="x"), Member("b", ("t",), {"t": [0]}, 1, rack="y"))
    assert [len(codes) for codes in got.shares] == [2, 2]
    assert got.moving == {0: 0}  # b had it, but no replica is in b's rack
