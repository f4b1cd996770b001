from __future__ import annotations

from muster.assignors.assignor import Member, Topic
from muster.assignors.uniform import GeneralShares, TargetGroup


def loads(topics: dict[str, Topic], *members: Member) -> list[int]:
    group = TargetGroup(members, topics)
    return [sum(map(len, share.values())) for share in GeneralShares(group).shares()]


def test_overlapping_subscriptions_are_balanced_one_topic_at_a_time() -> None:
    """The loads are 3, 4 and 5, as a comment in Kafka's code says. One more move through b would balance them, but
    neither topic sees that move.
    """
    topics = {"t": Topic(6, (), bytes(15) + b"\1"), "u": Topic(6, (), bytes(15) + b"\2")}
    assert loads(topics, Member("a", ("t",)), Member("b", ("t", "u")), Member("c", ("u",))) == [3, 4, 5]


def test_partitions_move_from_overloaded_to_underloaded_members() -> None:
    topics = {"t": Topic(6), "u": Topic(1, (), bytes(15) + b"\1")}
    had = Member("a", ("t",), {"t": [0, 1, 2, 3, 4, 5]})
    group = TargetGroup([had, Member("b", ("t", "u"))], topics)
    got = GeneralShares(group).shares()
    assert got == [{0: [0, 1, 2, 3]}, {0: [4, 5], 1: [0]}]


def test_a_balanced_group_is_not_changed() -> None:
    topics = {"t": Topic(4), "u": Topic(1, (), bytes(15) + b"\1")}
    group = TargetGroup([Member("a", ("t",), {"t": [3, 1]}), Member("b", ("t", "u"), {"t": [0, 2], "u": [0]})], topics)
    assert GeneralShares(group).shares() == [{0: [3, 1]}, {0: [0, 2], 1: [0]}]
