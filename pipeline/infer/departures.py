"""How the time of a missing member ended: did the member leave, or did its session expire? Pure.

The silence of the member shows that. A commit is a sign of life. A member whose session expired was silent for its
whole session timeout. A member that leaves was silent only as long as between two commits, or committed just before. If
a silence fits both, the likelihoods decide.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from muster.pipeline.defaults import HEARTBEAT_MS
from muster.pipeline.infer.evidence import JOIN_MS, Activity, Habits, Member, State, committed, rested_ms, survivors
from muster.pipeline.infer.silenced import is_too_soon, removal

LEFT: Final = "left"
EXPIRED: Final = "expired"
REPLACED: Final = "replaced"
"""The ways in which a member's time in the group ends."""

_SLACK: Final = 0.99
"""This share of a timeout counts as the whole timeout: the clocks of a coordinator's threads differ a little."""
_POLLS_AMONG_LEAVES: Final = 0.1
"""Of the members that leave, the share that leaves because the application has not polled for too long."""
_SHORT_POLLS_AMONG_LEAVES: Final = 0.85
"""The same share, if the maximum time between two polls is below _SHORT_POLL_MS."""
_SHORT_POLL_MS: Final = 120_000
_TWO_SLOW: Final = 0.2
"""Of the missing members that polled too slowly, the share that is missing together with other members."""
SWIFT_MS: Final = 300
"""A join phase ends within this time after the coordinator removed the last missing member."""
_AWAY: Final = 3
"""A silence of this many usual intervals, and of a whole session, means that the coordinator was away."""
_STATIC_LEAVES: Final = 0.05
"""Of the missing static members, the share that left: an operator removed them, or their clients are set to leave."""
_OVERDUE: Final = 1.2
"""If no member commits for this many usual intervals, that is not by chance."""
_AT_ONCE_MS: Final = 1_000
"""A member that has given its partitions up joins again within this time."""
_EXACT_MS: Final = 60
_TO_THE_MS: Final = 10.0
"""The factor for the likelihood of an expired session that ended, to the ms, with the join phase.

Then it is hardly a coincidence that the session is counted from the last commit.
"""
_BY_SILENCE: Final = 0.85
"""How sure it is that a silence of all groups ended a session. The member may have left meanwhile."""
_HARDLY: Final = 0.55
"""How sure it is that a member left just after a silence. Perhaps the coordinator had stood still."""
_IDLE_MS: Final = 120_000
"""Clients that have something to commit seldom wait for longer."""
_NEVER: Final = 0.01
"""The probability of an event that is nearly impossible."""


class Gone(NamedTuple):
    """A missing member, and how its time in the group ended."""

    member: Member
    how: str
    when_ms: int | None
    """When the member left or was removed, as far as the log shows; None: not known."""
    certainty: float
    in_join_phase: bool = False
    """Whether the rebalance had already begun when the member's session expired."""
    while_away: bool = False
    """Whether the session ended while the coordinator was away. When back, the coordinator removed the member."""


def departures(before: State, after: State, habits: Habits) -> list[Gone]:
    """How the time of each member ended that is in `before` and not in `after`."""
    if before.ends_ms is not None:
        # the commits of these members end with the record that began the rebalance
        after = after._replace(joined_ms=before.ends_ms)
    stayed = {member.key for member in after.members}
    went = [member for member in before.members if member.key not in stayed]
    came = len(after.members) > len(before.members) - len(went)
    # if several members left, the one that fell silent first may have left first. The rebalance waited for the others
    first = min(went, key=lambda one: _alive_ms(before, one) + one.session_timeout_ms, default=None)
    several = len(went) > 1
    return [departure(before, after, member, habits, came or member is not first, several) for member in went]


