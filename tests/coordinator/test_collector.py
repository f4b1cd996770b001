"""The garbage collector of a server visits few objects at a time, however many objects the process has."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from muster.coordinator.system import memory

MAX_AT_ONCE = 35_000
"""The most objects of one collection: some 7 ms of CPU time."""


@pytest.fixture
def as_before() -> Iterator[None]:
    """Restore the collector of this process, which is that of the tests. What is frozen stays so (`conftest.py`)."""
    thresholds, was_on, callbacks = gc.get_threshold(), gc.isenabled(), list(gc.callbacks)
    try:
        yield
    finally:
        gc.callbacks[:] = callbacks
        gc.set_threshold(*thresholds)
        if not was_on:
            gc.disable()


@pytest.fixture
def largest(as_before: None) -> Iterator[dict[int, int]]:
    """The most objects that a collection of each generation visited since the test began."""
    found = dict.fromkeys(range(3), 0)

    def note(phase: str, run: dict[str, int]) -> None:
        if phase == "start":
            generation = run["generation"]
            objects = sum(len(gc.get_objects(younger)) for younger in range(generation + 1))
            found[generation] = max(found[generation], objects)

    gc.collect()
    gc.callbacks.append(note)
    memory.limit_collections()
    yield found
    gc.callbacks.remove(note)


class Linked:
    """An object that may be in a cycle."""

    def __init__(self) -> None:
        self.other: Linked | None = None


def cycle() -> weakref.ref[Linked]:
    one, other = Linked(), Linked()
    one.other, other.other = other, one
    return weakref.ref(one)


def test_one_garbage_collection_visits_few_objects(largest: dict[int, int]) -> None:
    """The objects of a request of 250,000 elements are not visited at once."""
    kept = [[number] for number in range(250_000)]
    assert len(kept) == 250_000
    assert 4_000 <= largest[0] < 4_500
    assert 8_000 < largest[1] < 13_500
    assert largest[2] < MAX_AT_ONCE


def test_one_garbage_collection_visits_few_objects_among_millions(largest: dict[int, int]) -> None:
    gc.freeze()  # objects that other tests have left in this process are not visited
    left = gc.get_freeze_count()
    kept = [[number] for number in range(2_000_000)]
    for _ in range(3):
        more = [[number] for number in range(200_000)]  # other objects are made and freed
    assert len(kept) + len(more) == 2_200_000
    assert 0 < largest[2] < MAX_AT_ONCE
    before = gc.get_freeze_count()
    assert before - left > 1_900_000
    del kept, more
    assert gc.get_freeze_count() < before - 1_900_000, "what is frozen is freed when nothing refers to it"


def test_one_garbage_collection_visits_few_objects_if_millions_existed_before(as_before: None) -> None:
    """Python counts how many objects the last full collection visited, even if they were frozen since."""
    had = [[number] for number in range(2_000_000)]
    gc.collect()
    largest = 0

    def note(phase: str, run: dict[str, int]) -> None:
        nonlocal largest
        if phase == "start":
            largest = max(largest, sum(len(gc.get_objects(younger)) for younger in range(run["generation"] + 1)))

    memory.limit_collections()
    gc.callbacks.append(note)
    more = [[number] for number in range(600_000)]
    gc.callbacks.remove(note)
    assert len(had) + len(more) == 2_600_000
    assert 0 < largest < MAX_AT_ONCE


@pytest.mark.usefixtures("largest")
def test_young_cycles_are_collected_among_any_number_of_objects() -> None:
    kept = [[number] for number in range(500_000)]
    for _ in range(10):
        garbage = cycle()
        for _ in range(4):  # the next collection misses it if the last one ran while it was made
            kept += [[number] for number in range(2 * memory.EVERY_OBJECTS)]
        assert garbage() is None


@pytest.mark.usefixtures("largest")
def test_old_cycles_are_collected_among_few_objects() -> None:
    one, other = Linked(), Linked()
    one.other, other.other = other, one
    gone = weakref.ref(one)
    kept = [[number] for number in range(memory.MAX_OBJECTS // 2)]
    for _ in range(20):
        more = [[number] for number in range(memory.EVERY_OBJECTS)]
        del more
    del one, other
    for _ in range(10):
        more = [[number] for number in range(2 * memory.EVERY_OBJECTS)]
        del more
    assert len(kept) == memory.MAX_OBJECTS // 2
    assert gone() is None


@pytest.mark.usefixtures("as_before")
def test_limiting_collections_twice_is_harmless() -> None:
    """A node of a cluster that returns does so."""
    memory.limit_collections()
    memory.limit_collections()
    assert gc.callbacks.count(memory._after_collection) == 1
