"""Moves, stickiness and skew of assignments, by hand and against the definitions."""

from __future__ import annotations

from collections.abc import Generator
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.assignors.measures import (
    ROWS_A_STEP,
    Moves,
    Owned,
    Skew,
    moves,
    moves_in_steps,
    skew,
    stickiness,
    total,
)

BEFORE = {"a": {"t": [0, 1], "u": [0]}, "b": {"t": [2]}, "gone": {"t": [3], "u": [1]}}
AFTER = {"a": {"t": [0, 2]}, "b": {"t": [3]}, "new": {"t": [4], "v": [0]}}

assignments = st.dictionaries(
    st.sampled_from("abcd"),
    st.dictionaries(st.sampled_from("tuv"), st.lists(st.integers(0, 5), unique=True, max_size=5)),
)


def test_moves_of_a_large_group_are_counted_in_small_steps() -> None:
    topics = [f"topic-{number}" for number in range(1_200)]
    before = {f"m{number}": {topic: [number] for topic in topics} for number in range(10)}
    after = {f"m{number}": {topic: [number + 1] for topic in topics} for number in range(10)}
    seen: list[object] = []

    def counted() -> Generator[None, None, dict[str, Moves]]:
        rows = yield from moves_in_steps(before, after)
        seen.append(rows)
        return rows

    steps = sum(1 for _ in counted())
    # the steps go through the old partitions twice, the new partitions, and the topics
    assert steps >= 3 * 10 + len(topics) // ROWS_A_STEP
    assert seen == [moves(before, after)]
    assert seen == [dict.fromkeys(topics, Moves(moved=9, gained=1, lost=1))]


def test_each_partition_is_counted_once() -> None:
    rows = moves(BEFORE, AFTER)
    assert rows == {
        "t": Moves(kept=1, moved=2, gained=1, lost=1),
        "u": Moves(lost=2),
        "v": Moves(gained=1),
    }
    assert total(rows) == Moves(kept=1, moved=2, gained=2, lost=3)
    assert total({}) == Moves()


def test_stickiness_is_complete_when_only_lost_partitions_move() -> None:
    """Story 13."""
    before = {f"m{m}": {"t": list(range(5 * m, 5 * m + 5))} for m in range(10)}
    after = {f"m{m}": {"t": [*range(5 * m, 5 * m + 5), *([40 + m + 5] if m < 5 else [])]} for m in range(9)}
    assert moves(before, after) == {"t": Moves(kept=45, moved=5)}
    assert stickiness(before, after) == 1.0


def test_moves_that_balance_requires_do_not_lower_stickiness() -> None:
    """Story 15: a group grows from three members to five, with 2 partitions each; no member could keep more than 2."""
    before = {"a": {"t": [0, 1, 2, 3]}, "b": {"t": [4, 5, 6]}, "c": {"t": [7, 8, 9]}}
    sticky = {"a": {"t": [0, 1]}, "b": {"t": [4, 5]}, "c": {"t": [7, 8]}, "d": {"t": [2, 3]}, "e": {"t": [6, 9]}}
    ranged = {name: {"t": [2 * i, 2 * i + 1]} for i, name in enumerate("abcde")}
    assert stickiness(before, sticky) == 1.0
    assert stickiness(before, ranged) == 2 / 6
    assert stickiness({}, ranged) == stickiness(before, {}) == 1.0


def test_skew_has_the_smallest_and_largest_share_and_the_deviation() -> None:
    assert skew({"a": {"t": [0, 1, 2], "u": [0]}, "b": {"t": [3]}, "c": {}}) == Skew(0, 4, sqrt(26 / 9) / (5 / 3))
    assert skew({"a": {"t": [0]}, "b": {"u": [0]}}) == Skew(1, 1, 0.0)
    assert skew({}) == skew({"a": {}}) == Skew()
    assert Skew(1, 4).spread == 3


@given(assignments, assignments)
def test_moves_are_counted_as_defined(before: Owned, after: Owned) -> None:
    def owners(assignment: Owned, topic: str, partition: int) -> set[str]:
        return {member for member, topics in assignment.items() if partition in topics.get(topic, ())}

    count = {"kept": 0, "moved": 0, "gained": 0, "lost": 0}
    for topic in "tuv":
        for partition in range(6):
            old, new = owners(before, topic, partition), owners(after, topic, partition)
            if old & new:
                count["kept"] += 1
            elif old and new:
                count["moved"] += 1
            elif new:
                count["gained"] += 1
            elif old:
                count["lost"] += 1
    assert total(moves(before, after)) == Moves(**count)


@given(assignments)
def test_an_unchanged_assignment_has_no_moves_and_full_stickiness(assignment: Owned) -> None:
    assert all(row == Moves(kept=row.kept) for row in moves(assignment, assignment).values())
    assert stickiness(assignment, assignment) == 1.0


@given(assignments, assignments)
def test_stickiness_lies_between_zero_and_one(before: Owned, after: Owned) -> None:
    assert 0.0 <= stickiness(before, after) <= 1.0


@pytest.mark.parametrize("measure", [moves, stickiness])
def test_measures_do_not_depend_on_the_order_of_partitions(measure: object) -> None:
    def turned(assignment: Owned) -> Owned:
        return {
            member: {topic: list(assignment[member][topic])[::-1] for topic in reversed(list(assignment[member]))}
            for member in reversed(list(assignment))
        }

    assert measure(BEFORE, AFTER) == measure(turned(BEFORE), turned(AFTER))
