from __future__ import annotations

from muster.assignors.assignor import Member, Topic
from muster.assignors.equal_shares import order_of_topics
from muster.assignors.uniform import TargetGroup

TOPICS = {"t": Topic(4, (), bytes(15) + b"\x11"), "u": Topic(2, (), bytes(15) + b"\x02")}


def test_only_owned_partitions_of_subscribed_existing_topics_count() -> None:
    group = TargetGroup([Member("a", ("t", "gone"), {"u": [0], "t": [1, 9], "gone": [0]})], TOPICS)
    assert group.names == ["t"]
    assert group.shares == [{0: [1]}]
    assert group.free == [{0, 2, 3}]


def test_subscriptions_are_compared_by_name() -> None:
    assert TargetGroup([Member("a", ("t", "u")), Member("b", ("u", "t"))], TOPICS).all_subscribed_alike()
    assert not TargetGroup([Member("a", ("t",)), Member("b", ("t", "gone"))], TOPICS).all_subscribed_alike()


def test_topics_are_ordered_by_the_hashes_of_their_uuids() -> None:
    group = TargetGroup([Member("a", ("t", "u"), {"u": [0], "t": [1]})], TOPICS)
    # 0x11 is in bucket 1 of 16, 0x02 in bucket 2
    assert order_of_topics(("t", "u"), TOPICS) == ["t", "u"]
    assert list(group.copy_of(0).in_order().items()) == [(0, [1]), (1, [0])]
