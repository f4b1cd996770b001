"""Names that match a pattern of a client: in slices by cost, with one budget for a whole request.

A match cannot be interrupted. So cheap ones are done on the event loop, some between two steps of a job. Dear ones are
done in the thread: RE2 does not hold Python's lock while it matches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from itertools import islice
from typing import Final, Protocol, TypeVar

from muster.coordinator.system.jobs.jobs import Job, OffloadedWork

MOST_STEPS: Final = 2_000_000_000
"""Steps (`Pattern.steps`) of all matches of a request: at worst 8 s, and for usual patterns a hundredth of that."""
A_STEP: Final = 50_000
"""Steps of matches that are done between two steps of a job: at worst 0.2 ms."""
DEAR: Final = 250_000
"""A match of more steps, 1 ms at worst, is done in the thread."""
DEAR_AT_ONCE: Final = 2_500_000
"""Steps of matches that the thread does in one go, if no match has more: at worst 10 ms."""

NAMES_AT_ONCE: Final = 2_000
"""Names whose cost is added up between two steps of a job."""

T = TypeVar("T")


class Matcher(Protocol):
    """What is asked of a pattern (`coordinator.system.patterns.Pattern`)."""

    def steps(self, text: str) -> int:
        """What a match of this name costs at worst."""

    def matches(self, text: str) -> bool:
        """Whether all of it matches; ValueError when that might take too long."""


class Budget:
    """What the matches of one request may cost in all, in steps."""

    __slots__ = ("left",)

    def __init__(self, steps: int = MOST_STEPS) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """A match costs this; ValueError when that is more than is left."""
        if steps > self.left:
            raise ValueError(f"the pattern takes more than {MOST_STEPS} steps for all names")
        self.left -= steps


def matching(pattern: Matcher, things: Collection[T], name: Callable[[T], str], budget: Budget) -> Job[list[T]]:
    """The things whose `name` matches, in their order. Raises ValueError for what would take too long: before it
    matches any of them.
    """
    rest = iter(things)
    while part := [*islice(rest, NAMES_AT_ONCE)]:
        budget.spend(sum([pattern.steps(name(thing)) for thing in part]))
        yield None
    found: list[T] = []
    some: list[T] = []
    cost = dearest = 0
    for thing in things:
        steps = pattern.steps(name(thing))
        some.append(thing)
        cost += steps
        dearest = max(dearest, steps)
        if cost >= (A_STEP if dearest <= DEAR else DEAR_AT_ONCE):
            found += yield from _matched(pattern, some, name, dearest)
            some, cost, dearest = [], 0, 0
    found += yield from _matched(pattern, some, name, dearest)
    return found


def _matched(pattern: Matcher, some: list[T], name: Callable[[T], str], dearest: int) -> Job[list[T]]:
    work = partial(_those_that_match, pattern, some, name)
    if dearest > DEAR:
        result: list[T] = yield OffloadedWork(work)
        return result
    done = work()
    yield None
    return done


def _those_that_match(pattern: Matcher, some: list[T], name: Callable[[T], str]) -> list[T]:
    return [one for one in some if pattern.matches(name(one))]
