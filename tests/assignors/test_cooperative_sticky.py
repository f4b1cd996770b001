from __future__ import annotations

from struct import pack

from muster.assignors.assignor import Member
from muster.assignors.sticky import CooperativeStickyAssignor
from tests.assignors.cases import Case
from tests.assignors.groups import loads, members, owners, settled, sizes, written
from tests.assignors.histories import ASSIGNORS, rounds

COOPERATIVE = CooperativeStickyAssignor()


def test_a_new_cooperative_member_gets_its_share_in_the_second_round() -> None:
    topics = sizes(t=9)
    group, _ = settled(COOPERATIVE, members(a="t", b="t", c="t"), topics)
    joined = [*group, Member("d", ("t",))]
    calls, after = rounds(Case(COOPERATIVE.name, joined, topics), 10)
    assert len(calls) == 2
    first = COOPERATIVE.assign(joined, topics)
    assert loads(first) == [3, 2, 2, 0]
    assert all(set(mine.get("t", ())) <= set(old.owned["t"]) for mine, old in zip(first.values(), group, strict=False))
    second = ASSIGNORS[COOPERATIVE.name].assign(calls[1].members, topics)
    assert loads(second) == [3, 2, 2, 2]
    assert all(first[m]["t"] == second[m]["t"] for m in "abc")
    assert COOPERATIVE.assign(after, topics) == second


def test_a_leaving_cooperative_member_needs_one_round() -> None:
    topics = sizes(t=50)
    group, first = settled(COOPERATIVE, members(**{f"m{i}": "t" for i in range(10)}), topics)
    left = COOPERATIVE.assign(group[1:], topics)
    assert len(owners(left)) == 50
    assert all(set(first[m]["t"]) <= set(left[m]["t"]) for m in left)


def test_an_unsubscribed_topic_waits_until_its_owner_revokes_it() -> None:
    topics = sizes(t=2, u=2)
    group = [Member("a", ("t",), {"t": [0], "u": [0]}, 1), Member("b", ("t", "u"), {"t": [1], "u": [1]}, 1)]
    assert written(COOPERATIVE.assign(group, topics)) == {"a": "tp0", "b": "up1"}


def test_the_generation_of_old_members_is_read_from_user_data() -> None:
    group = [
        Member("a", ("t",), {"t": [0, 1]}, user_data=pack(">i", 2)),
        Member("b", ("t",), {"t": [1, 2]}, user_data=pack(">i", 2)),
    ]
    # as in Kafka, b reads generations from the subscription alone: a has none there, so b's is later
    assert written(COOPERATIVE.assign(group, sizes(t=3))) == {"a": "tp0", "b": "tp1 tp2"}


def test_the_cooperative_user_data_is_the_generation() -> None:
    assert COOPERATIVE.user_data(None, -1) == b"\xff\xff\xff\xff"
    assert COOPERATIVE.user_data({"t": [1]}, 5) == b"\0\0\0\5"
