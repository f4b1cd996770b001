"""How unstable a group is, from 0 to 100. docs/pipeline-tables.md has the formula. Pure."""

from __future__ import annotations

from typing import Final

SHORT_MS: Final = 300_000
"""A generation that lasts less than this counts as short: the default of max.poll.interval.ms."""
HALF_RATE: Final = 6.0
"""With this number of rebalances an hour, the part of the score for the rate is half of its maximum."""
BY_RATE: Final = 0.4
BY_SHORT: Final = 0.3
BY_REPEATS: Final = 0.3


def flapping_score(rebalances: int, hours: float, short: int, triggered: int, distinct: int) -> float:
    """The score of a group. `hours`: the time that is known of the group.

    `short`: how many generations were short. `triggered`: the rebalances with a known trigger, of `distinct` members.
    """
    if not rebalances:
        return 0.0
    an_hour = rebalances / max(hours, 1.0)
    repeats = (triggered - distinct) / (triggered - 1) if triggered > 1 else 0.0
    parts = BY_RATE + BY_SHORT * min(short / rebalances, 1.0) + BY_REPEATS * repeats
    return round(100 * an_hour / (an_hour + HALF_RATE) * parts, 1)