def departure(before: State, after: State, member: Member, habits: Habits, came: bool, several: bool = False) -> Gone:
    """How the time of `member` ended, which is in `before` and not in `after`.

    `came`: other members joined, or left before. So they may have begun the rebalance, which then waited for this
    member's session. `several`: other members are missing too.
    """
    session_ms = round(member.session_timeout_ms * _SLACK)
    by_silence = removal(habits.silences, before.at_ms, _alive_ms(before, member), after.joined_ms, session_ms)
    if by_silence is not None:
        # a frozen coordinator ends sessions at once. With another one, a join phase that ends with a session had begun
        ended = [one for one in habits.silences if one.until_ms <= by_silence]
        waited = came and bool(ended) and not ended[-1].is_frozen and after.joined_ms - by_silence <= SWIFT_MS
        return Gone(member, EXPIRED, by_silence, _BY_SILENCE, in_join_phase=waited, while_away=True)
    if after.joined_ms - _alive_ms(before, member) < session_ms:
        return Gone(member, LEFT, _last_commit_ms(before, member), 0.97)
    # a coordinator that stood still ends the sessions of all members
    if after.members and is_too_soon(habits.silences, _alive_ms(before, member), after.joined_ms, session_ms):
        return Gone(member, LEFT, None, _HARDLY)
    if back_ms(before, member) is not None:
        when_ms = _alive_ms(before, member) + member.session_timeout_ms
        return Gone(member, EXPIRED, when_ms, 0.85, while_away=True)
    beat_ms = _beat_ms(before, member, habits)
    by_others = _by_those_that_stayed(before, after, member, habits, beat_ms, came, several)
    if by_others is not None:
        return by_others
    if came and _was_waited_for(before, after, habits):
        return _expired_meanwhile(before, member, 0.8)
    return _most_likely(before, after, member, habits, beat_ms, several)


def back_ms(before: State, member: Member) -> int | None:
    """When the coordinator was surely back, if it was away when `member` fell silent; None: it was not away.

    The coordinator was away if other members were silent for longer than a session, and then continued.
    """
    session_ms, alive_ms = member.session_timeout_ms * _SLACK, _alive_ms(before, member)
    others = (one for name, one in before.activity.items() if name != member.member_id)
    back = [
        one.last_ms
        for one in others
        if (one.max_gap_ms or 0) >= max(session_ms, _AWAY * (one.gap_ms or 0)) and one.last_ms - alive_ms >= session_ms
    ]
    return min(back, default=None)


def _beat_ms(before: State, member: Member, habits: Habits) -> int | None:
    """The usual time between two commits of `member`; None: not known."""
    activity = before.activity.get(member.member_id)
    beat_ms = (activity and activity.gap_ms) or before.usual_ms() or habits.usual_ms
    if beat_ms is None and activity is not None:
        # the member committed once. Clients commit for the first time one interval after their start
        return max(activity.first_ms - before.at_ms, 1)
    return beat_ms


def _expired_meanwhile(before: State, member: Member, certainty: float) -> Gone:
    """The session of `member` ended while the group waited for this member."""
    end_ms = _alive_ms(before, member) + member.session_timeout_ms
    return Gone(member, EXPIRED, end_ms, certainty, in_join_phase=True)


def _by_those_that_stayed(
    before: State, after: State, member: Member, habits: Habits, beat_ms: int | None, came: bool, several: bool
) -> Gone | None:
    """How the member ended, if the other members had stopped working before the member's session could have ended."""
    alive_ms, session_ms = _alive_ms(before, member), member.session_timeout_ms
    began_ms = began(before, after, habits, came or several)
    if began_ms is None or beat_ms is None or began_ms - alive_ms >= session_ms * _SLACK:
        return None
    rest_ms = rested_ms(before, after) or began_ms
    overtaken = after.generation > before.generation + 1 and after.joined_ms - rest_ms >= session_ms * _SLACK
    if overtaken or (came and after.joined_ms - alive_ms <= session_ms + beat_ms + JOIN_MS):
        # the group waited for this member. If it joined again meanwhile, the group waited until its new session ended
        return _expired_meanwhile(before, member, 0.85)
    heard_ms = began_ms - alive_ms - 3 * beat_ms
    is_clear = began_ms - alive_ms + beat_ms < session_ms * _SLACK
    if heard_ms <= (HEARTBEAT_MS if is_clear else 0):
        return Gone(member, LEFT, _last_commit_ms(before, member), 0.75)
    return None


