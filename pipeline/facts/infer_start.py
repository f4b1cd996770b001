"""When a rebalance began, from what the log shows: the earliest and the latest moment that it can have been, and the
likeliest. Pure.

The end of the join phase is in the log. Before it, each member that stayed had to come back, and came with its next
heartbeat; how long that takes is learned from those rebalances of the group whose beginning is seen: a member that
leaves commits just before, and members that give partitions up join again at once. docs/pipeline-inference.md has the
rules.
"""

from __future__ import annotations

from math import log
from typing import Final, NamedTuple

from muster.coordinator.groups.common import events
from muster.pipeline.defaults import HEARTBEAT_MS
from muster.pipeline.facts.infer import Verdict
from muster.pipeline.facts.infer_departures import EXPIRED, LEFT, Gone
from muster.pipeline.facts.infer_evidence import Member, State, survivors
from muster.pipeline.facts.infer_habits import Habits

SLACK_MS: Final = 150
"""A member joins again so much later than it hears of it: it has to poll, and a broker has threads."""
_FAREWELL_MS: Final = 2
"""A member leaves so soon after its last commit, if that was made for parting."""
_AT_MOST_MS: Final = 250
"""And at most so much later."""
_AT_ONCE_MS: Final = 30
"""A member that has given partitions up joins again so soon."""
_SOON_MS: Final = 400
"""And at most so much later: it polls first."""
_PARTED_MS: Final = 100
"""A commit for parting is in the log so soon after the member has heard of the rebalance."""
_LATE: Final = 1.25
"""A regular commit comes no later than after so many intervals."""
_HABIT: Final = 0.8
"""A habit that is as sure as this is relied on."""
_EARLY: Final = 0.85
"""A commit that comes before so much of an interval is off the beat."""
_QUICK_MS: Final = 300
"""Of commits that are so near to each other nothing is off the beat."""
_OFF: Final = log(0.8 / 0.15)
_ON: Final = log(0.2 / 0.85)
"""What a last commit off or on the beat adds to the log odds of the habit."""
_SURE: Final = 5.0
_USUAL: Final = 0.6
"""Of times that are even between nothing and a heartbeat interval this share of it is told: half of them are out by
less than a third of their own length.
"""
_LEAST_MS: Final = 1_000
"""Few rebalances do not prove that heartbeats are more frequent than this."""
_DOUBT: Final = 20.0
"""The greatest of n times that are even between 0 and h is below h / 20 ** (1 / n) once in twenty times."""


class Start(NamedTuple):
    """When a rebalance began. The likeliest moment lies between the others."""

    earliest_ms: int
    likely_ms: int
    latest_ms: int
    is_seen: bool = False
    """The log shows it to some ms."""


