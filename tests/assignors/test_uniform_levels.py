from __future__ import annotations

from muster.assignors.uniform import Levels


def test_members_with_the_lowest_loads_are_filled_first() -> None:
    loads = [3, 0, 1]
    levels = Levels(loads, [0, 1, 2])
    assert levels.imbalance == 3
    taken = []
    for _ in range(7):
        taken.append(levels.next_least())
        loads[taken[-1]] += 1
    assert taken == [1, 1, 2, 1, 2, 1, 2]


def test_members_with_the_highest_loads_are_reduced_first() -> None:
    loads = [5, 2, 5]
    levels = Levels(loads, [0, 1, 2])
    given = []
    for _ in range(4):
        member = levels.next_most()
        assert member is not None
        given.append(member)
        loads[member] -= 1
    assert given == [2, 0, 2, 0]


def test_excluded_members_with_the_highest_load_are_skipped() -> None:
    loads = [4, 4, 1]
    levels = Levels(loads, [0, 1, 2])
    assert levels.next_most() == 1
    levels.exclude_most()
    assert levels.next_most() == 0
    levels.exclude_most()
    assert levels.next_most() == 2
    levels.exclude_most()
    assert levels.next_most() is None
