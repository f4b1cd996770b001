from __future__ import annotations

from dataclasses import replace

from muster.assignors.assignor import Assignment, Member, Topic
from muster.assignors.sticky import StickyAssignor, encode_owned
from tests.assignors.groups import loads, members, moved, settled, sizes, written

STICKY = StickyAssignor()


def claiming(member_id: str, topics: str, generation: int, **owned: list[int]) -> Member:
    """A member whose user data names the partitions that it had."""
    return Member(member_id, tuple(topics.split()), generation=generation, user_data=encode_owned(owned, generation))


def without(group: list[Member], *leaving: str) -> list[Member]:
    return [member for member in group if member.member_id not in leaving]


def test_sticky_moves_only_partitions_of_the_leaver_in_the_small_example() -> None:
    topics = sizes(t1=2, t2=2)
    group, first = settled(STICKY, members(c1="t1 t2", c2="t1 t2", c3="t1 t2"), topics)
    assert loads(first) == [2, 1, 1]
    left = STICKY.assign(without(group, "c2"), topics)
    assert loads(left) == [2, 2]
    assert moved(first, left) == sum(map(len, first["c2"].values()))


def test_sticky_moves_five_of_fifty_when_one_of_ten_leaves() -> None:
    topics = sizes(t=50)
    group, first = settled(STICKY, members(**{f"m{i}": "t" for i in range(10)}), topics)
    assert loads(first) == [5] * 10
    left = STICKY.assign(without(group, "m4"), topics)
    assert moved(first, left) == 5
    assert loads(left) == [6] * 5 + [5] * 4


def test_sticky_gives_the_assignment_of_kafkas_first_example() -> None:
    topics = sizes(t0=2, t1=2, t2=2, t3=2)
    group, first = settled(STICKY, members(**dict.fromkeys(["C0", "C1", "C2"], "t0 t1 t2 t3")), topics)
    assert written(first) == {"C0": "t0p0 t1p1 t3p0", "C1": "t0p1 t2p0 t3p1", "C2": "t1p0 t2p1"}
    left = STICKY.assign(without(group, "C1"), topics)
    assert moved(first, left) == 3
    assert loads(left) == [4, 4]


def test_sticky_gives_the_assignment_of_kafkas_second_example() -> None:
    topics = sizes(t0=1, t1=2, t2=3)
    group, first = settled(STICKY, members(C0="t0", C1="t0 t1", C2="t0 t1 t2"), topics)
    assert written(first) == {"C0": "t0p0", "C1": "t1p0 t1p1", "C2": "t2p0 t2p1 t2p2"}
    left = STICKY.assign(without(group, "C0"), topics)
    assert written(left) == {"C1": "t0p0 t1p0 t1p1", "C2": "t2p0 t2p1 t2p2"}


def test_sticky_moves_only_the_share_of_a_new_member() -> None:
    topics = sizes(t=9)
    group, first = settled(STICKY, members(a="t", b="t"), topics)
    grown = STICKY.assign([*group, Member("c", ("t",))], topics)
    assert loads(grown) == [3, 3, 3]
    assert moved(first, grown) == 3


def test_a_claim_of_the_later_generation_wins() -> None:
    group = [claiming("late", "t", 4, t=[0, 1]), claiming("early", "t", 3, t=[1, 2, 3])]
    got = STICKY.assign(group, sizes(t=4))
    assert written(got) == {"early": "tp2 tp3", "late": "tp0 tp1"}


def test_claims_of_one_partition_in_one_generation_do_not_count() -> None:
    group = [claiming("a", "t", 4, t=[0, 1, 2]), claiming("b", "t", 4, t=[1, 2])]
    got = STICKY.assign(group, sizes(t=4))
    assert got["a"]["t"][0] == 0
    assert loads(got) == [2, 2]


def test_claims_of_unknown_topics_and_partitions_are_ignored() -> None:
    group = [claiming("a", "t", 4, t=[0, 7, -1], gone=[0]), claiming("b", "t", 4, t=[1])]
    assert written(STICKY.assign(group, sizes(t=4))) == {"a": "tp0 tp2", "b": "tp1 tp3"}


def test_an_unsubscribed_topic_moves_to_another_member() -> None:
    group = [claiming("a", "t", 1, t=[0, 1], u=[0, 1]), claiming("b", "t u", 1, t=[2, 3])]
    got = STICKY.assign(group, sizes(t=4, u=2))
    assert written(got) == {"a": "tp0 tp1 tp2", "b": "tp3 up0 up1"}


def test_sticky_prefers_balance_to_racks_and_racks_to_stickiness() -> None:
    topics = {"t": Topic(4, [{"x"}, {"x"}, {"y"}, {"y"}])}
    group = [
        replace(claiming("a", "t", 1, t=[0, 2]), rack="x"),
        replace(claiming("b", "t", 1, t=[1, 3]), rack="y"),
    ]
    assert written(STICKY.assign(group, topics)) == {"a": "tp0 tp1", "b": "tp2 tp3"}
    everything_in_x: dict[str, Topic] = {"t": Topic(4, [{"x"}, {"x"}, {"x"}, {"x", "z"}])}
    assert loads(STICKY.assign(group, everything_in_x)) == [2, 2]


def test_the_sticky_user_data_has_the_last_assignment() -> None:
    assert STICKY.user_data(None, -1) is None
    assert STICKY.user_data({"t": [1]}, 3) == encode_owned({"t": [1]}, 3)


def test_sticky_ignores_the_owned_partitions_of_the_subscription() -> None:
    group = [Member("a", ("t",), {"t": [1]}, 5), Member("b", ("t",), {"t": [0]}, 5)]
    fresh: Assignment = STICKY.assign(members(a="t", b="t"), sizes(t=2))
    assert STICKY.assign(group, sizes(t=2)) == fresh
