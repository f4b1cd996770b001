"""When a rebalance began, as far as the log shows: the earliest, the latest and the likeliest time. Pure.

The log has the end of the join phase. Each member that stayed had to return before that, with its next heartbeat
(`heartbeats` learns their interval). The member that caused the rebalance may have committed just before its start. Or
it was silent for its whole session. The rules are in docs/dev/pipeline-inference.md.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from muster.coordinator.groups.common import events
from muster.pipeline.infer.causes import Verdict
from muster.pipeline.infer.departures import EXPIRED, Gone, back_ms
from muster.pipeline.infer.evidence import Habits, Member, State, is_off_beat, survivors
from muster.pipeline.infer.heartbeats import SLACK_MS, HeartbeatHabits

_FAREWELL_MS: Final = 2
"""The usual time from the last commit of a leaving member to its LeaveGroup, if it commits because it leaves."""
_MAX_FAREWELL_MS: Final = 250
"""The longest time from the last commit of a leaving member to its LeaveGroup."""
_AT_ONCE_MS: Final = 12
"""A member that gave partitions up joins again after this time if it did not commit; otherwise a little later."""
_ALONE_MS: Final = 30
"""If a group has one member, the group is empty within this time after the member left."""
SOON_MS: Final = 400
"""A member that gave partitions up joins again within this time: it polls first."""
_PARTED_MS: Final = 100
"""A commit at parting is in the log within this time after the member saw the rebalance."""
_LATE: Final = 1.25
"""A regular commit comes at the latest after this many usual intervals."""
_LOOKED_MS: Final = 1_000
"""A client checks at this interval whether its application still polls."""
_HABIT: Final = 2.0
"""With log odds above this, a habit is certain enough."""
_SLOW: Final = 2
_SLOWEST_MS: Final = 6_000
"""If the leader sent its SyncGroup late, the machine was busy. Then members are late by up to _SLOW times that time,
and by at most _SLOWEST_MS.
"""
_TO_THE_MS: Final = 20
_REALLY: Final = 0.4
"""A time with at least this probability is used instead of the middle of a range."""
_TOGETHER_MS: Final = 300
"""Processes that start together join within this time after the first one."""
_FORMING_MS: Final = 5_000
_BACK: Final = 8
"""Members that the coordinator lost are back within this fraction of a session: one eighth."""
_ALONE: Final = 3
"""The first attempt of a new group began in this first part of the time: in the first third."""


class Start(NamedTuple):
    """When a rebalance began. The likeliest time lies between the other two times."""

    earliest_ms: int
    likely_ms: int
    latest_ms: int
    is_seen: bool = False
    """Whether the log shows the start exactly, to some ms."""


class JudgedRebalance(NamedTuple):
    """A rebalance with the facts by which it is judged."""

    before: State | None
    """The state before the rebalance; None: it is not in the log."""
    after: State
    verdict: Verdict
    habits: Habits
    formed_ms: int | None = None
    """When the group got its first members; None: this is not in the log."""


class _Case(NamedTuple):
    """A judged rebalance whose state before is known."""

    before: State
    after: State
    verdict: Verdict
    habits: Habits
    formed_ms: int | None

    @property
    def session_ms(self) -> int:
        """The shortest session timeout of the members."""
        return min((member.session_timeout_ms for member in self.before.members), default=0)

    @property
    def heard_ms(self) -> int:
        """By how much members may have been later than usual: by as much as the leader."""
        return min(_SLOW * (self.after.at_ms - self.after.joined_ms), _SLOWEST_MS)

    def between(self, low: int, high: int, usual_ms: int | None = None) -> Start:
        """A start anywhere between the bounds, but seldom more than `usual_ms` before the end of the join phase.

        The likeliest start makes the median relative error of the rebalance's length small.
        """
        low, likely_low = min(low, high), low
        if usual_ms is not None:
            likely_low = min(max(low, self.after.joined_ms - usual_ms - self.heard_ms), high)
        least_ms, most_ms = self.after.at_ms - high, max(self.after.at_ms - min(likely_low, high), 1)
        length_ms = 2 * most_ms * (least_ms + most_ms) // (3 * most_ms + least_ms)
        return Start(low, min(max(self.after.at_ms - length_ms, low), high), high)


def start_of(one: JudgedRebalance, heartbeats: HeartbeatHabits) -> Start | None:
    """When the rebalance began. It is None if nothing shows that."""
    if one.before is None:
        return None
    if one.before.ends_ms is not None:
        known_ms = min(one.before.ends_ms, one.after.joined_ms)
        return Start(known_ms, known_ms, known_ms, is_seen=True)
    # the clock of another broker may be behind
    before = one.before._replace(at_ms=min(one.before.at_ms, one.after.joined_ms))
    return _start(_Case(before, one.after, one.verdict, one.habits, one.formed_ms), heartbeats)


def _start(one: _Case, heartbeats: HeartbeatHabits) -> Start:
    verdict, before, after = one.verdict, one.before, one.after
    stayed = survivors(before, after)
    if not before.members:
        return _of_empty(one)
    if not stayed and not verdict.joined and len(before.members) == 1:
        return Start(max(before.at_ms, after.joined_ms - _ALONE_MS), after.joined_ms, after.joined_ms, is_seen=True)
    low, high = _bounds(one, heartbeats)
    first = next((gone for gone in verdict.gone if gone.member is verdict.trigger), None)
    if verdict.is_second_round:
        return _second_round(one, low, high)
    if first is not None and verdict.cause == events.LEFT:
        return _after_leaving(one, first, low, high, heartbeats)
    if first is not None and verdict.cause == events.SESSION_EXPIRED and not first.in_join_phase:
        if not stayed and not verdict.joined:
            return _all_died(one, low, high, heartbeats)
        return _after_expiry(one, first.member, low, high, heartbeats)
    if verdict.joined and not first:
        # the new member joined in place of a dead member
        low, high = _narrowed(low, high, _died_ms(one), None)
    return _between(one, low, high, heartbeats)


def _of_empty(one: _Case) -> Start:
    """The start in an empty group: the first member joined.

    How long the group waited for other members is not decided here, but by all groups of the broker together.
    """
    low, high = one.before.at_ms, one.after.joined_ms
    if one.after.generation > one.before.generation + 1:
        return Start(min(low, high), min(low, high) + max(high - low, 0) // _ALONE, high)
    return Start(min(low, high), high, high)


def _bounds(one: _Case, heartbeats: HeartbeatHabits) -> tuple[int, int]:
    """The bounds that hold for any cause. The rebalance began after the last assignment.

    And it began so late that the members that stayed saw it in time.
    """
    before, after = one.before, one.after
    low, high = before.at_ms, after.joined_ms
    stayed = survivors(before, after)
    heard_ms = heartbeats.at_most_ms(one.session_ms) + one.heard_ms
    if stayed and not waited_for(before, after, one.verdict):
        low = max(low, high - heard_ms)
    if not before.is_cooperative:
        # a member that has seen the rebalance commits only once more, at parting
        for member in stayed:
            activity, is_off = before.activity.get(member.member_id), is_off_beat(before, member, one.habits)
            if activity is None or is_off is None:
                continue
            parted = is_off or heartbeats.parting > _HABIT
            late_ms = _PARTED_MS if parted else _late_ms(activity.gap_ms or 0)
            low, high = _narrowed(low, high, activity.last_ms - heard_ms, activity.last_ms + late_ms)
    return min(low, high), high


def _after_expiry(one: _Case, member: Member, low: int, high: int, heartbeats: HeartbeatHabits) -> Start:
    """The start if the session of `member` expired.

    The session began with the member's last heartbeat, or with its last commit if that was later. The last heartbeat
    came after the last commit, and before the next commit would have come.
    """
    alive_ms, beat_ms = last_life_ms(one.before, member), _beat_ms(one, member)
    over_ms = alive_ms + member.session_timeout_ms
    late_ms = None if beat_ms is None else over_ms + _late_ms(beat_ms)
    if late_ms is not None and member.rebalance_timeout_ms > member.session_timeout_ms:
        # or the member did not poll in time, and left
        out_ms = alive_ms + member.rebalance_timeout_ms
        late_ms = max(late_ms, out_ms + _late_ms(beat_ms or 0)) if out_ms <= high else late_ms
    if back_ms(one.before, member) is not None:
        # the coordinator was away, and removed the member when it was back
        return one.between(*_narrowed(low, high, over_ms, None), heartbeats.likely_ms(one.session_ms))
    low, high = _narrowed(low, high, over_ms, late_ms)
    found = one.between(low, high, heartbeats.likely_ms(one.session_ms))
    if low - _TO_THE_MS <= over_ms <= high and beat_ms is not None:
        heart_ms = heartbeats.likely_ms(one.session_ms)
        commit = 1 - beat_ms / (2 * heart_ms) if beat_ms <= heart_ms else heart_ms / (2 * beat_ms)
        later = (1 - commit) * min((high - over_ms) / min(beat_ms, heart_ms), 1)
        if commit >= _REALLY * (commit + later):
            return found._replace(likely_ms=max(low, over_ms))
    return found


def _all_died(one: _Case, low: int, high: int, heartbeats: HeartbeatHabits) -> Start:
    """The start if all members of a group died at one time. Otherwise the other members would have returned.

    The ends of their sessions differ as their heartbeats do. If the coordinator was away, they do not differ.
    """
    heard_ms = heartbeats.at_most_ms(one.session_ms)
    sessions = [last_life_ms(one.before, member) + member.session_timeout_ms for member in one.before.members]
    beats = [_beat_ms(one, member) or heard_ms for member in one.before.members]
    low = max(low, high - max(heard_ms, max(sessions) - min(sessions)), min(min(sessions), high))
    if high - max(sessions) > max(beats) * _LATE + heard_ms:
        return Start(low, high - 1, high)  # the coordinator was away
    if high - max(sessions) <= _TO_THE_MS:
        return Start(low, min(max(min(sessions), low), high), high)  # the members died soon after their commits
    return one.between(low, high, heartbeats.likely_ms(one.session_ms))


def _late_ms(beat_ms: int) -> int:
    return round(beat_ms * _LATE) + SLACK_MS


def _narrowed(low: int, high: int, from_ms: int | None, to_ms: int | None) -> tuple[int, int]:
    """The bounds, narrowed by other bounds. Other bounds that contradict them are ignored."""
    if from_ms is not None and low < from_ms <= high:
        low = from_ms
    if to_ms is not None and low <= to_ms < high:
        high = to_ms
    return low, high


def _second_round(one: _Case, low: int, high: int) -> Start:
    """The start of a second round: members that gave partitions up join again at once."""
    at_ms = one.before.at_ms
    soon_ms = at_ms + SOON_MS + one.heard_ms
    if low > soon_ms:
        return Start(at_ms, low, high)
    gave_up = [member for member in one.before.members if member.owned > member.assigned]
    parted = [one.before.activity[each.member_id].last_ms for each in gave_up if each.member_id in one.before.activity]
    since_ms = min((ms for ms in parted if at_ms <= ms <= soon_ms), default=None)
    likely_ms = at_ms + _AT_ONCE_MS if since_ms is None else since_ms + (since_ms - at_ms) // 4 + _FAREWELL_MS
    return Start(at_ms, min(likely_ms, high), max(min(high, soon_ms), min(likely_ms, high)), is_seen=True)


def _after_leaving(one: _Case, first: Gone, low: int, high: int, heartbeats: HeartbeatHabits) -> Start:
    """The start if the first member left. It commits just before, if that is its habit."""
    last_ms, beat_ms = last_life_ms(one.before, first.member), _beat_ms(one, first.member)
    if first.when_ms is not None and first.when_ms > last_ms:
        # the member did not poll in time. Its client may have continued to commit for an interval, or stopped an
        # interval before
        out_ms = first.when_ms
        if beat_ms is None:
            return one.between(*_narrowed(low, high, out_ms, None))
        low, high = _narrowed(low, high, out_ms - _late_ms(beat_ms), out_ms + _late_ms(beat_ms) + _LOOKED_MS)
        return Start(low, min(max(out_ms + beat_ms // 2, low), high), high)
    if last_ms + _MAX_FAREWELL_MS < low or last_ms > high:
        return _between(one, low, high, heartbeats)
    is_off = is_off_beat(one.before, first.member, one.habits)
    low = max(low, last_ms)
    if first.member.member_id in one.before.activity and (is_off or heartbeats.parts):
        likely_ms = min(max(last_ms + _farewell_ms(one, last_ms), low), high)
        at_most_ms = min(high, last_ms + _MAX_FAREWELL_MS + one.heard_ms)
        if is_off is False and heartbeats.parting <= _HABIT and beat_ms is not None:
            at_most_ms = max(at_most_ms, min(high, last_ms + _late_ms(beat_ms)))
        return Start(
            low, likely_ms, max(at_most_ms, likely_ms), is_seen=is_off is not False or heartbeats.parting > _HABIT
        )
    return _between(
        one, *_narrowed(low, high, None, None if beat_ms is None else last_ms + _late_ms(beat_ms)), heartbeats
    )


def _farewell_ms(one: _Case, last_ms: int) -> int:
    """The time from a member's last commit to its LeaveGroup. If all leave at once, the last one shows this time."""
    if survivors(one.before, one.after) or one.verdict.joined:
        return _FAREWELL_MS
    end_ms = one.after.joined_ms
    final_ms = max(last_life_ms(one.before, member) for member in one.before.members)
    return min(max(end_ms - final_ms, _FAREWELL_MS), max(end_ms - last_ms, 0) // 2)


def _between(one: _Case, low: int, high: int, heartbeats: HeartbeatHabits) -> Start:
    """The start if all members that stayed saw it within one heartbeat.

    Members that got their partitions at the same time send their heartbeats at the same times. So all members see the
    rebalance at once, at any time within a heartbeat interval after its start.
    """
    end_ms, waited = one.after.joined_ms, waited_for(one.before, one.after, one.verdict)
    if survivors(one.before, one.after):
        if waited:
            return Start(low, (low + high) // 2, high)
        found = one.between(low, high, heartbeats.likely_ms(one.session_ms))
        if one.verdict.joined and one.formed_ms is not None and end_ms - one.formed_ms <= _FORMING_MS:
            return found._replace(likely_ms=max(min(one.before.at_ms + _TOGETHER_MS, found.likely_ms), low))
        return found
    if waited or one.verdict.joined:
        longest_ms = max(member.session_timeout_ms for member in one.before.members)
        # if all members returned under new ids, the group waited for their old sessions to end
        low = max(low, min(end_ms - longest_ms - SLACK_MS, high))
        return Start(low, low + (high - low) // _BACK, high)
    # a member that stayed would have returned, or the group would have waited for the end of its session
    return Start(max(low, min(end_ms - one.session_ms - SLACK_MS, high)), high, high)


def waited_for(before: State, after: State, verdict: Verdict) -> bool:
    """Did the rebalance wait for more than heartbeats: for a dead member's session, or because of failed attempts?"""
    died = any(each.how == EXPIRED for each in verdict.gone)
    return (
        after.generation > before.generation + 1
        or any(each.in_join_phase for each in verdict.gone)
        or (died and (bool(verdict.joined) or verdict.cause != events.SESSION_EXPIRED))
    )


def _died_ms(one: _Case) -> int | None:
    """The last sign of life of the dead member that fell silent first."""
    alive = [last_life_ms(one.before, each.member) for each in one.verdict.gone if each.how == EXPIRED]
    return min(alive, default=None)


def _beat_ms(one: _Case, member: Member) -> int | None:
    activity = one.before.activity.get(member.member_id)
    return (activity and activity.gap_ms) or one.before.usual_ms() or one.habits.usual_ms


def last_life_ms(before: State, member: Member) -> int:
    """The last sign of life of a member: its last commit, or when it got its partitions."""
    activity = before.activity.get(member.member_id)
    return before.at_ms if activity is None else activity.last_ms
