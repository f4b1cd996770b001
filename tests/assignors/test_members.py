from __future__ import annotations

from muster.assignors.assignor import Member, Topic, by_identity, in_hash_order, subscribers, topics_in_hash_order


def test_static_members_come_first_by_their_instances() -> None:
    group = [Member("b"), Member("z", instance_id="i2"), Member("a"), Member("y", instance_id="i1")]
    assert [member.member_id for member in by_identity(group)] == ["y", "z", "a", "b"]


def test_two_of_one_instance_come_as_java_walks_them() -> None:
    group = [Member("b", instance_id="i"), Member("a", instance_id="i"), Member("c")]
    assert [member.member_id for member in by_identity(group)] == ["a", "b", "c"]


def test_hash_order_keeps_what_collides_as_it_came() -> None:
    assert [m.member_id for m in in_hash_order([Member("BB"), Member("Aa"), Member("A")])] == ["BB", "Aa", "A"]
    assert [m.member_id for m in in_hash_order([Member("Aa"), Member("BB"), Member("A")])] == ["Aa", "BB", "A"]


def test_topics_and_their_subscribers() -> None:
    group = [Member("a", ("BB", "gone", "t")), Member("b", ("t", "t", "empty"))]
    topics = {"BB": Topic(1), "t": Topic(1), "empty": Topic(0)}
    names = topics_in_hash_order(group, topics)
    assert sorted(names) == ["BB", "t"]
    found = subscribers(group, names)
    assert {name: [m.member_id for m in who] for name, who in found.items()} == {"BB": ["a"], "t": ["a", "b"]}