class Hearing(NamedTuple):
    """What a group's rebalances tell of how soon its members come back, and how they part."""

    most_ms: int = 0
    """How long the last of them took, at most, in rebalances whose beginning was seen."""
    times: int = 0
    """Of how many that is the most."""
    parting: float = 0.0
    """Log odds that members commit when they give partitions up or leave, by whether such commits are off the beat."""

    @property
    def parts(self) -> bool:
        """Is that their habit?"""
        return self.parting > 0

    def likely_ms(self, session_ms: int) -> int:
        """The likely heartbeat interval; by default as clients have it."""
        usual_ms = min(HEARTBEAT_MS, session_ms // 3)
        if self.times < _ENOUGH:
            return max(usual_ms, self.most_ms)
        return min(self.most_ms * (self.times + 1) // self.times, self.at_most_ms())

    def at_most_ms(self) -> int:
        """No member took longer, as far as can be told."""
        if not self.times:
            return max(self.most_ms, HEARTBEAT_MS) + 2 * SLACK_MS
        above_ms = max(round(self.most_ms * float(_DOUBT ** (1 / self.times))), _LEAST_MS)
        return max(self.most_ms, min(above_ms, HEARTBEAT_MS)) + SLACK_MS


_ENOUGH: Final = 3


class Seen(NamedTuple):
    """A rebalance as it is judged."""

    before: State | None
    """None: the log does not reach back that far."""
    after: State
    verdict: Verdict
    habits: Habits


class _Case(NamedTuple):
    """The same, of which the state before is known."""

    before: State
    after: State
    verdict: Verdict
    habits: Habits


def with_parted(hearing: Hearing, one: Seen) -> Hearing:
    """Learn from the last commits of those that gave partitions up whether they part with one."""
    if one.before is None:
        return hearing
    gave_up = [gone.member for gone in one.verdict.gone if gone.how == LEFT]
    if not one.before.is_cooperative:
        gave_up += survivors(one.before, one.after)
    odds = hearing.parting
    for member in gave_up:
        is_off = _is_off_beat(one.before, member, one.habits)
        if is_off is not None:
            odds += _OFF if is_off else _ON
    return hearing._replace(parting=max(-_SURE, min(_SURE, odds)))


def with_hearing(hearing: Hearing, one: Seen) -> Hearing:
    """Learn from a rebalance whose beginning the log shows, if it waited for nothing but those that stayed."""
    start = start_of(one, hearing._replace(most_ms=0, times=0))
    if one.before is None or start is None:
        return hearing
    stayed = survivors(one.before, one.after)
    if not start.is_seen or not stayed or one.verdict.joined or _waited(one.before, one.after, one.verdict):
        return hearing
    took_ms = one.after.joined_ms - start.likely_ms
    if took_ms > max(member.session_timeout_ms for member in stayed):
        return hearing  # then it was something else that took so long
    # in a second round nobody knows how many joined again of themselves
    heard = 0 if one.verdict.is_second_round else 1
    return hearing._replace(most_ms=max(hearing.most_ms, took_ms), times=hearing.times + heard)


def _is_off_beat(before: State, member: Member, habits: Habits) -> bool | None:
    """Did its last commit come sooner than its beat; None: it has no beat, or one that is too quick to tell."""
    one = before.activity.get(member.member_id)
    beat_ms = (one and one.gap_ms) or before.usual_ms() or habits.usual_ms
    if one is None or beat_ms is None or beat_ms < _QUICK_MS or (one.max_gap_ms or 0) > 2 * beat_ms:
        return None
    last_ms = one.last_gap_ms if one.last_gap_ms is not None else one.last_ms - before.at_ms
    return last_ms < _EARLY * beat_ms


def start_of(one: Seen, hearing: Hearing) -> Start | None:
    """When it began; None: nothing tells it."""
    return None if one.before is None else _start(_Case(one.before, one.after, one.verdict, one.habits), hearing)


def _start(one: _Case, hearing: Hearing) -> Start:
    verdict, before, after = one.verdict, one.before, one.after
    stayed = survivors(before, after)
    if not stayed and not verdict.joined and len(before.members) == 1:
        return Start(max(before.at_ms, after.joined_ms - _AT_ONCE_MS), after.joined_ms, after.joined_ms, is_seen=True)
    low, high = _bounds(one, hearing)
    first = next((gone for gone in verdict.gone if gone.member is verdict.trigger), None)
    if verdict.is_second_round:
        return _second_round(one, low, high)
    if first is not None and verdict.cause == events.LEFT:
        return _after_leaving(one, first, low, high, hearing)
    if first is not None and verdict.cause == events.SESSION_EXPIRED and not first.in_join_phase:
        if not stayed and not verdict.joined:
            return _all_died(one, low, high, hearing)
        low, high = _after_expiry(one, first.member, low, high)
        if not _waited(before, after, verdict):
            return Start(low, (low + high) // 2, high)
    elif verdict.joined and not first:
        # it came in the place of one that died
        low, high = _cut(low, high, _died_ms(one), None)
    return _between(one, low, high, hearing)


def _bounds(one: _Case, hearing: Hearing) -> tuple[int, int]:
    """What holds for any cause: it began after the last assignment, and those that stayed heard of it in time."""
    before, after = one.before, one.after
    low, high = before.at_ms, after.joined_ms
    stayed = survivors(before, after)
    if stayed and not _waited(before, after, one.verdict):
        low = max(low, high - hearing.at_most_ms())
    if not before.is_cooperative:
        # who has heard of it commits no more, but for parting
        for member in stayed:
            activity, is_off = before.activity.get(member.member_id), _is_off_beat(before, member, one.habits)
            if activity is None or is_off is None:
                continue
            parted = is_off or hearing.parts
            late_ms = _PARTED_MS if parted else _late_ms(activity.gap_ms or 0)
            low, high = _cut(low, high, activity.last_ms - hearing.at_most_ms(), activity.last_ms + late_ms)
    return min(low, high), high


def _after_expiry(one: _Case, member: Member, low: int, high: int) -> tuple[int, int]:
    """Its session began with its last heartbeat, which came after its last commit and before the next would have."""
    alive_ms, beat_ms = last_life_ms(one.before, member), _beat_ms(one, member)
    late_ms = None if beat_ms is None else alive_ms + member.session_timeout_ms + _late_ms(beat_ms)
    if late_ms is not None and member.rebalance_timeout_ms > member.session_timeout_ms:
        # or it did not poll in time, and left
        out_ms = alive_ms + member.rebalance_timeout_ms
        late_ms = max(late_ms, out_ms + _late_ms(beat_ms or 0)) if out_ms <= high else late_ms
    return _cut(low, high, alive_ms + member.session_timeout_ms, late_ms)


def _all_died(one: _Case, low: int, high: int, hearing: Hearing) -> Start:
    """All of a group: at one time, or else the others would have come back. The spread is that of their heartbeats; if
    the coordinator was away, there is none.
    """
    heard_ms = hearing.at_most_ms()
    sessions = [last_life_ms(one.before, member) + member.session_timeout_ms for member in one.before.members]
    beats = [_beat_ms(one, member) or heard_ms for member in one.before.members]
    low = max(low, high - heard_ms, min(min(sessions), high))
    was_away = high - max(sessions) > max(beats) * _LATE + heard_ms
    return Start(low, high if was_away else (low + high) // 2, high)


def _late_ms(beat_ms: int) -> int:
    return round(beat_ms * _LATE) + SLACK_MS


def _cut(low: int, high: int, from_ms: int | None, to_ms: int | None) -> tuple[int, int]:
    """Bounds with others in them; what contradicts them tells nothing."""
    if from_ms is not None and low < from_ms <= high:
        low = from_ms
    if to_ms is not None and low <= to_ms < high:
        high = to_ms
    return low, high


def _second_round(one: _Case, low: int, high: int) -> Start:
    """Members that have given partitions up join again at once."""
    at_ms = one.before.at_ms
    if low > at_ms + _SOON_MS:
        return Start(low, low, high)
    return Start(low, min(max(at_ms + _AT_ONCE_MS, low), high), min(high, at_ms + _SOON_MS), is_seen=True)


def _after_leaving(one: _Case, first: Gone, low: int, high: int, hearing: Hearing) -> Start:
    """A member that leaves commits just before, if that is its habit."""
    last_ms, beat_ms = last_life_ms(one.before, first.member), _beat_ms(one, first.member)
    if first.when_ms is not None and first.when_ms > last_ms:  # it did not poll in time
        low, high = _cut(low, high, first.when_ms, None if beat_ms is None else first.when_ms + _late_ms(beat_ms))
        return Start(low, (low + high) // 2, high)
    if last_ms + _AT_MOST_MS < low or last_ms > high:
        return _between(one, low, high, hearing)
    has_committed = first.member.member_id in one.before.activity
    is_off = _is_off_beat(one.before, first.member, one.habits)
    low = max(low, last_ms)
    if has_committed and (is_off or hearing.parts):
        likely_ms = min(max(last_ms + _FAREWELL_MS, low), high)
        return Start(low, likely_ms, max(min(high, last_ms + _AT_MOST_MS), likely_ms), is_seen=True)
    low, high = _cut(low, high, None, None if beat_ms is None else last_ms + _late_ms(beat_ms))
    return _between(one, low, high, hearing)


def _between(one: _Case, low: int, high: int, hearing: Hearing) -> Start:
    """Members that were given partitions at the same moment send their heartbeats at the same moments: all that stayed
    hear of it at once, at any time within a heartbeat after it began.
    """
    end_ms = one.after.joined_ms
    if _waited(one.before, one.after, one.verdict):
        return Start(low, (low + high) // 2, high)
    session_ms = min((member.session_timeout_ms for member in one.before.members), default=0)
    if not survivors(one.before, one.after):
        # who did not leave with the others would have come back, or its session would have been waited for
        low = max(low, min(end_ms - session_ms - SLACK_MS, high))
        # if all came back under new ids, the sessions that they had before were waited for
        return Start(low, low + (high - low) // 5 if one.verdict.joined else high, high)
    most_ms = max(min(end_ms - low, end_ms - high + hearing.likely_ms(session_ms)), end_ms - high)
    return Start(low, max(high - round(_USUAL * (most_ms - (end_ms - high))), low), high)


def _waited(before: State, after: State, verdict: Verdict) -> bool:
    """Did it wait for more than heartbeats: for the session of a dead member, or because of failed attempts?"""
    died = any(each.how == EXPIRED for each in verdict.gone)
    return (
        after.generation > before.generation + 1
        or any(each.in_join_phase for each in verdict.gone)
        or (died and bool(verdict.joined))
    )


def _died_ms(one: _Case) -> int | None:
    """When the first of those that died was heard of last."""
    alive = [last_life_ms(one.before, each.member) for each in one.verdict.gone if each.how == EXPIRED]
    return min(alive, default=None)


def _beat_ms(one: _Case, member: Member) -> int | None:
    activity = one.before.activity.get(member.member_id)
    return (activity and activity.gap_ms) or one.before.usual_ms() or one.habits.usual_ms


def last_life_ms(before: State, member: Member) -> int:
    """When a member was heard of last: its last commit, or when it got its partitions."""
    activity = before.activity.get(member.member_id)
    return before.at_ms if activity is None else activity.last_ms
