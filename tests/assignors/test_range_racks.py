from __future__ import annotations

from muster.assignors.assignor import Member, Topic
from muster.assignors.range import RangeAssignor, matters
from tests.assignors.groups import loads, written

RANGE = RangeAssignor()


def placed(*racks: str) -> Topic:
    """A topic. For each partition there are the racks of its replicas, one letter for each."""
    return Topic(len(racks), [set(each) for each in racks])


def located(**racks: str) -> list[Member]:
    return [Member(member_id, ("t", "u"), rack=rack or None) for member_id, rack in racks.items()]


def test_range_gives_partitions_to_members_in_their_racks() -> None:
    got = RANGE.assign(located(m1="a", m2="b", m3="c"), {"t": placed("c", "b", "a", "c", "b", "a")})
    assert written(got) == {"m1": "tp2 tp5", "m2": "tp1 tp4", "m3": "tp0 tp3"}


def test_range_with_racks_keeps_shares_even() -> None:
    got = RANGE.assign(located(m1="a", m2="b"), {"t": placed("a", "a", "a", "a")})
    assert written(got) == {"m1": "tp0 tp1", "m2": "tp2 tp3"}


def test_range_with_racks_keeps_topics_co_partitioned() -> None:
    topics = {"t": placed("ab", "bc", "ca"), "u": placed("b", "c", "a")}
    got = RANGE.assign(located(m1="a", m2="b", m3="c"), topics)
    assert written(got) == {"m1": "tp2 up2", "m2": "tp0 up0", "m3": "tp1 up1"}


def test_members_without_a_rack_get_any_partition() -> None:
    got = RANGE.assign(located(m1="", m2="b"), {"t": placed("b", "a", "b", "a")})
    assert written(got) == {"m1": "tp0 tp1", "m2": "tp2 tp3"}
    assert loads(got) == [2, 2]


def test_racks_without_information_are_ignored() -> None:
    here = located(m1="a", m2="b")
    assert not matters(here, Topic(2))
    assert not matters(here, placed("ab", "ab"))
    assert not matters(here, placed("c", "d"))
    assert not matters(located(m1="", m2=""), placed("a", "b"))
    assert matters(here, placed("ab", "a"))
