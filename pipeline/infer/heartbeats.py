"""How soon the members of a group see a rebalance, and how they leave.

Both are learned from the group's rebalances. Pure. The size of the result does not grow with the history. The answer to
its next heartbeat shows a member the rebalance. No record has the interval of heartbeats, but two facts show it. If the
log shows the start of a rebalance, all members were back within one interval. And members begin to count the interval
again when they get their partitions. So the end of a join phase comes a whole number of intervals after the last
assignment. Both facts change the weight of each interval that people configure. docs/dev/pipeline-inference.md has the
rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import exp, log
from types import MappingProxyType
from typing import Final, NamedTuple

from muster.pipeline.defaults import HEARTBEAT_MS

SLACK_MS: Final = 150
"""The time from when a member sees a rebalance until it joins again. It must poll, and a broker has threads."""
_COMMON: Final = MappingProxyType(
    {HEARTBEAT_MS: 0.4, 500: 0.06, **dict.fromkeys((1_000, 2_000), 0.12), **dict.fromkeys((5_000, 10_000), 0.06)}
)
"""How often people configure each of these intervals, as shares."""
INTERVALS_MS: Final = (
    *(200, 300, 400, 500, 600, 750, 800, 1_000, 1_200, 1_500, 1_800, 2_000, 2_500, 3_000, 3_333, 4_000),
    *(5_000, 6_000, 7_500, 8_000, 10_000, 12_000, 15_000, 20_000, 30_000),
)
_SELDOM: Final = 0.005
_LONG: Final = 0.2
_TOO_LONG: Final = 0.001
"""Factors for the probability of an interval longer than a third of the session timeout, and than half of it.

Kafka's documentation advises at most a third.
"""
_LATE: Final = 0.035
"""A real interval may be longer than the configured one by this share."""
_EDGE_MS: Final = 100
_TIMES: Final = 5
"""After more intervals than this, the time at which the last one ends is too uncertain."""
_EARLY_MS: Final = 20
_ON_TIME: Final = 0.6
"""The probability that a join phase ends with a heartbeat of the members. Otherwise one of them was late."""
_TARDY_MS: Final = 120
_TARDY: Final = 0.02
"""The usual delay (ms) of members that are late, and the probability that another reason delays them."""
_LIKELY: Final = 0.97
_KEPT: Final = 0.98
"""What was learned is multiplied by this factor with each new fact, because settings change with a new release."""
_SURE: Final = 5.0
_OFF: Final = log(0.8 / 0.15)
_ON: Final = log(0.2 / 0.85)
"""A last commit off the beat, or on it, adds this to the log odds that members commit at parting."""
_USUAL: Final = 1.0
"""The log odds before any evidence: all clients commit on close, unless only the application commits."""


class HeartbeatHabits(NamedTuple):
    """What the rebalances of a group show about heartbeats."""

    weights: tuple[float, ...] = (0.0,) * len(INTERVALS_MS)
    """For each interval, what the evidence so far adds to its log probability."""
    most_ms: int = 0
    """The longest time that members needed to return in a rebalance whose start was seen."""
    parting: float = _USUAL
    """The log odds that members commit when they give partitions up or leave."""

    @property
    def parts(self) -> bool:
        """Whether it is the members' habit to commit at parting."""
        return self.parting > 0

    def probabilities(self, session_ms: int) -> tuple[float, ...]:
        """The probability of each interval of INTERVALS_MS, with this session timeout."""
        logs = [
            log(_prior(interval_ms, session_ms)) + weight
            for interval_ms, weight in zip(INTERVALS_MS, self.weights, strict=True)
        ]
        most = max(logs)
        all_of_it = sum(exp(one - most) for one in logs)
        return tuple(exp(one - most) / all_of_it for one in logs)

    def likely_ms(self, session_ms: int) -> int:
        """The usual interval: the geometric mean of the possible intervals, weighted with their probabilities."""
        chances = zip(INTERVALS_MS, self.probabilities(session_ms), strict=True)
        return round(exp(sum(chance * log(interval_ms) for interval_ms, chance in chances)))

    def at_most_ms(self, session_ms: int) -> int:
        """The longest time, as far as is known, in which a member sees a rebalance and joins again."""
        so_far = accumulate(self.probabilities(session_ms))
        longest_ms = next(
            (interval_ms for interval_ms, chance in zip(INTERVALS_MS, so_far, strict=True) if chance >= _LIKELY),
            INTERVALS_MS[-1],
        )
        return max(round(longest_ms * (1 + _LATE)), self.most_ms) + SLACK_MS

    def with_commit(self, is_off_beat: bool) -> HeartbeatHabits:
        """The habits after one more member gave partitions up. Its last commit was off its beat, or on its beat."""
        parting = self.parting + (_OFF if is_off_beat else _ON)
        return self._replace(parting=max(-_SURE, min(_SURE, parting)))

    def with_delay(self, delay_ms: int) -> HeartbeatHabits:
        """The habits after a rebalance whose start was seen: all members were back after this delay."""
        found = self._with([_of_delay(delay_ms, interval_ms) for interval_ms in INTERVALS_MS])
        return found._replace(most_ms=max(round(self.most_ms * _KEPT), delay_ms))

    def with_gap(self, joined_ms: int, at_ms: int, late_ms: int) -> HeartbeatHabits:
        """The habits after one more rebalance.

        The times are those from the last join phase, and from the last assignment, until all members were back.
        `late_ms`: how late the leader was.
        """
        return self._with([_of_gap(joined_ms, at_ms, late_ms, interval_ms) for interval_ms in INTERVALS_MS])

    def _with(self, odds: Sequence[float]) -> HeartbeatHabits:
        weights = (_KEPT * old + log(new) for old, new in zip(self.weights, odds, strict=True))
        return self._replace(weights=tuple(weights))


def _prior(interval_ms: int, session_ms: int) -> float:
    usual = _COMMON.get(interval_ms, _SELDOM)
    if interval_ms * 2 > session_ms:
        return usual * _TOO_LONG
    return usual * _LONG if interval_ms * 3 > session_ms else usual


def _of_delay(delay_ms: int, interval_ms: int) -> float:
    """The likelihood of a delay, with this interval."""
    over_ms = delay_ms - interval_ms * (1 + _LATE) - _EDGE_MS
    in_time = exp(-max(over_ms, 0) / _TARDY_MS)
    return ((1 - _TARDY) * in_time + _TARDY) / interval_ms


def _of_gap(joined_ms: int, at_ms: int, late_ms: int, interval_ms: int) -> float:
    """How much likelier the two times are with this interval than by chance."""
    if at_ms > (_TIMES + 1) * interval_ms:
        return 1.0
    found = [_window(gap_ms, late_ms, interval_ms) for gap_ms in (joined_ms, at_ms)]
    inside = [width_ms for is_inside, width_ms in found if is_inside]
    if not inside:
        return 1 - _ON_TIME
    width_ms = min(min(inside) + abs(joined_ms - at_ms), interval_ms)
    return 1 - _ON_TIME + _ON_TIME * interval_ms / width_ms


def _window(gap_ms: int, late_ms: int, interval_ms: int) -> tuple[bool, float]:
    """Whether the time is a whole number of intervals, and by how much it may differ from this number."""
    times = int((gap_ms + _EARLY_MS) // interval_ms)
    if times == 0:
        return False, interval_ms
    width_ms = times * interval_ms * _LATE + _EDGE_MS + _EARLY_MS + late_ms
    return gap_ms + _EARLY_MS - times * interval_ms <= width_ms, width_ms