def _most_likely(
    before: State, after: State, member: Member, habits: Habits, beat_ms: int | None, several: bool
) -> Gone:
    """How the member ended, by the likelihood of each possibility."""
    alive_ms = _alive_ms(before, member)
    silent_ms = after.joined_ms - alive_ms
    parts = _parts_with_commit(before, after, habits)
    if beat_ms is not None and _silent_without_cause(before, after, member, beat_ms):
        parts = 0.0
    to_the_ms = 0 <= silent_ms - member.session_timeout_ms <= _EXACT_MS
    if not to_the_ms and had_ended(before, after, alive_ms, before.usual_ms() or habits.usual_ms):
        parts, beat_ms = min(parts, 0.5), None
    left, expired, polls = _likelihoods(before, member, parts, silent_ms, beat_ms, commits=habits.commits)
    if several:
        polls *= _TWO_SLOW
    total = left + expired + polls
    if expired >= left + polls:
        return Gone(member, EXPIRED, alive_ms + member.session_timeout_ms, expired / total)
    when_ms = alive_ms + member.rebalance_timeout_ms if polls > left else None
    return Gone(member, LEFT, when_ms, (left + polls) / total)


def _last_commit_ms(before: State, member: Member) -> int | None:
    activity = before.activity.get(member.member_id)
    return None if activity is None else activity.last_ms


def _alive_ms(before: State, member: Member) -> int:
    activity = before.activity.get(member.member_id)
    # without a commit, its last sign of life is its SyncGroup
    return before.at_ms if activity is None else activity.last_ms


def is_overdue(before: State, after: State, member: Member) -> bool:
    """Was the member silent for so long that its session ended?"""
    return after.joined_ms - _alive_ms(before, member) >= member.session_timeout_ms * _SLACK


def began(before: State, after: State, habits: Habits, waits: bool = False) -> int | None:
    """The latest time at which the members that stayed stopped working; None: their commits do not show it.

    The commits show nothing if these members commit neither often nor when they give partitions up. Members of
    cooperative groups continue to commit while they join. They are silent only during a join phase that waits for
    another member, because others joined or left (`waits`).
    """
    stayed = committed(before, after)
    if not stayed or (before.is_cooperative and not waits):
        return None
    final = max(stayed, key=lambda one: one.last_ms)
    is_habit = habits.commits_at_parting > 0.8 and _parted(final, after)
    if not before.is_cooperative and (is_habit or all(one.is_off_beat for one in stayed)):
        return final.last_ms
    longest = [one.max_gap_ms for one in stayed if one.max_gap_ms is not None]
    rest_ms = min(longest, default=before.usual_ms() or habits.usual_ms)
    sessions = [member.session_timeout_ms for member in before.members]
    if rest_ms is None or rest_ms >= min(sessions):
        return None
    began_ms = final.last_ms + rest_ms
    # no join phase takes that long, so these members had nothing more to commit
    return None if after.joined_ms - began_ms > max(sessions) + JOIN_MS else began_ms


def _was_waited_for(before: State, after: State, habits: Habits) -> bool:
    """Did the join phase continue after all members that stayed had given up their partitions?

    If so, it waited for a dead member.
    """
    stayed = survivors(before, after)
    commits = committed(before, after)
    if before.is_cooperative or habits.commits_at_parting <= 0.8 or not stayed or len(commits) < len(stayed):
        return False
    gave_up = [one.last_ms for one in commits if _parted(one, after)]
    return len(gave_up) == len(stayed) and after.joined_ms - max(gave_up) > _AT_ONCE_MS


def _silent_without_cause(before: State, after: State, member: Member, beat_ms: int) -> bool:
    """Was the member silent for longer than its death explains? If so, it had nothing to commit at all."""
    rest_ms = rested_ms(before, after) if survivors(before, after) else after.joined_ms
    longest_ms = member.session_timeout_ms + 3 * beat_ms + JOIN_MS
    return rest_ms is not None and rest_ms - _alive_ms(before, member) > longest_ms


