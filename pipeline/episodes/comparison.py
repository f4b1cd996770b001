"""Before and after a change: is the difference of two counts more than chance? Pure.

docs/pipeline-episodes.md explains the test. Incidents that occur at random with a steady rate are Poisson distributed.
If the number of all incidents is known, the number in the first span has a binomial distribution. The probability of
this distribution is the share of the first span in the whole time. So the binomial test is exact. Rebalances of one
episode are not independent, so incidents are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import exp, lgamma, log
from typing import Final, NamedTuple

from muster.pipeline.episodes import model

LIKELY: Final = 0.05
"""The significance level. A p-value is significant below this level, divided by the number of tested groups."""
LEAST: Final = 5
"""A group that has fewer incidents than this in both spans together is not judged."""
LONG: Final = 0.5
"""If loops lasted for at least this share of their span, each departure counts as an incident. Otherwise a loop is one
incident.
"""
HOUR_MS: Final = 3_600_000

ONE_SIDE: Final = "one_side"
TOO_FEW: Final = "too_few"
CHANCE: Final = "chance"
SIGNIFICANT: Final = "significant"
JUDGEMENTS: Final = (SIGNIFICANT, CHANCE, TOO_FEW, ONE_SIDE)
"""The possible judgements of a difference."""

_OUT_AND_BACK: Final = 2
_LOOPS: Final = frozenset({model.CRASH_LOOP, model.FLAPPING, model.SLOW})
_CLOSE: Final = 1e-7
"""Logarithms of probabilities that differ by less than this are equal."""


class Episode(NamedTuple):
    """The facts of an episode that are compared."""

    kind: str
    rebalances: int
    cost_ms: int
    lasted_ms: int
    """How long the episode lasted in this span."""


class Span(NamedTuple):
    """One group in one of the two spans."""

    observed_ms: int
    """For how long the log has the group."""
    rebalances: int
    episodes: int
    departures: int
    """The number of episodes, where a loop counts as many times as members departed in it."""
    looped_ms: int
    """How long all loops together lasted."""
    cost_ms: int
    kinds: tuple[str, ...]
    """The number of episodes of each kind, as in `2 rolling_restart`."""


def span(observed_ms: int, episodes: Sequence[Episode]) -> Span:
    """The sums over the episodes of a span. A first formation is no incident: the log only begins with it."""
    counted_episodes = [one for one in episodes if one.kind != model.FORMATION]
    counted = Counter(one.kind for one in counted_episodes)
    return Span(
        max(observed_ms, 0),
        sum(one.rebalances for one in counted_episodes),
        len(counted_episodes),
        sum(map(departures, counted_episodes)),
        sum(one.lasted_ms for one in counted_episodes if one.kind in _LOOPS),
        sum(one.cost_ms for one in counted_episodes),
        tuple(f"{counted[kind]} {kind}" for kind in model.KINDS if counted[kind]),
    )


def departures(episode: Episode) -> int:
    """The number of incidents that an episode counts as: the departures of members in a loop, otherwise one."""
    return max(1, -(-episode.rebalances // _OUT_AND_BACK)) if episode.kind in _LOOPS else 1


def happenings(before: Span, after: Span) -> tuple[int, int]:
    """The number of incidents in both spans, counted in the same way.

    Departures are counted if loops lasted long in the span with more departures an hour. Otherwise episodes are
    counted.
    """
    worse = max(before, after, key=lambda one: one.departures / max(one.observed_ms, 1))
    if worse.looped_ms < LONG * worse.observed_ms:
        return before.episodes, after.episodes
    return before.departures, after.departures


def judgement(before: Span, after: Span) -> str:
    """The judgement of one group alone: ONE_SIDE, TOO_FEW, or CHANCE if the group can be tested.

    Whether a tested group is SIGNIFICANT depends on the number of tested groups.
    """
    if not before.observed_ms or not after.observed_ms:
        return ONE_SIDE
    return TOO_FEW if sum(happenings(before, after)) < LEAST else CHANCE


def chance(before: Span, after: Span) -> float | None:
    """The probability that chance makes this difference of incidents, or a greater one.

    The probability is None if a span has no time.
    """
    if not before.observed_ms or not after.observed_ms:
        return None
    seen, others = happenings(before, after)
    return _two_sided(seen, seen + others, before.observed_ms / (before.observed_ms + after.observed_ms))


def _two_sided(seen: int, count: int, share: float) -> float:
    """The p-value of the exact binomial test, over all outcomes that are at most as likely as the real one."""
    logs = [
        lgamma(count + 1)
        - lgamma(one + 1)
        - lgamma(count - one + 1)
        + one * log(share)
        + (count - one) * log(1 - share)
        for one in range(count + 1)
    ]
    most = logs[seen] + _CLOSE
    return min(1.0, sum(exp(one) for one in logs if one <= most))
