from __future__ import annotations

import pytest

from muster.assignors.assignor import Member
from muster.assignors.range import RangeAssignor
from tests.assignors.groups import loads, members, sizes, written

RANGE = RangeAssignor()


def test_range_gives_three_members_of_eight_partitions_3_3_2() -> None:
    got = RANGE.assign(members(c1="t", c2="t", c3="t"), sizes(t=8))
    assert got == {"c1": {"t": [0, 1, 2]}, "c2": {"t": [3, 4, 5]}, "c3": {"t": [6, 7]}}


def test_range_co_partitions_two_topics_of_four() -> None:
    got = RANGE.assign(members(c1="t1 t2", c2="t1 t2"), sizes(t1=4, t2=4))
    assert written(got) == {"c1": "t1p0 t1p1 t2p0 t2p1", "c2": "t1p2 t1p3 t2p2 t2p3"}


def test_range_is_uneven_over_several_odd_topics() -> None:
    got = RANGE.assign(members(c2="t1 t2", c1="t1 t2"), sizes(t1=3, t2=3))
    assert written(got) == {"c1": "t1p0 t1p1 t2p0 t2p1", "c2": "t1p2 t2p2"}


def test_range_shares_evenly_among_three_and_five_members() -> None:
    assert loads(RANGE.assign(members(a="t", b="t", c="t"), sizes(t=10))) == [4, 3, 3]
    assert loads(RANGE.assign(members(a="t", b="t", c="t", d="t", e="t"), sizes(t=10))) == [2, 2, 2, 2, 2]


def test_range_leaves_members_beyond_the_partitions_without_any() -> None:
    assert written(RANGE.assign(members(a="t", b="t", c="t"), sizes(t=2))) == {"a": "tp0", "b": "tp1", "c": ""}


def test_range_gives_a_topic_only_to_its_subscribers() -> None:
    got = RANGE.assign(members(a="t", b="t u", c="u gone"), sizes(t=3, u=3, other=5))
    assert written(got) == {"a": "tp0 tp1", "b": "tp2 up0 up1", "c": "up2"}


def test_range_keeps_static_members_in_order_under_new_member_ids() -> None:
    for first, second in (("x", "y"), ("y", "x")):
        group = [Member(first, ("t",), instance_id="1"), Member(second, ("t",), instance_id="2"), Member("a", ("t",))]
        got = RANGE.assign(group, sizes(t=5))
        assert (got[first], got[second], got["a"]) == ({"t": [0, 1]}, {"t": [2, 3]}, {"t": [4]})


@pytest.mark.parametrize("generation", [-1, 3])
def test_range_has_no_user_data(generation: int) -> None:
    assert RANGE.user_data({"t": [1]}, generation) is None
