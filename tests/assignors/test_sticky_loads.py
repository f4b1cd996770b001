from __future__ import annotations

from muster.assignors.assignor import Member, Topic
from muster.assignors.sticky_general import Loads, most_of
from muster.assignors.sticky_group import Group

T, U = 0, 1


def made() -> tuple[Group, Loads]:
    """a and b are subscribed to both topics, c to the second only; a has three, c one."""
    members = [Member("a", ("t", "u")), Member("b", ("t", "u")), Member("c", ("u",))]
    group = Group(members, {"t": Topic(3), "u": Topic(2)}, lambda member: ([], None))
    return group, Loads(group, [[T, U], [T, U], [U]], [{0: None, 2: None, 4: None}, {}, {1: None}])


def test_the_member_with_the_lowest_load_is_known_after_each_change() -> None:
    loads = made()[1]
    assert (loads.least(T), loads.least(U)) == (1, 1)
    loads.give(1, 3)
    assert (loads.least(T), loads.least(U)) == (1, 1)  # b and c have one partition each: the lesser id wins
    loads.take(2, 1)
    assert loads.least(U) == 2
    loads.leave_out(2)
    assert not loads.takes_part(2)
    assert loads.least(U) == 1


def test_a_group_is_balanced_when_loads_differ_by_at_most_one() -> None:
    loads = made()[1]
    loads.watch_balance()
    assert not loads.balanced()
    loads.take(0, 4)
    loads.give(1, 4)
    assert loads.balanced()
    loads.take(1, 4)
    loads.give(0, 4)
    assert not loads.balanced()


def test_a_group_is_balanced_when_members_with_less_can_own_no_more() -> None:
    members = [Member("a", ("t",)), Member("b", ("u",))]
    group = Group(members, {"t": Topic(5), "u": Topic(1)}, lambda member: ([], None))
    loads = Loads(group, [[T], [U]], [dict.fromkeys(group.codes_of(T)), dict.fromkeys(group.codes_of(U))])
    loads.watch_balance()
    assert loads.balanced()


def test_the_largest_possible_load_is_the_number_of_subscribed_partitions() -> None:
    group = made()[0]
    assert [most_of(group, topics) for topics in ([T], [U], [T, U], [])] == [3, 2, 5, 0]
    assert most_of(group, [U, U]) == 5  # as many names as there are topics
