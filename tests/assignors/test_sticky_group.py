from __future__ import annotations

from collections.abc import Sequence

import pytest

from muster.assignors.assignor import Member, Topic
from muster.assignors.sticky_group import Group

TOPICS = {"t": Topic(4), "u": Topic(2)}


def group(*members: Member, topics: dict[str, Topic] = TOPICS) -> Group:
    return Group(members, topics, lambda member: (member.owned.items(), member.generation))


def test_partition_codes_are_sorted_by_partition_then_topic() -> None:
    made = group(Member("a", ("u", "t"), {"t": [1, 0], "u": [0, 2, -1], "gone": [0]}))
    assert made.names == ["t", "u"]
    assert made.claimed == [[2, 0, 1]]
    assert list(made.codes_of(1)) == [1, 3]
    assert made.by_name([[0, 1, 2]]) == {"a": {"t": [0, 1], "u": [0]}}


@pytest.mark.parametrize(
    ("subscriptions", "alike"),
    [
        (["t u", "t u"], True),
        (["t u", "u t"], True),
        (["t u", "t"], False),
        (["t t u", "t t u"], False),  # three names, two topics
        (["", "t"], True),  # members without partitions before the first member that has some
        (["t", ""], False),
        (["", "t", ""], False),
        (["", ""], True),
    ],
)
def test_subscriptions_are_compared_as_kafka_does(subscriptions: Sequence[str], alike: bool) -> None:
    members = [Member(name, tuple(topics.split())) for name, topics in zip("abc", subscriptions, strict=False)]
    assert group(*members).all_subscribed_alike() is alike


def test_the_newest_claim_of_several_decides_the_owner() -> None:
    made = group(
        Member("a", ("t",), {"t": [0, 1]}, 1),
        Member("b", ("t",), {"t": [1, 2]}, 2),
        Member("c", ("t",), {"t": [2, 3, 3]}, 2),
    )
    owned, contested = made.owned()
    assert owned == [[0], [1], []]
    assert contested == {2, 3}
    assert made.newest() == 2


def test_a_contested_partition_goes_to_a_claim_of_a_later_generation() -> None:
    made = group(
        Member("a", ("t",), {"t": [0]}, 1), Member("b", ("t",), {"t": [0]}, 1), Member("c", ("t",), {"t": [0]}, 2)
    )
    assert made.owned() == ([[], [], [0]], {0})


def test_racks_of_one_side_only_are_not_used() -> None:
    here = Member("a", ("t",), rack="x")
    assert not group(here).racks.used
    assert not group(here, topics={"t": Topic(2, [{"x", "y"}, {"y", "x"}])}).racks.used
    assert not group(here, topics={"t": Topic(2, [{"y"}, {"z"}])}).racks.used
    used = group(here, topics={"t": Topic(2, [{"x"}, {"y"}])}).racks
    assert [used.mismatch(0, code) for code in (0, 1)] == [False, True]
    assert used.rarest_first([0, 1]) == [1, 0]
