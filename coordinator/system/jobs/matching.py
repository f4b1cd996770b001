"""Finds the names that match a client's pattern, in steps by cost, with one budget for a whole request.

A match cannot be interrupted. Cheap matches run on the event loop, between two steps of a job. Expensive matches run in
the thread: RE2 does not hold Python's lock while it matches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import islice
from typing import Final, Protocol, TypeVar

from muster.coordinator.system.jobs.jobs import Job, OffloadedWork

MAX_STEPS: Final = 2_000_000_000
"""The most steps (`Pattern.steps`) of all matches of a request: at worst 8 s, and usually a hundredth of that."""
A_STEP: Final = 50_000
"""How many steps of matches are made in one step of a job: at worst 0.2 ms."""
EXPENSIVE: Final = 250_000
"""A match of more steps, 1 ms at worst, runs in the thread."""
EXPENSIVE_AT_ONCE: Final = 2_500_000
"""The thread runs matches of this many steps without a pause (at worst 10 ms), or one larger match."""

NAMES_AT_ONCE: Final = 2_000
"""The most names whose cost is added up between two steps of a job."""

T = TypeVar("T")


class Matcher(Protocol):
    """The interface of a pattern (`coordinator.system.patterns.Pattern`)."""

    def steps(self, text: str) -> int:
        """The cost of a match of this name at worst."""

    def matches(self, text: str) -> bool:
        """Whether the whole name matches. Raises ValueError when a match might take too long."""


class Budget:
    """The most steps that the matches of one request may take in all."""

    __slots__ = ("left",)

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """Use steps for a match. Raises ValueError when too few are left."""
        if steps > self.left:
            raise ValueError(f"the pattern takes more than {MAX_STEPS} steps for all names")
        self.left -= steps


def matching(pattern: Matcher, things: Collection[T], name: Callable[[T], str], budget: Budget) -> Job[list[T]]:
    """Return the things whose `name` matches, in order. Raises ValueError first if the matches would take too long."""
    rest = iter(things)
    while part := [*islice(rest, NAMES_AT_ONCE)]:
        budget.spend(sum([pattern.steps(name(thing)) for thing in part]))
        yield None
    found: list[T] = []
    some: list[T] = []
    cost = most_expensive = 0
    for thing in things:
        steps = pattern.steps(name(thing))
        some.append(thing)
        cost += steps
        most_expensive = max(most_expensive, steps)
        if cost >= (A_STEP if most_expensive <= EXPENSIVE else EXPENSIVE_AT_ONCE):
            found += yield from _matched(pattern, some, name, most_expensive)
            some, cost, most_expensive = [], 0, 0
    found += yield from _matched(pattern, some, name, most_expensive)
    return found


def _matched(pattern: Matcher, some: list[T], name: Callable[[T], str], most_expensive: int) -> Job[list[T]]:
    def work() -> list[T]:
        return [one for one in some if pattern.matches(name(one))]

    if most_expensive > EXPENSIVE:
        result: list[T] = yield OffloadedWork(work)
        return result
    done = work()
    yield None
    return done
