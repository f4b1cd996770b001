"""Whether the clock of a group's broker went back: then members and rebalances are not in the order of their times.
Pure.

Records more than a day off are mended before (`facts/log_times.py`); of a smaller step nobody knows which side is
right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

from muster.pipeline.episodes.model import Rebalance
from muster.pipeline.wording import MINUTE

LEAST_MS: Final = MINUTE
"""Clocks of brokers differ by less."""


class Fall(NamedTuple):
    """The largest one."""

    at_ms: int
    """The time that was reached before."""
    by_ms: int


def went_back(rebalances: Iterable[Rebalance]) -> Fall | None:
    """A generation that ended long before the one that it followed; None: the clock is not known to have gone back."""
    some = list(rebalances)
    ends: dict[int, list[int]] = defaultdict(list)
    for one in some:
        ends[one.generation].append(one.end_ms)
    found: list[Fall] = []
    for one in some:
        # a group that was deleted and made again has several generations of one number
        before = ends.get(one.before_generation) if one.before_generation is not None else None
        if before and min(before) - one.end_ms > LEAST_MS:
            found.append(Fall(min(before), min(before) - one.end_ms))
    return max(found, key=lambda fall: fall.by_ms, default=None)
