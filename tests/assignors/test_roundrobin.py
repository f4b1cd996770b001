from __future__ import annotations

from muster.assignors.assignor import Member
from muster.assignors.roundrobin import RoundRobinAssignor
from tests.assignors.groups import members, sizes, written

ROUND_ROBIN = RoundRobinAssignor()


def test_roundrobin_gives_three_members_of_four_partitions_2_1_1() -> None:
    got = ROUND_ROBIN.assign(members(C1="t", C2="t", C3="t"), sizes(t=4))
    assert got == {"C1": {"t": [0, 3]}, "C2": {"t": [1]}, "C3": {"t": [2]}}


def test_roundrobin_alternates_across_topics() -> None:
    got = ROUND_ROBIN.assign(members(c1="t1 t2", c2="t1 t2"), sizes(t1=3, t2=3))
    assert written(got) == {"c1": "t1p0 t1p2 t2p1", "c2": "t1p1 t2p0 t2p2"}


def test_roundrobin_skips_members_without_a_subscription() -> None:
    got = ROUND_ROBIN.assign(members(c1="t1 t2", c2="t2"), sizes(t1=3, t2=3))
    assert written(got) == {"c1": "t1p0 t1p1 t1p2 t2p1", "c2": "t2p0 t2p2"}


def test_roundrobin_is_uneven_in_kafkas_example_of_mixed_subscriptions() -> None:
    got = ROUND_ROBIN.assign(members(C0="t0", C1="t0 t1", C2="t0 t1 t2"), sizes(t0=1, t1=2, t2=3))
    assert written(got) == {"C0": "t0p0", "C1": "t1p0", "C2": "t1p1 t2p0 t2p1 t2p2"}


def test_roundrobin_begins_with_static_members() -> None:
    got = ROUND_ROBIN.assign([Member("a", ("t",)), Member("z", ("t",), instance_id="i")], sizes(t=3))
    assert written(got) == {"a": "tp1", "z": "tp0 tp2"}


def test_roundrobin_has_no_user_data() -> None:
    assert ROUND_ROBIN.user_data({"t": [1]}, 1) is None
