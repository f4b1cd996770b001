"""Measures how many partitions an assignment moves, and how even the assignment is.

An assignment is member id -> topic -> partitions, with each member as a key. Use instance ids for static members,
because the member id of a static member changes when it returns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, Final, TypeAlias, TypeVar

_T = TypeVar("_T")
ROWS_A_STEP: Final = 500
"""How many topics of members one step of a job handles. A step takes a fraction of a millisecond."""

Owned: TypeAlias = Mapping[str, Mapping[str, Collection[int]]]
"""Partitions by member id and topic."""


@dataclass(frozen=True, slots=True)
class Moves:
    """How many partitions changed their owner from one assignment to the next. Each partition counts in one field."""

    kept: int = 0
    """Partitions with the same owner before and after."""
    moved: int = 0
    """Partitions with an owner before and another after."""
    gained: int = 0
    """Partitions without an owner before, and with one after ("newly owned")."""
    lost: int = 0
    """Partitions with an owner before, and without one after."""

    def __add__(self, other: Moves) -> Moves:
        return Moves(
            self.kept + other.kept, self.moved + other.moved, self.gained + other.gained, self.lost + other.lost
        )


@dataclass(frozen=True, slots=True)
class Skew:
    """How uneven the numbers of partitions of members are."""

    least: int = 0
    most: int = 0
    coefficient: float = 0.0
    """The coefficient of variation: standard deviation divided by mean. 0: all members have the same number."""

    @property
    def spread(self) -> int:
        """The largest number minus the smallest: at most 1 if the strategy balances and all subscriptions are equal."""
        return self.most - self.least


def moves(before: Owned, after: Owned) -> dict[str, Moves]:
    """The moves for each topic of the two assignments. `total` adds the moves of all topics.

    B are the partitions with an owner before, A those with an owner after. K are the partitions with the same owner in
    both. Then kept = |K|, moved = |B and A| - |K|, gained = |A| - |B and A|, lost = |B| - |B and A|.
    """
    return finish(moves_in_steps(before, after))


def finish(steps: Generator[Any, None, _T]) -> _T:
    """Run all steps of a generator, and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result


def moves_in_steps(before: Owned, after: Owned) -> Generator[None, None, dict[str, Moves]]:
    """Compute `moves` in steps of a fraction of a millisecond, between which the caller can do other work."""
    kept: defaultdict[str, set[int]] = defaultdict(set)
    rows_left = ROWS_A_STEP
    for member, topics in before.items():
        now = after.get(member)
        if now:
            for topic, partitions in topics.items():
                same = now.get(topic)
                if same:
                    # Most members have the same partitions as before.
                    found = partitions if partitions == same else set(partitions).intersection(same)
                    if found:
                        kept[topic].update(found)
        rows_left -= len(topics) + 1
        if rows_left < 0:
            rows_left = ROWS_A_STEP
            yield
    had, have = (yield from _by_topic_in_steps(before)), (yield from _by_topic_in_steps(after))
    rows = {}
    for number, topic in enumerate(dict.fromkeys((*had, *have)), 1):
        old, new = had.get(topic, _NONE), have.get(topic, _NONE)
        both, stayed = len(old & new), len(kept.get(topic, _NONE))
        rows[topic] = Moves(stayed, both - stayed, len(new) - both, len(old) - both)
        if number % ROWS_A_STEP == 0:
            yield
    return rows


def total(rows: Mapping[Any, Moves]) -> Moves:
    """The sum of the moves of all topics."""
    return sum(rows.values(), Moves())


def stickiness(before: Owned, after: Owned) -> float:
    """The share of kept partitions among those that could have been kept, from 0 to 1. It is 1 if none could be.

    A member could have kept its old partitions that still have an owner, up to its present number of partitions. So the
    share does not fall when partitions are moved only for balance. A is the set of all partitions with an owner after.
    The dividend is the sum of |before(m) and after(m)| over all members m. The divisor is the sum of min(|before(m) and
    A|, |after(m)|).
    """
    have = finish(_by_topic_in_steps(after))
    kept = possible = 0
    for member, topics in before.items():
        now = after.get(member)
        if not now:
            continue
        still = 0
        for topic, partitions in topics.items():
            if topic in have:
                mine = set(partitions)
                still += len(mine & have[topic])
                if topic in now:
                    kept += len(mine.intersection(now[topic]))
        possible += min(still, sum(map(len, now.values())))
    return kept / possible if possible else 1.0


def skew(assignment: Owned) -> Skew:
    """How uneven the members' numbers of partitions are. A number counts the partitions of all topics."""
    return _skew([sum(map(len, topics.values())) for topics in assignment.values()])


_NONE: frozenset[int] = frozenset()


def _by_topic_in_steps(assignment: Owned) -> Generator[None, None, Mapping[str, set[int]]]:
    found: defaultdict[str, set[int]] = defaultdict(set)
    rows_left = ROWS_A_STEP
    for topics in assignment.values():
        for topic, partitions in topics.items():
            found[topic].update(partitions)
        rows_left -= len(topics) + 1
        if rows_left < 0:
            rows_left = ROWS_A_STEP
            yield
    return found


def _skew(numbers: Sequence[int]) -> Skew:
    if not numbers:
        return Skew()
    mean = sum(numbers) / len(numbers)
    if not mean:
        return Skew()
    variance = sum((number - mean) ** 2 for number in numbers) / len(numbers)
    return Skew(min(numbers), max(numbers), sqrt(variance) / mean)