def had_ended(before: State, after: State, alive_ms: int, usual_ms: int | None) -> bool:
    """Had the members that stayed fallen silent as early as a member whose last sign of life was at `alive_ms`?

    If so, they had nothing more to commit: librdkafka commits only new offsets. If no member stayed, the question is:
    had no member committed at all?
    """
    if usual_ms is None or _some_parted(before, after):
        return False
    stayed = [member for member in survivors(before, after) if member.assigned]
    if not stayed:
        return not before.activity and after.joined_ms - before.at_ms > _OVERDUE * usual_ms
    rest_ms = rested_ms(before, after)
    rest_ms = before.at_ms if rest_ms is None else rest_ms
    return rest_ms <= alive_ms + usual_ms and after.joined_ms - rest_ms > _OVERDUE * usual_ms


def _parted(activity: Activity, after: State) -> bool:
    """Did the member probably make its last commit because it gave partitions up?"""
    return activity.is_off_beat or after.joined_ms - activity.last_ms <= JOIN_MS


def _some_parted(before: State, after: State) -> bool:
    return not before.is_cooperative and any(_parted(one, after) for one in committed(before, after))


def _parts_with_commit(before: State, after: State, habits: Habits) -> float:
    """The probability that a member commits just before it leaves.

    It is the habit of the group. It is lower if the members that stayed did not commit when they gave partitions up.
    """
    if before.is_cooperative or not survivors(before, after) or _some_parted(before, after):
        return habits.commits_at_parting
    return min(habits.commits_at_parting, 0.5)


def _likelihoods(
    before: State, member: Member, parts: float, silent_ms: int, beat_ms: int | None, *, commits: bool
) -> tuple[float, float, float]:
    """The likelihoods that the member left, that its session expired, and that it left because it did not poll.

    Each likelihood is weighted with how often such an end occurs. `parts`: the probability that members commit just
    before they leave.
    """
    leaves = _STATIC_LEAVES if member.instance_id is not None else 0.55
    if not member.assigned:
        return leaves, 1 - leaves, 0.0
    parting = 1.0 - parts
    is_short = _has_polls(member) and member.rebalance_timeout_ms < _SHORT_POLL_MS
    slow = _SHORT_POLLS_AMONG_LEAVES if is_short else _POLLS_AMONG_LEAVES
    if beat_ms is None:
        # no member commits regularly. A member may still commit when it leaves, unless it has lost its partitions
        polls = 1.0 if _has_polls(member) and silent_ms >= member.rebalance_timeout_ms * _SLACK else 0.0
        # if nobody commits for a long time, nobody has anything to commit
        known = parting if silent_ms <= _IDLE_MS and commits else min(2 * parting, 1)
        return leaves * max(known, _NEVER), 1 - leaves, leaves * slow * polls
    left = max(parting, _NEVER) * (
        1 / beat_ms if _is_usual(before, member, silent_ms) else _density(silent_ms, beat_ms)
    )
    over_ms = silent_ms - member.session_timeout_ms
    expired = _density(over_ms, beat_ms) * (_TO_THE_MS if 0 <= over_ms <= _EXACT_MS else 1)
    polls = _density(silent_ms - member.rebalance_timeout_ms * _SLACK, beat_ms) if _has_polls(member) else 0.0
    return leaves * (1 - slow) * left, (1 - leaves) * expired, leaves * slow * polls


def _has_polls(member: Member) -> bool:
    """Is the member's rebalance timeout its max.poll.interval.ms?

    Clients without this setting (aiokafka) send the session timeout.
    """
    return member.rebalance_timeout_ms != member.session_timeout_ms


def _density(rest_ms: float, beat_ms: int) -> float:
    """The likelihood that a regular sequence of commits ended `rest_ms` before the end of the join phase."""
    if rest_ms < -JOIN_MS / 100:
        return 0.0
    over_ms = max(rest_ms - beat_ms, 0)
    far_ms = max(over_ms - JOIN_MS / 2, 0)
    return (1 - min(over_ms / JOIN_MS, 0.5)) / (beat_ms * (1 + far_ms / beat_ms) ** 2)


def _is_usual(before: State, member: Member, silent_ms: int) -> bool:
    """Had the member been silent as long before, while it was alive, and for a tenth of that time?"""
    activity = before.activity.get(member.member_id)
    if activity is None:
        return False
    longest_ms = max(activity.first_ms - before.at_ms, activity.max_gap_ms or 0)
    return longest_ms >= silent_ms and longest_ms * 10 >= activity.last_ms - before.at_ms
