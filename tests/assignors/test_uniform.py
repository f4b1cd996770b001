from __future__ import annotations

from muster.assignors.assignor import Member, Topic
from muster.assignors.uniform import UniformAssignor
from tests.assignors.groups import loads, members, moved, settled, sizes, written

UNIFORM = UniformAssignor()


def uuid(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_uniform_balances_partitions_over_all_topics() -> None:
    got = UNIFORM.assign(members(a="t u", b="t u", c="t u"), {"t": Topic(5, (), uuid(1)), "u": Topic(6, (), uuid(2))})
    assert loads(got) == [4, 4, 3]


def test_uniform_moves_only_partitions_of_a_leaving_member() -> None:
    topics = sizes(t=50)
    group, first = settled(UNIFORM, members(**{f"m{i}": "t" for i in range(10)}), topics)
    assert loads(first) == [5] * 10
    assert moved(first, UNIFORM.assign(group[:-1], topics)) == 5


def test_uniform_moves_only_the_share_of_a_new_member() -> None:
    topics = sizes(t=9)
    group, first = settled(UNIFORM, members(a="t", b="t"), topics)
    grown = UNIFORM.assign([*group, Member("c", ("t",))], topics)
    assert loads(grown) == [3, 3, 3]
    assert moved(first, grown) == 3


def test_uniform_gives_a_topic_only_to_its_subscribers() -> None:
    topics = {"t": Topic(6, (), uuid(1)), "u": Topic(2, (), uuid(2))}
    got = UNIFORM.assign(members(a="t u", b="t", c="u"), topics)
    assert loads(got) == [3, 3, 2]
    assert "t" not in got["c"]


def test_uniform_moves_an_unsubscribed_topic_to_a_subscriber() -> None:
    group = [Member("a", ("t",), {"t": [0], "u": [0]}), Member("b", ("t", "u"), {"t": [1]})]
    assert written(UNIFORM.assign(group, sizes(t=2, u=1))) == {"a": "tp0", "b": "tp1 up0"}


def test_a_partition_claimed_by_two_members_has_one_owner() -> None:
    group = [Member("a", ("t",), {"t": [0, 1, 9]}), Member("b", ("t",), {"t": [1, 2]})]
    assert written(UNIFORM.assign(group, sizes(t=4))) == {"a": "tp0 tp1", "b": "tp2 tp3"}


def test_uniform_has_no_user_data() -> None:
    assert UNIFORM.user_data({"t": [1]}, 1) is None
