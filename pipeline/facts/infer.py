"""Why a group rebalanced, from its records and commits alone: a pure function of two states in a row.

Nothing in the offsets log says why. What it does say: who was there before and after, what each subscribed to and was
given, when the join phase ended and the assignment was there, and when who committed. The rules, and what each one is
worth, stand in docs/pipeline.md. Knows no Spark, and nothing of how states are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from muster.coordinator.groups.common import events
from muster.pipeline.facts.infer_departures import EXPIRED, LEFT, REPLACED, Gone, began, departures, is_overdue
from muster.pipeline.facts.infer_evidence import Member, State, rested_ms
from muster.pipeline.facts.infer_habits import Habits

_SWIFT_MS: Final = 300
"""A join phase that is over as soon as somebody is given up."""
_SOON_MS: Final = 10_000
"""Members that look for new partitions themselves see them not much later than the first one."""
_GUESS: Final = 0.6
"""What is less certain than that is little more than a guess."""
_FAR: Final = 3
"""A generation further than that from the one before: records are missing, not attempts."""


class Verdict(NamedTuple):
    """What is thought of one rebalance."""

    cause: str | None
    trigger: Member | None
    start_ms: int
    certainty: float
    gone: tuple[Gone, ...] = ()
    joined: int = 0


Told = tuple[str, Member | None, float]
"""Cause, trigger, certainty."""


def judge(before: State, after: State, habits: Habits) -> Verdict:
    """Why `after` came of `before`."""
    had = {member.key: member for member in before.members}
    has = {member.key: member for member in after.members}
    new = [member for member in after.members if member.key not in had]
    gone = departures(before, after, habits)
    replaced = [
        Gone(one, REPLACED, None, 1.0)
        for one in before.members
        if one.key in has and has[one.key].member_id != one.member_id
    ]
    if _second_round(before, after, habits):
        told = events.METADATA_CHANGED, _gave_up(before), 0.9 if not (gone or new) else 0.8
    elif gone and new:
        told = _exchanged(before, after, gone, new, habits)
    elif gone:
        told = _departed(gone)
    elif new:
        told = events.NEW_MEMBER, _first_of(new, before, after), 0.97 if len(new) == 1 else 0.95
    elif not before.members and not after.members:
        # somebody came, and was gone before there was a generation with it
        told = events.NEW_MEMBER, None, 0.7
    else:
        told = _same_members(before, after, habits, [one.member for one in replaced])
    cause, trigger, certainty = told
    attempts = after.generation - before.generation
    if attempts > 1:
        certainty *= 0.85 if attempts <= _FAR else 0.4
    start_ms = _start_ms(before, after, cause, next((one for one in gone if one.member is trigger), None))
    return Verdict(cause, trigger, start_ms, round(certainty, 3), (*gone, *replaced), len(new))


# ---- other members than before


def _first_of(new: Sequence[Member], before: State, after: State) -> Member:
    """Who of the newcomers came first. An empty group is led by its first member; else nothing tells it."""
    leads = next((member for member in new if member.member_id == after.leader), new[0])
    return new[0] if before.members else leads


def _departed(gone: Sequence[Gone]) -> Told:
    """Nobody came: who went first?"""
    first = min(gone, key=lambda one: (one.in_join_phase, one.when_ms is None, one.when_ms or 0))
    cause = events.SESSION_EXPIRED if first.how == EXPIRED else events.LEFT
    mixed = any(one.how != first.how for one in gone)
    return cause, first.member, first.certainty * (0.8 if mixed else 1)


def _exchanged(before: State, after: State, gone: Sequence[Gone], new: Sequence[Member], habits: Habits) -> Told:
    """Some went and others came in one rebalance: which of it began it?"""
    stayed = len(before.members) > len(gone)
    if after.generation - before.generation > 1:
        # the newcomer made the group begin again
        return events.NEW_MEMBER, new[0], 0.8
    left = [one for one in gone if one.how == LEFT]
    if not stayed and len(gone) == 1:
        # had the only member gone first, there would be the record of an empty group
        return events.NEW_MEMBER, new[0], 0.9
    if not stayed and all(one.certainty < _GUESS for one in left):
        # nor did all of them go first; they come back under new ids when the broker was away, say
        return events.NEW_MEMBER, new[0], 0.7 if not left else 0.55
    if left:
        processes = {member.process for member in new}
        back = [one for one in left if one.member.process in processes]
        first = min(back or left, key=lambda one: (one.when_ms is None, one.when_ms or 0))
        return events.LEFT, first.member, first.certainty * (0.9 if back else 0.75)
    expired = [one for one in gone if one.how == EXPIRED and not one.in_join_phase]
    if expired:
        first = min(expired, key=lambda one: one.when_ms or 0)
        if _was_missed(before, after, first, habits):
            return events.SESSION_EXPIRED, first.member, first.certainty * 0.8
    # a new process that takes the place of one that was killed, before its session had run out
    return events.NEW_MEMBER, new[0], 0.8


def _was_missed(before: State, after: State, first: Gone, habits: Habits) -> bool:
    """Was the session of the first that expired over before somebody came?"""
    session_ms = first.member.session_timeout_ms
    beat_ms = before.usual_ms() or habits.usual_ms or session_ms
    if first.when_ms is None or 3 * beat_ms > session_ms:
        return False  # it may have lived on for long after its last commit
    if before.is_cooperative:
        # had somebody come before, the end of the session would have been all that was waited for
        return after.joined_ms - first.when_ms > beat_ms + _SWIFT_MS
    began_ms = began(before, after, habits)
    return began_ms is not None and began_ms >= first.when_ms


# ---- the same members as before


def _same_members(before: State, after: State, habits: Habits, back: Sequence[Member]) -> Told:
    had = {member.key: member for member in before.members}
    has = {member.key: member for member in after.members}
    if back:
        # one that comes back in time is given its partitions without a rebalance
        late = [one for one in back if is_overdue(before, after, one)]
        return (events.SESSION_EXPIRED, late[0], 0.6) if late else (events.STATIC_MEMBER_BACK, has[back[0].key], 0.85)
    leader = next((member for member in before.members if member.member_id == before.leader), None)
    changed = [member for member in after.members if member.topics != had[member.key].topics]
    if changed:
        return events.SUBSCRIPTION_CHANGED, changed[0], 0.95 if len(changed) == 1 else 0.85
    if _partitions_changed(before, after, habits):
        return events.PARTITIONS_CHANGED, leader, 0.95
    lost = next((member for member in after.members if member.owned < had[member.key].assigned), None)
    if after.is_cooperative and lost is not None:
        return events.METADATA_CHANGED, lost, 0.7
    others_look = len(after.members) > 1 and after.joined_ms - before.at_ms <= _SOON_MS
    if before.is_cooperative and (_withheld(before, habits) or (habits.has_grown and others_look)):
        return events.METADATA_CHANGED, _gave_up(before), 0.9
    told = [member for member in after.members if member.metadata != had[member.key].metadata]
    if told and all(member.topics is None for member in after.members):
        first = next((member for member in told if leader is None or member.key != leader.key), told[0])
        return events.METADATA_CHANGED, first, 0.7
    return events.LEADER_REJOINED, leader, 0.7 if told else 0.85


def _partitions_changed(before: State, after: State, habits: Habits) -> bool:
    """Has a topic that was subscribed to more partitions than ever before, or none any more?"""
    if any(count > habits.counts.get(topic, 0) for topic, count in after.counts.items() if topic in before.topics):
        return True
    # a cooperative leader withholds partitions that have to be given up first
    gone = [topic for topic in before.counts if topic in before.topics and topic not in after.counts]
    return bool(gone) and not before.is_cooperative


def _second_round(before: State, after: State, habits: Habits) -> bool:
    """Members join again at once when they have given partitions up, whoever comes or goes meanwhile."""
    gave_up = _gave_up(before)
    if gave_up is None or not before.is_cooperative or not _withheld(before, habits):
        return False
    return after.generation == before.generation + 1 and any(one.key == gave_up.key for one in after.members)


def _withheld(state: State, habits: Habits) -> bool:
    return any(state.counts.get(topic, 0) < habits.counts.get(topic, 0) for topic in state.topics)


def _gave_up(state: State) -> Member | None:
    """The one that had more than it has: it joins again when it has given that up."""
    return next((member for member in state.members if member.owned > member.assigned), None)


# ---- when


def _start_ms(before: State, after: State, cause: str | None, first: Gone | None) -> int:
    """When the members were told to join again, as far as can be told: between the two records."""
    end_ms = after.joined_ms
    if first is not None and first.when_ms is not None and cause in (events.LEFT, events.SESSION_EXPIRED):
        return min(max(first.when_ms, before.at_ms), end_ms)
    rest_ms, usual_ms = rested_ms(before, after), before.usual_ms()
    if rest_ms is None or usual_ms is None or end_ms - rest_ms > max(3 * usual_ms, 10_000):
        return end_ms
    return min(max(rest_ms, before.at_ms), end_ms)
