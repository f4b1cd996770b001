"""What a group's history tells of its members: how often they commit, whether they commit before they give partitions
up, how many partitions there are. Pure; its size does not grow with the history.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log
from types import MappingProxyType
from typing import Final, NamedTuple

from muster.pipeline.facts.infer_evidence import Member, State

JOIN_MS: Final = 6_000
"""A member that is told to join again does so within its heartbeat interval (3 s) and a little."""
_SURE: Final = 5.0
"""The log odds are kept below this: habits change with a new release."""
_MISSED: Final = 0.05
"""How often a member with the habit does not follow it."""

_AWAY: Final = 64
"""So many processes that are away are remembered."""
_OFF_BEAT: Final = 0.25
"""How often the last commit comes sooner than usual by chance."""


_EARLY: Final = 0.85
"""A commit that comes before so much of an interval is off the beat."""
_QUICK_MS: Final = 300
"""Of commits that are so near to each other nothing is off the beat."""


class Habits(NamedTuple):
    """What is known of a group before a rebalance is judged."""

    counts: Mapping[str, int] = MappingProxyType({})
    """The most partitions of each topic that were assigned while a member subscribed to it."""
    has_grown: bool = False
    """The last state was the first of its members with so many partitions: under librdkafka, whose members all look
    for new partitions themselves, others join again when they see them too."""
    usual_ms: int | None = None
    """How long two commits are apart; None: no member has committed twice."""
    parting: float = 0.0
    """Log odds that members commit just before they give partitions up (or leave)."""

    away: tuple[tuple[str, str], ...] = ()
    """Processes that went and are not back yet, the last ones."""

    @property
    def commits_at_parting(self) -> float:
        """The probability of that."""
        return 1 / (1 + exp(-self.parting))


def with_state(habits: Habits, state: State) -> Habits:
    """What the commits and shares of one more state add."""
    counts: Mapping[str, int] = habits.counts
    if state.members and not state.is_cooperative:  # all there is is assigned
        counts = state.counts
    elif state.members:
        topics = sorted(state.topics | set(state.counts))
        counts = {topic: max(habits.counts.get(topic, 0), state.counts.get(topic, 0)) for topic in topics}
    known = habits.counts.keys() & counts.keys()
    has_grown = any(counts[topic] > habits.counts[topic] for topic in known)
    return habits._replace(counts=counts, has_grown=has_grown, usual_ms=state.usual_ms() or habits.usual_ms)


def with_gone(habits: Habits, before: State, after: State) -> Habits:
    """Who went in a rebalance, and who is back."""
    here = {member.process for member in after.members}
    went = [member.process for member in before.members if member.process not in here]
    away = [process for process in habits.away if process not in here and process not in went]
    return habits._replace(away=(*away, *went)[-_AWAY:])


def with_parting(habits: Habits, before: State, after: State) -> Habits:
    """Learn from the members that gave partitions up at the beginning of a rebalance: did they commit, off their beat?
    In a cooperative group only members that leave give partitions up at that moment.
    """
    odds = habits.parting
    stayed = {member.key for member in after.members}
    for member in before.members:
        activity = before.activity.get(member.member_id)
        if not member.assigned or (before.is_cooperative and member.key in stayed):
            continue
        beat_ms = (activity and activity.gap_ms) or habits.usual_ms or before.usual_ms()
        if beat_ms is None:  # no member commits regularly: then a commit at the very end is no chance
            beat_ms = after.joined_ms - before.at_ms
        window_ms = min(JOIN_MS, member.session_timeout_ms // 2)
        by_chance = min(max(window_ms, 1) / max(beat_ms, 1), 1 - _MISSED)
        if activity is not None and after.joined_ms - activity.last_ms <= window_ms:
            odds += log((1 - _MISSED) / by_chance)
        elif activity is not None and activity.is_off_beat:
            odds += log((1 - _MISSED) / _OFF_BEAT)
        elif member.key in stayed:  # else it may have been killed
            odds += log(_MISSED / (1 - by_chance))
    return habits._replace(parting=max(-_SURE, min(_SURE, odds)))


def is_off_beat(before: State, member: Member, habits: Habits) -> bool | None:
    """Did its last commit come sooner than its beat; None: it has no beat, or one that is too quick to tell."""
    one = before.activity.get(member.member_id)
    beat_ms = (one and one.gap_ms) or before.usual_ms() or habits.usual_ms
    if one is None or beat_ms is None or beat_ms < _QUICK_MS or (one.max_gap_ms or 0) > 2 * beat_ms:
        return None
    last_ms = one.last_gap_ms if one.last_gap_ms is not None else one.last_ms - before.at_ms
    return last_ms < _EARLY * beat_ms
