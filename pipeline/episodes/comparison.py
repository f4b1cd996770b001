"""Before and after a change: is the difference of two counts more than chance? Pure; docs/pipeline-episodes.md tells.

Things that happen at random with a steady rate are Poisson distributed. Given how many there were in both spans
together, each of them lies in the first one with the probability that its share of the time is: a binomial
distribution, and an exact test. Rebalances of one episode do not happen independently, so happenings are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import exp, lgamma, log
from typing import Final, NamedTuple

from muster.pipeline.episodes import model

LIKELY: Final = 0.05
"""A difference that chance makes at most so often, by the number of groups that are tested, is significant."""
LEAST: Final = 5
"""Of a group with fewer happenings in both spans nothing is said."""
LONG: Final = 0.5
"""Loops that went on for this share of their span have a rate: each turn counts. A shorter one is one happening."""
HOUR_MS: Final = 3_600_000

ONE_SIDE: Final = "one_side"
TOO_FEW: Final = "too_few"
CHANCE: Final = "chance"
SIGNIFICANT: Final = "significant"
JUDGEMENTS: Final = (SIGNIFICANT, CHANCE, TOO_FEW, ONE_SIDE)
"""What is to be thought of the difference."""

_OUT_AND_BACK: Final = 2
_LOOPS: Final = frozenset({model.CRASH_LOOP, model.FLAPPING, model.SLOW})
_CLOSE: Final = 1e-7
"""Probabilities that differ by less are equal."""


class Episode(NamedTuple):
    """What of an episode is compared."""

    kind: str
    rebalances: int
    cost_ms: int
    lasted_ms: int
    """Of it, in this span."""


class Span(NamedTuple):
    """One group in one of the two spans."""

    observed_ms: int
    """How long the log tells of it."""
    rebalances: int
    episodes: int
    turns: int
    """As `episodes`, but of a loop each time that a member went."""
    looped_ms: int
    """How long loops went on."""
    cost_ms: int
    kinds: tuple[str, ...]
    """`2 rolling_restart`, …"""


def span(observed_ms: int, episodes: Sequence[Episode]) -> Span:
    """The sums. A first formation is no happening: it is where the log begins."""
    told = [one for one in episodes if one.kind != model.FORMATION]
    counted = Counter(one.kind for one in told)
    return Span(
        max(observed_ms, 0),
        sum(one.rebalances for one in told),
        len(told),
        sum(map(turns, told)),
        sum(one.lasted_ms for one in told if one.kind in _LOOPS),
        sum(one.cost_ms for one in told),
        tuple(f"{counted[kind]} {kind}" for kind in model.KINDS if counted[kind]),
    )


def turns(episode: Episode) -> int:
    """An episode happens once; of a loop each time that a member went counts."""
    return max(1, -(-episode.rebalances // _OUT_AND_BACK)) if episode.kind in _LOOPS else 1


def happenings(before: Span, after: Span) -> tuple[int, int]:
    """How much happened in both spans, counted in the same way: by turns, if loops went on for long in the span that
    has more of them; else by episodes.
    """
    worse = max(before, after, key=lambda one: one.turns / max(one.observed_ms, 1))
    if worse.looped_ms < LONG * worse.observed_ms:
        return before.episodes, after.episodes
    return before.turns, after.turns


def judgement(before: Span, after: Span) -> str:
    """ONE_SIDE, TOO_FEW; or CHANCE, if the group can be tested: with the number of these it is known which are
    SIGNIFICANT.
    """
    if not before.observed_ms or not after.observed_ms:
        return ONE_SIDE
    return TOO_FEW if sum(happenings(before, after)) < LEAST else CHANCE


def chance(before: Span, after: Span) -> float | None:
    """How likely a difference of happenings like this one, or a greater one, is if nothing has changed; None: a span
    has no time.
    """
    if not before.observed_ms or not after.observed_ms:
        return None
    seen, others = happenings(before, after)
    return _two_sided(seen, seen + others, before.observed_ms / (before.observed_ms + after.observed_ms))


def _two_sided(seen: int, count: int, share: float) -> float:
    """The exact binomial test: all outcomes that are no likelier than the one that was seen."""
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
