from __future__ import annotations

from muster.assignors.assignor import Member, Topic, by_identity, in_hash_order, subscribers, topics_in_hash_order


def test_static_members_are_sorted_first_by_instance_id() -> None:
    group = [Member("b"), Member("z", instance_id="i2"), Member("a"), Member("y", instance_id="i1")]
    assert [member.member_id for member in by_identity(group)] == ["y", "z", "a", "b"]


def test_members_with_equal_instance_ids_are_sorted_by_member_id() -> None:
    group = [Member("b", instance_id="i"), Member("a", instance_id="i"), Member("c")]
    assert [member.member_id for member in by_identity(group)] == ["a", "b", "c"]


def test_members_with_equal_hashes_keep_their_order() -> None:
    assert [m.member_id for m in in_hash_order([Member("BB"), Member("Aa"), Member("A")])] == ["BB", "Aa", "A"]
    assert [m.member_id for m in in_hash_order([Member("Aa"), Member("BB"), Member("A")])] == ["Aa", "BB", "A"]


def test_existing_topics_are_mapped_to_their_subscribers() -> None:
    group = [Member("a", ("BB", "gone", "t")), Member("b", ("t", "t", "empty"))]
    topics = {"BB": Topic(1), "t": Topic(1), "empty": Topic(0)}
    names = topics_in_hash_order(group, topics)
    assert sorted(names) == ["BB", "t"]
    found = subscribers(group, names)
    assert {name: [m.member_id for m in who] for name, who in found.items()} == {"BB": ["a"], "t": ["a", "b"]}
