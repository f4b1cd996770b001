from __future__ import annotations

from muster.assignors.sticky_general import Moves

TOPICS = 2  # even codes are of the first topic, odd ones of the second
A, B, C = 0, 1, 2


def moves() -> Moves:
    return Moves(TOPICS, lambda code: code)


def test_a_moved_partition_returns_in_place_of_another() -> None:
    made = moves()
    made.add(0, A, B)
    assert made.instead(2, B, A) == 0
    assert made.instead(3, B, A) == 3  # of another topic
    assert made.instead(2, A, B) == 2
    assert made.instead(2, C, A) == 2


def test_the_returning_partition_is_the_first_of_javas_set() -> None:
    made = moves()
    for code in (34, 18, 4):
        made.add(code, A, B)
    assert made.instead(2, B, A) == 34  # bucket 2 of 16, and before 18 in it
    made.add(34, B, A)
    assert made.instead(2, B, A) == 18


def test_a_move_through_a_third_member_counts_from_its_origin() -> None:
    made = moves()
    made.add(0, A, B)
    made.add(0, B, C)
    assert made.instead(2, C, A) == 0
    assert made.instead(2, B, A) == 2
    made.add(0, C, A)
    assert made.instead(2, C, A) == 2


def test_a_partition_that_moved_before_counts_for_its_first_owner() -> None:
    made = moves()
    made.add(0, A, B)
    made.add(2, C, A)
    # B has 0, which came from A; C gave 2 to A: a move of 0 to C is like 2 going back to C
    assert made.instead(0, B, C) == 2
