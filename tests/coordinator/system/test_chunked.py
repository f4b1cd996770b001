"""A table whose walk touches a small chunk of values at a time."""

from __future__ import annotations

import random
import sys

from muster.coordinator.system.chunked import CHUNK, Chunked

MANY = 5 * CHUNK


def test_a_walk_has_the_order_of_the_additions() -> None:
    table = Chunked[str, int]()
    for number in range(MANY):
        table.put(f"k{number}", number)
    table.put("k3", -3)
    assert [*table.walk()] == [-3 if number == 3 else number for number in range(MANY)]


def test_a_step_of_a_walk_touches_one_chunk() -> None:
    """A list of all values touches each of them: 25,000 took 50 to 200 ms on a machine with slow memory."""
    table, things = Chunked[tuple[str, int], tuple[str, int]](), [("t", index) for index in range(MANY)]
    for one in things:
        table.put(one, one)
    walk = table.walk()
    for _ in range(MANY):
        before = [sys.getrefcount(one) for one in things]
        next(walk)
        after = [sys.getrefcount(one) for one in things]
        touched = sum(one != other for one, other in zip(before, after, strict=True))
        assert touched <= 2 * CHUNK  # the chunk before is let go


def test_a_walk_passes_over_removed_values_and_finds_new_ones() -> None:
    table = Chunked[int, int]()
    for number in range(1, MANY):
        table.put(number, number)
    walk = table.walk()
    assert [next(walk) for _ in range(9)] == [*range(1, 10)]
    for number in (*range(5, 15), MANY - 1):  # some of these were passed, the others are still to come
        assert table.remove(number) == number
    assert table.remove(5) is None
    table.put(-1, -1)
    table.put(-2, -2)
    found = [*walk]
    assert [one for one in found if one > 0] == [*range(15, MANY - 1)]
    assert len(found) == len(set(found))
    assert {*table.walk()} == {-1, -2, *range(1, 5), *range(15, MANY - 1)}


def test_values_that_come_and_go_keep_the_chunks_few() -> None:
    table, present, draw = Chunked[int, int](), dict[int, int](), random.Random(7)
    for number in range(20 * CHUNK):
        key = draw.randrange(3 * CHUNK)
        if draw.random() < 0.6:
            present[key] = number
            table.put(key, number)
        else:
            assert table.remove(key) == present.pop(key, None)
        assert table.get(key) == present.get(key)
    assert sorted(table.walk()) == sorted(present.values())
    assert table.keys() == present.keys()
    assert len(table._chunks) <= 3
    assert max(map(len, table._chunks)) <= CHUNK
    walk = table.walk()
    next(walk)
    table.clear()
    assert [*walk] == [*table.walk()] == []
