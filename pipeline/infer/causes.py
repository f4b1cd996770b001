"""Why a group rebalanced, from its records and commits alone: a pure function of two states in a row.

The offsets log does not say why. It says who was a member before and after, and what each member subscribed to and got.
It also says when the join phase ended, when the assignment was complete, and when each partition was committed. The
rules, and how sure each rule is, are in docs/dev/pipeline-inference.md. This module does not know Spark, and does not
know how states are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from muster.coordinator.groups.common import events
from muster.pipeline.infer.departures import EXPIRED, LEFT, REPLACED, SWIFT_MS, Gone, began, departures, is_overdue
from muster.pipeline.infer.evidence import Habits, Member, State

_SOON_MS: Final = 10_000
"""If each member itself checks for new partitions, the others see them within this time after the first member."""
_GUESS: Final = 0.6
"""An inference with a certainty below this is hardly more than a guess."""
_FAR: Final = 3
"""If the generations of two states differ by more than this, records are missing. Otherwise the generations between
were failed attempts.
"""


class Verdict(NamedTuple):
    """The inferred cause and circumstances of one rebalance."""

    cause: str | None
    trigger: Member | None
    certainty: float
    gone: tuple[Gone, ...] = ()
    joined: tuple[Member, ...] = ()
    is_second_round: bool = False
    """Whether this is the second round of a cooperative rebalance: members join again after they gave partitions up."""


class Inference(NamedTuple):
    """The result of a rule: a cause, the member that was the trigger, and how certain both are."""

    cause: str
    trigger: Member | None
    certainty: float


class _Change:
    """Two states in a row, and the facts about them that the rules use."""

    def __init__(self, before: State, after: State, habits: Habits) -> None:
        self.before = before
        self.after = after
        self.habits = habits
        self.had = {member.key: member for member in before.members}
        self.has = {member.key: member for member in after.members}
        self.new = [member for member in after.members if member.key not in self.had]
        self.gone = departures(before, after, habits)
        self.stayed = [member for member in before.members if member.key in self.has]
        self.back = [one for one in self.stayed if self.has[one.key].member_id != one.member_id]
        """Static members that returned under another member id, as they were in the state before."""
        self.leader = next((member for member in before.members if member.member_id == before.leader), None)
        self.attempts = after.generation - before.generation


_Rule = Callable[[_Change], Inference | None]


def judge(before: State, after: State, habits: Habits) -> Verdict:
    """Why the group went from `before` to `after`."""
    change = _Change(before, after, habits)
    cause, trigger, certainty = _infer(change)
    if change.attempts > 1:
        certainty *= 0.85 if change.attempts <= _FAR else 0.4
    replaced = (Gone(one, REPLACED, None, 1.0) for one in change.back)
    gone = (*change.gone, *replaced)
    return Verdict(cause, trigger, round(certainty, 3), gone, tuple(change.new), _is_second_round(change))


def _infer(change: _Change) -> Inference:
    if _is_second_round(change):
        return Inference(events.METADATA_CHANGED, _gave_up(change.before), 0.8 if change.gone or change.new else 0.9)
    parted = [one for one in change.gone if one.member.member_id in change.before.parted]
    if parted:
        return _departed(parted)
    if change.gone and change.new:
        return _first_of(_EXCHANGED, change)
    if change.gone:
        return _subscription_and_deaths(change) or _departed(change.gone)
    if change.new:
        return Inference(events.NEW_MEMBER, _first_new(change), 0.97 if len(change.new) == 1 else 0.95)
    if not change.had and not change.has:
        # a member joined, and left again before a generation had it
        return Inference(events.NEW_MEMBER, None, 0.7)
    return _first_of(_SAME_MEMBERS, change)


def _first_of(rules: Sequence[_Rule], change: _Change) -> Inference:
    return next(inference for rule in rules if (inference := rule(change)) is not None)


# ---- members joined, or are missing


def _first_new(change: _Change) -> Member:
    """The new member that joined first.

    In a group that was empty, the first member is the leader. In other groups nobody knows which member joined first.
    """
    leader = next((one for one in change.new if one.member_id == change.after.leader), change.new[0])
    return change.new[0] if change.had else leader


def _departed(gone: Sequence[Gone]) -> Inference:
    """Members are missing and no member joined. The member that left first is the trigger."""
    first = min(gone, key=lambda one: (one.in_join_phase, one.when_ms is None, one.when_ms or 0))
    cause = events.SESSION_EXPIRED if first.how == EXPIRED else events.LEFT
    mixed = any(one.how != first.how for one in gone)
    return Inference(cause, first.member, first.certainty * (0.8 if mixed else 1))


def _subscription_and_deaths(change: _Change) -> Inference | None:
    """A member subscribes to other topics, and other members died.

    The change of the subscription alone begins a rebalance, so the others died during the rebalance.
    """
    if any(one.how == LEFT for one in change.gone):
        return None
    inference = _subscription_changed(change)
    return None if inference is None else inference._replace(certainty=0.75)


# ---- some members joined and others are missing: the first rule that applies decides


def _joined_during_rebalance(change: _Change) -> Inference | None:
    """A generation is missing between the states: the new member made the rebalance start again."""
    return Inference(events.NEW_MEMBER, change.new[0], 0.8) if change.attempts > 1 else None


def _removed_at_once(change: _Change) -> Inference | None:
    """The coordinator was away, and removed silent members as soon as it was back. Meanwhile the members join again."""
    first = next((one for one in change.gone if one.while_away and not one.in_join_phase), None)
    return (
        None if first is None or not change.stayed else Inference(events.SESSION_EXPIRED, first.member, first.certainty)
    )


def _joined_before_all_left(change: _Change) -> Inference | None:
    """No member of the state before is left. If all had left first, the log would have a record of the empty group."""
    if change.stayed:
        return None
    if len(change.gone) == 1:
        return Inference(events.NEW_MEMBER, change.new[0], 0.9)
    left = [one.certainty for one in change.gone if one.how == LEFT]
    if any(certainty >= _GUESS for certainty in left):
        return None
    # for example, all members return under new ids after the broker was away
    return Inference(events.NEW_MEMBER, change.new[0], 0.55 if left else 0.7)


def _left_first(change: _Change) -> Inference | None:
    left = [one for one in change.gone if one.how == LEFT]
    if not left:
        return None
    processes = {member.process for member in change.new}
    back = [one for one in left if one.member.process in processes]
    if not back and processes <= set(change.habits.away):
        return None  # in a rolling restart, one member returns before the next one leaves
    first = min(back or left, key=lambda one: (one.when_ms is None, one.when_ms or 0))
    return Inference(events.LEFT, first.member, first.certainty * (0.9 if back else 0.75))


def _expired_first(change: _Change) -> Inference | None:
    expired = [one for one in change.gone if one.how == EXPIRED and not one.in_join_phase]
    first = min(expired, key=lambda one: one.when_ms or 0, default=None)
    if first is None or not _session_ended_first(change, first):
        return None
    return Inference(events.SESSION_EXPIRED, first.member, first.certainty * 0.8)


def _replaced_dead_process(change: _Change) -> Inference | None:
    """A new process joined in place of a dead process, before the session of the dead one had ended."""
    return Inference(events.NEW_MEMBER, change.new[0], 0.8)


_EXCHANGED: Final = (
    _removed_at_once,
    _joined_during_rebalance,
    _joined_before_all_left,
    _left_first,
    _expired_first,
    _replaced_dead_process,
)


def _session_ended_first(change: _Change, first: Gone) -> bool:
    """Had the session of the first expired member ended before a new member joined?"""
    before, after, habits = change.before, change.after, change.habits
    session_ms = first.member.session_timeout_ms
    beat_ms = before.usual_ms() or habits.usual_ms or session_ms
    if first.when_ms is None or 3 * beat_ms > session_ms:
        return False  # the member may have lived for long after its last commit
    if before.is_cooperative:
        # if a new member had joined first, the join phase would have ended with the session
        return after.joined_ms - first.when_ms > beat_ms + SWIFT_MS
    began_ms = began(before, after, habits)
    return began_ms is not None and began_ms >= first.when_ms


# ---- the same members as before: the first rule that applies decides


def _static_member_back(change: _Change) -> Inference | None:
    if not change.back:
        return None
    # a static member that returns in time gets its partitions without a rebalance
    late = [one for one in change.back if is_overdue(change.before, change.after, one)]
    if late:
        return Inference(events.SESSION_EXPIRED, late[0], 0.6)
    return Inference(events.STATIC_MEMBER_BACK, change.has[change.back[0].key], 0.85)


def _subscription_changed(change: _Change) -> Inference | None:
    changed = [
        one for one in change.after.members if one.key in change.had and one.topics != change.had[one.key].topics
    ]
    if len(changed) == len(change.stayed) > 1 and change.after.topics > change.before.topics:
        # nobody gives all processes a new subscription at one moment: their pattern found a topic
        return Inference(events.PARTITIONS_CHANGED, None, 0.75)
    return Inference(events.SUBSCRIPTION_CHANGED, changed[0], 0.95 if len(changed) == 1 else 0.85) if changed else None


def _partitions_changed(change: _Change) -> Inference | None:
    """A subscribed topic has more partitions than ever before, or has none any more."""
    before, counts = change.before, change.after.counts
    grown = any(counts[topic] > change.habits.counts.get(topic, 0) for topic in counts if topic in before.topics)
    # a cooperative leader withholds partitions that members must give up first
    gone = not before.is_cooperative and any(one in before.topics and one not in counts for one in before.counts)
    return Inference(events.PARTITIONS_CHANGED, change.leader, 0.95) if grown or gone else None


def _partitions_lost(change: _Change) -> Inference | None:
    """A cooperative member reports fewer partitions than it got."""
    if not change.after.is_cooperative:
        return None
    lost = next((one for one in change.after.members if one.owned < change.had[one.key].assigned), None)
    return None if lost is None else Inference(events.METADATA_CHANGED, lost, 0.7)


def _metadata_checked_again(change: _Change) -> Inference | None:
    """The leader of a cooperative group withheld partitions. Or a topic grew, and others see that a little later."""
    before, after = change.before, change.after
    if not before.is_cooperative:
        return None
    others_look = len(after.members) > 1 and after.joined_ms - before.at_ms <= _SOON_MS
    if not _withheld(before, change.habits) and not (change.habits.has_grown and others_look):
        return None
    return Inference(events.METADATA_CHANGED, _gave_up(before), 0.9)


def _other_metadata(change: _Change) -> list[Member]:
    return [one for one in change.after.members if one.metadata != change.had[one.key].metadata]


def _metadata_changed(change: _Change) -> Inference | None:
    """Members send other metadata. A follower is a likelier trigger than the leader.

    A consumer that leads its group makes a rebalance by any join, whatever its metadata.
    """
    changed = _other_metadata(change)
    leader = change.leader
    follower = next((one for one in changed if leader is None or one.key != leader.key), None)
    of_consumers = any(member.topics is not None for member in change.after.members)
    trigger = follower or (changed[0] if changed and not of_consumers else None)
    return None if trigger is None else Inference(events.METADATA_CHANGED, trigger, 0.7)


def _leader_rejoined(change: _Change) -> Inference | None:
    return Inference(events.LEADER_REJOINED, change.leader, 0.7 if _other_metadata(change) else 0.85)


_SAME_MEMBERS: Final = (
    _static_member_back,
    _subscription_changed,
    _partitions_changed,
    _partitions_lost,
    _metadata_checked_again,
    _metadata_changed,
    _leader_rejoined,
)


# ---- the second round of a cooperative rebalance


def _is_second_round(change: _Change) -> bool:
    """Did members join again at once after they gave partitions up? Other members may join or leave meanwhile."""
    gave_up = _gave_up(change.before)
    if gave_up is None or not change.before.is_cooperative or not _withheld(change.before, change.habits):
        return False
    return change.attempts == 1 and gave_up.key in change.has


def _withheld(state: State, habits: Habits) -> bool:
    return any(state.counts.get(topic, 0) < habits.counts.get(topic, 0) for topic in state.topics)


def _gave_up(state: State) -> Member | None:
    """The member that reported more partitions than it was assigned. It joins again when it has given the others up."""
    return next((member for member in state.members if member.owned > member.assigned), None)
