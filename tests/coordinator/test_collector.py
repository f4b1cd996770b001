"""The garbage collector of a serving process looks at few objects in one piece."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from muster.coordinator import collector


@pytest.fixture
def as_before() -> Iterator[None]:
    """The collector of this process, which is the tests' own."""
    thresholds, was_on = gc.get_threshold(), gc.isenabled()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        if not was_on:
            gc.disable()


@pytest.mark.usefixtures("as_before")
def test_one_run_looks_at_few_objects() -> None:
    """What a request of 250,000 elements makes is not looked at in one piece."""
    largest = dict.fromkeys(range(3), 0)

    def note(phase: str, run: dict[str, int]) -> None:
        if phase == "start":
            generation = run["generation"]
            looked_at = sum(len(gc.get_objects(younger)) for younger in range(generation + 1))
            largest[generation] = max(largest[generation], looked_at)

    gc.collect()
    gc.callbacks.append(note)
    try:
        collector.begin()
        kept = [[number] for number in range(250_000)]
    finally:
        gc.callbacks.remove(note)
    assert len(kept) == 250_000
    assert 20_000 <= largest[0] < 21_000
    assert 40_000 < largest[1] < 63_000
    assert largest[2] == 0
