"""Before and after a change: is the difference of two counts more than chance? Pure.

docs/pipeline-episodes.md explains it. Incidents that occur at random with a steady rate are Poisson distributed. If
their number in both spans is known, each lies in the first span with the share of its time. That is a binomial
distribution, and an exact test. Rebalances of one episode are not independent, so incidents are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import exp, lgamma, log
from typing import Final, NamedTuple

from muster.pipeline.episodes import model

LIKELY: Final = 0.05
"""A difference is significant if chance makes it at most so often, divided by the number of tested groups."""
LEAST: Final = 5
"""A group with fewer incidents in both spans is not judged."""
LONG: Final = 0.5
"""Loops that lasted for this share of their span have a rate: each departure counts. A shorter loop is one incident."""
HOUR_MS: Final = 3_600_000

ONE_SIDE: Final = "one_side"
TOO_FEW: Final = "too_few"
CHANCE: Final = "chance"
SIGNIFICANT: Final = "significant"
JUDGEMENTS: Final = (SIGNIFICANT, CHANCE, TOO_FEW, ONE_SIDE)
"""The judgements of a difference."""

_OUT_AND_BACK: Final = 2
_LOOPS: Final = frozenset({model.CRASH_LOOP, model.FLAPPING, model.SLOW})
_CLOSE: Final = 1e-7
"""Probabilities that differ by less are equal."""


class Episode(NamedTuple):
    """The compared facts of an episode."""

    kind: str
    rebalances: int
    cost_ms: int
    lasted_ms: int
    """How long it lasted in this span."""


class Span(NamedTuple):
    """One group in one of the two spans."""

    observed_ms: int
    """For how long the log covers the group."""
    rebalances: int
    episodes: int
    departures: int
    """As `episodes`, but of a loop each departure of a member counts."""
    looped_ms: int
    """How long loops lasted."""
    cost_ms: int
    kinds: tuple[str, ...]
    """`2 rolling_restart`, …"""


def span(observed_ms: int, episodes: Sequence[Episode]) -> Span:
    """The sums. A first formation is no incident: it is where the log begins."""
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
    """An episode counts once; of a loop each departure of a member counts."""
    return max(1, -(-episode.rebalances // _OUT_AND_BACK)) if episode.kind in _LOOPS else 1


def happenings(before: Span, after: Span) -> tuple[int, int]:
    """The number of incidents in both spans, counted in the same way.

    By departures, if loops lasted long in the span that has more of them; otherwise by episodes.
    """
    worse = max(before, after, key=lambda one: one.departures / max(one.observed_ms, 1))
    if worse.looped_ms < LONG * worse.observed_ms:
        return before.episodes, after.episodes
    return before.departures, after.departures


def judgement(before: Span, after: Span) -> str:
    """ONE_SIDE or TOO_FEW; or CHANCE, if the group can be tested.

    With the number of tested groups it is known which are SIGNIFICANT.
    """
    if not before.observed_ms or not after.observed_ms:
        return ONE_SIDE
    return TOO_FEW if sum(happenings(before, after)) < LEAST else CHANCE


def chance(before: Span, after: Span) -> float | None:
    """The probability of such a difference of incidents, or a greater one, if nothing has changed.

    It is None if a span has no time.
    """
    if not before.observed_ms or not after.observed_ms:
        return None
    seen, others = happenings(before, after)
    return _two_sided(seen, seen + others, before.observed_ms / (before.observed_ms + after.observed_ms))


def _two_sided(seen: int, count: int, share: float) -> float:
    """The exact binomial test: all outcomes that are no likelier than the real one."""
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
