"""Names that match a pattern: the cost between two steps is bounded, and so is the whole cost."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from muster.coordinator.system.jobs import Job, OffloadedWork, at_once
from muster.coordinator.system.jobs.matching import A_STEP, EXPENSIVE, EXPENSIVE_AT_ONCE, Budget, matching


class Counted:
    """A pattern that matches names with an x, and counts its steps on the event loop and elsewhere."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.on_the_loop = 0
        self.elsewhere = 0
        self.is_elsewhere = False

    def steps(self, text: str) -> int:
        return self.size * len(text)

    def matches(self, text: str) -> bool:
        if self.is_elsewhere:
            self.elsewhere += self.steps(text)
        else:
            self.on_the_loop += self.steps(text)
        return "x" in text


def run(job: Job[Any], pattern: Counted) -> tuple[Any, int, int]:
    """The result, and the most matches between two steps of the job: on the event loop, and in the thread."""
    value, most_here, most_there = None, 0, 0
    while True:
        pattern.on_the_loop = pattern.elsewhere = 0
        try:
            asked = job.send(value)
        except StopIteration as end:
            return end.value, max(most_here, pattern.on_the_loop), most_there
        value = None
        if isinstance(asked, OffloadedWork):
            pattern.is_elsewhere = True
            value = asked.work()
            pattern.is_elsewhere = False
        most_here, most_there = max(most_here, pattern.on_the_loop), max(most_there, pattern.elsewhere)


@pytest.mark.parametrize("size", [1, 100, 2_000, 20_000, 100_000])
def test_a_matching_step_is_bounded_for_any_pattern_and_names(size: int) -> None:
    names = [f"{'x' * (number % 7 == 0)}{'n' * (number % 50)}" for number in range(3_000)]
    pattern = Counted(size)
    found, here, there = run(matching(pattern, names, str, Budget(10**12)), pattern)
    assert found == [name for name in names if "x" in name]
    assert here <= A_STEP + EXPENSIVE
    assert there <= EXPENSIVE_AT_ONCE + size * 50


def test_a_long_name_is_matched_in_the_thread() -> None:
    names = ["x", "n" * 30_000, "x" * 30_000, "x"]
    pattern = Counted(100)
    found, here, there = run(matching(pattern, names, str, Budget()), pattern)
    assert found == [names[0], names[2], names[3]]
    assert here <= A_STEP
    assert there > EXPENSIVE


def test_all_names_and_patterns_share_one_budget() -> None:
    pattern, budget = Counted(100), Budget(2_000)
    assert run(matching(pattern, ["x"] * 15, str, budget), pattern)[0] == ["x"] * 15
    pattern.on_the_loop = 0
    with pytest.raises(ValueError, match="steps for all names"):
        at_once(matching(pattern, ["x"] * 15, str, budget))
    assert pattern.on_the_loop == 0  # no name is matched needlessly


def test_the_pattern_library_releases_the_gil_while_it_matches() -> None:
    """Otherwise a match in the thread would block the event loop all the same."""
    from muster.coordinator.system.patterns import Pattern

    pattern, name = Pattern("(?:a*b*)*" * 500 + "c"), "ab" * 1_400
    is_done = threading.Event()
    turns = 0

    def match() -> None:
        pattern.matches(name)
        is_done.set()

    thread = threading.Thread(target=match)
    thread.start()
    while not is_done.is_set():
        turns += 1
    thread.join()
    assert turns > 100
