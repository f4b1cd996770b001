"""Finds times at which members of several groups were lost: the coordinator or the network was in trouble. Pure.

A moment is the time of the members' last signs of life, not the time of their removal. The reason is that session
timeouts of groups differ, and that sessions begin again after a broker's restart. A coordinator that is away takes
whole groups. A host that is lost takes one member of each.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.model import Moment

_NEIGHBOURS: Final = (-1, 0, 1)
"""A moment consists of three steps of MOMENT_MS: one step, and the steps beside it."""
_MOST: Final = 0.5
"""A group is only hit if more than this share of its members was lost. The others went on with the coordinator."""
_AROUND: Final = limits.AROUND_MS // limits.MOMENT_MS


class Heard(NamedTuple):
    """The stay of a member in its group."""

    heard_ms: int | None
    """The last sign of life. It is None if the member was not lost."""
    start_ms: int
    end_ms: int | None
    """The end of the stay. It is None if the member is still there."""


class Losses:
    """The moments at which members of many groups were last heard of: too many groups to be chance.

    A group that loses members all the time loses some at any moment. Such a group counts for less. Its weight falls
    with the share of the surrounding time in which it also loses members.
    """

    def __init__(self) -> None:
        self._groups = 0
        self._hit: Counter[int] = Counter()
        self._weight: dict[int, float] = {}

    def add(self, members: Sequence[Heard]) -> None:
        """Add the members of a group."""
        self._groups += bool(members)
        lost = Counter(one.heard_ms // limits.MOMENT_MS for one in members if one.heard_ms is not None)
        steps = sorted(lost)
        starts = sorted(one.start_ms for one in members)
        ends = sorted(one.end_ms for one in members if one.end_ms is not None)
        for at in {one + shift for one in steps for shift in _NEIGHBOURS}:
            # those that were there at the end of the moment, or were lost in it
            there = bisect_left(starts, (at + 2) * limits.MOMENT_MS) - bisect_left(ends, (at - 1) * limits.MOMENT_MS)
            if sum(lost[at + shift] for shift in _NEIGHBOURS) <= _MOST * there:
                continue
            near = steps[bisect_left(steps, at - _AROUND) : bisect_right(steps, at + _AROUND)]
            others = sum(lost[one] for one in near if one - at not in _NEIGHBOURS)
            share = others * len(_NEIGHBOURS) / (2 * _AROUND + 1)
            self._hit[at] += 1
            self._weight[at] = self._weight.get(at, 0.0) + max(1 - share, 0.0)

    def found(self) -> list[Moment]:
        """The moments that the added groups show."""
        least = max(limits.AT_ONCE, limits.AT_ONCE_SHARE * self._groups)
        return [
            ((at - 1) * limits.MOMENT_MS, (at + 2) * limits.MOMENT_MS)
            for at, hit in self._hit.items()
            if hit >= least and self._weight[at] > least - limits.BY_CHANCE
        ]
