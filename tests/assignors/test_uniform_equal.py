from __future__ import annotations

from muster.assignors.assignor import Member, Topic
from muster.assignors.uniform import TargetGroup, equal_shares


def shares(topics: dict[str, Topic], *members: Member) -> list[dict[int, list[int]]]:
    return equal_shares(TargetGroup(members, topics))


def test_free_partitions_fill_the_shares_of_members_in_order() -> None:
    assert shares({"t": Topic(5)}, Member("a", ("t",)), Member("b", ("t",))) == [{0: [0, 1]}, {0: [2, 3, 4]}]


def test_partitions_above_the_quota_are_taken_in_java_hash_order() -> None:
    got = shares({"t": Topic(20)}, Member("a", ("t",), {"t": list(range(20))}), Member("b", ("t",)))
    assert got == [{0: list(range(10))}, {0: [16, 17, 18, 19, *range(10, 16)]}]
    got = shares({"t": Topic(18)}, Member("a", ("t",), {"t": [17, 1, 16, 0]}), Member("b", ("t",), {"t": [2]}))
    assert sorted(got[0][0])[:2] == [0, 1]


def test_the_larger_share_stays_with_its_owner() -> None:
    got = shares({"t": Topic(3)}, Member("a", ("t",), {"t": [0]}), Member("b", ("t",), {"t": [1, 2]}))
    assert got == [{0: [0]}, {0: [1, 2]}]
