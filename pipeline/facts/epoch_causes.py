"""Why the epoch of a KIP-848 group was raised, from its records and commits alone. Pure.

The records say which members came and went, and what they subscribe to. They do not say how a member went: one that
leaves and one whose session ran out are removed by the same records. `infer_departures` tells that by how long the
member was silent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from muster.coordinator.groups.common import events
from muster.pipeline.defaults import EPOCH_HEARTBEAT_MS, EPOCH_SESSION_MS, REBALANCE_TIMEOUT_MS
from muster.pipeline.facts.epoch_values import Change, Gone, Member
from muster.pipeline.facts.infer_departures import EXPIRED, LEFT, REPLACED, departure
from muster.pipeline.facts.infer_evidence import Activity, State, joined_activity
from muster.pipeline.facts.infer_evidence import Member as Seen
from muster.pipeline.facts.infer_habits import Habits, with_parting, with_state
from muster.pipeline.facts.infer_history import NOT_KNOWN

REVOCATION_TIMEOUT: Final = "revocation_timeout"
"""A cause that classic groups do not know: a member did not give its partitions up in time."""
REMOVED: Final = "removed"
_NEARLY: Final = 0.95
"""Of a timeout: the clocks of a coordinator's threads are not quite one."""
_MS: Final = 1_000
_LEAST_SESSION_MS: Final = 6_000
"""Nobody has shorter sessions."""
_LONGEST_MS: Final = EPOCH_SESSION_MS + 3 * _MS
_BEATS: Final = 3
"""So many intervals between commits are no chance."""
_ONCE_IN: Final = 20
"""A silence that came once in so many intervals is not usual."""
_NEARLY_POLLED: Final = 0.8
_FAR: Final = 3


class Epoch(NamedTuple):
    """An epoch of a group, as it is judged."""

    number: int
    began_ms: int
    at_ms: int
    members: tuple[Member, ...]
    change: Change | None
    activity: Mapping[str, Activity]
    """What the members committed until the next one."""


class Ended(NamedTuple):
    """A member's time is over."""

    member_id: str
    how: str
    at_ms: int


class Departed(NamedTuple):
    """A member that is gone."""

    member: Member
    how: str
    at_ms: int
    heard_ms: int
    """When it was heard of last, as far as is known."""


class Raised(NamedTuple):
    """What is thought of one new epoch."""

    epoch: Epoch
    change: Change
    cause: str | None
    trigger: Member | None
    certainty: float
    ended: tuple[Ended, ...]
    departed: tuple[Departed, ...] = ()


def raised(epochs: Iterable[Epoch | None]) -> Iterator[Raised]:
    """Each new epoch of a group, in the order of the log. None among them: the group was deleted."""
    judge = _Judge()
    for epoch in epochs:
        if epoch is None:
            judge = _Judge()
            continue
        if epoch.change is not None and not epoch.change.is_conversion:
            yield judge.judge(epoch, epoch.change)
        else:
            judge.replaced(epoch)
        judge.remember(epoch)


class _Judge:
    """What is known of a group so far."""

    def __init__(self) -> None:
        self._habits = Habits()
        self._session_ms = EPOCH_SESSION_MS
        self._members: dict[str, Member] = {}
        self._activity: dict[str, Activity] = {}
        self._ended: list[Ended] = []

    def replaced(self, epoch: Epoch) -> None:
        """The same epoch goes on under other ids."""
        keys = {_key(one) for one in epoch.members}
        there = {one.member_id for one in epoch.members}
        back = [one for name, one in self._members.items() if name not in there and _key(one) in keys]
        self._ended += [Ended(one.member_id, REPLACED, epoch.began_ms) for one in back]

    def remember(self, epoch: Epoch) -> None:
        """What the commits of an epoch tell."""
        self._members = {one.member_id: one for one in epoch.members}
        for name, now in epoch.activity.items():
            then = self._activity.get(name)
            self._activity[name] = now if then is None else joined_activity(then, now)
        self._activity = {name: one for name, one in self._activity.items() if name in self._members}
        self._habits = with_state(self._habits, self._state(epoch.number, epoch.at_ms, epoch.members, epoch.activity))

    def judge(self, epoch: Epoch, change: Change) -> Raised:
        """Why was it raised?"""
        ended, self._ended = self._ended, []
        if change.before is None:
            return Raised(epoch, change, None, None, NOT_KNOWN, tuple(ended))
        departed: tuple[Departed, ...] = ()
        cause, trigger, certainty = self._same_members(epoch, change)
        if change.joined:
            there = {one.member_id: one for one in epoch.members}
            cause, trigger, certainty = events.NEW_MEMBER, there.get(change.joined[0]), 0.99
        if change.gone:
            told = self._departures(epoch, change)
            departed = tuple(
                Departed(one.member, how, one.at_ms, self._heard_ms(one, how))
                for one, (_, how, _) in zip(change.gone, told, strict=True)
            )
            ended += [Ended(one.member.member_id, one.how, one.at_ms) for one in departed]
            cause, trigger, certainty = told[0][0], change.gone[0].member, told[0][2]
        raises = epoch.number - change.before
        if raises > 1:
            certainty *= 0.85 if raises <= _FAR else 0.4
        return Raised(epoch, change, cause, trigger, certainty, tuple(ended), departed)

    def _heard_ms(self, gone: Gone, how: str) -> int:
        """When it was heard of last: by a commit or a record; or by its last heartbeat, a session before the end."""
        if gone.away_ms is not None:
            return gone.away_ms  # it said so
        known = self._activity.get(gone.member.member_id)
        known_ms = max(gone.heard_ms, known.last_ms if known is not None else 0)
        session_ms = gone.member.session_timeout_ms or self._session_ms
        return max(known_ms, gone.at_ms - session_ms) if how == EXPIRED else known_ms

    def _same_members(self, epoch: Epoch, change: Change) -> tuple[str | None, Member | None, float]:
        if change.resubscribed:
            trigger = next((one for one in epoch.members if one.member_id == change.resubscribed[0]), None)
            return events.SUBSCRIPTION_CHANGED, trigger, 0.97
        if change.topics_changed:
            return events.PARTITIONS_CHANGED, None, 0.95
        return None, None, NOT_KNOWN

    def _departures(self, epoch: Epoch, change: Change) -> list[tuple[str, str, float]]:
        """Of each one that is gone: the cause that it is, how its time ended, and how sure that is."""
        gone = {one.member.member_id: one for one in change.gone}
        members = {**self._members, **{name: one.member for name, one in gone.items()}}
        activity = {name: self._heard(gone.get(name), one) for name, one in self._activity.items()}
        before = self._state(change.before or 0, epoch.began_ms, members.values(), activity)
        after = self._state(epoch.number, epoch.began_ms, epoch.members, {})
        self._habits = with_parting(self._habits, before, after)
        return [self._departure(one, before, after) for one in change.gone]

    def _departure(self, gone: Gone, before: State, after: State) -> tuple[str, str, float]:
        if gone.away_ms is not None:
            # it stopped, said that it might come back, and did not: so long is a session
            self._session_ms = max(round((gone.at_ms - gone.away_ms) / _MS), 1) * _MS
            return events.SESSION_EXPIRED, EXPIRED, 0.97
        limit_ms = (gone.member.rebalance_timeout_ms or REBALANCE_TIMEOUT_MS) * _NEARLY
        if gone.owes_ms is not None and gone.at_ms - gone.owes_ms >= limit_ms:
            return REVOCATION_TIMEOUT, REMOVED, 0.95
        by_silence = self._by_silence(gone, before)
        if by_silence is not None:
            return by_silence
        # what it had when it was last heard of is a sign of life, too
        seen = self._seen(gone.member)
        told = departure(before._replace(at_ms=gone.heard_ms), after, seen, self._habits, came=False)
        if told.how == EXPIRED:
            return events.SESSION_EXPIRED, EXPIRED, told.certainty
        return events.LEFT, LEFT, told.certainty

    def _by_silence(self, gone: Gone, before: State) -> tuple[str, str, float] | None:
        """Sessions may be shorter than they usually are. Who is silent for several of its intervals while the others
        go on has not left: it would have committed. Nor does a static member go without saying that it will be back.
        """
        known = before.activity.get(gone.member.member_id)
        silent_ms = gone.at_ms - max(gone.heard_ms, known.last_ms if known is not None else 0)
        if gone.member.session_timeout_ms is not None or not _LEAST_SESSION_MS <= silent_ms < _LONGEST_MS:
            return None
        beat_ms = (known and known.gap_ms) or before.usual_ms() or self._habits.usual_ms
        limit_ms = gone.member.rebalance_timeout_ms or REBALANCE_TIMEOUT_MS
        if _NEARLY_POLLED * limit_ms <= silent_ms <= limit_ms + 2 * (beat_ms or 0) + _MS:
            return events.LEFT, LEFT, 0.7  # it did not poll in time
        if gone.member.instance_id is not None:
            self._learn(silent_ms, beat_ms)
            return events.SESSION_EXPIRED, EXPIRED, 0.85
        others = [one.last_ms for name, one in before.activity.items() if name != gone.member.member_id]
        if known is None or beat_ms is None or silent_ms < _BEATS * beat_ms:
            return None
        is_usual = (known.max_gap_ms or 0) >= silent_ms and known.last_ms - known.first_ms < _ONCE_IN * beat_ms
        if is_usual:
            return None
        if 2 * (gone.at_ms - max(others, default=0)) > silent_ms:
            # there was nothing to commit any more; or several died at once, just a session ago
            is_chance = not -EPOCH_HEARTBEAT_MS <= silent_ms - self._session_ms <= beat_ms + _MS
            return None if is_chance else (events.SESSION_EXPIRED, EXPIRED, 0.75)
        self._learn(silent_ms, beat_ms)
        return events.SESSION_EXPIRED, EXPIRED, 0.85

    def _learn(self, silent_ms: int, beat_ms: int | None) -> None:
        """So long is a session at most, if commits are near to each other."""
        if beat_ms is not None and _BEATS * beat_ms <= silent_ms:
            self._session_ms = min(self._session_ms, (silent_ms // _MS + 1) * _MS)

    def _heard(self, gone: Gone | None, activity: Activity) -> Activity:
        if gone is None or gone.heard_ms <= activity.last_ms:
            return activity
        return activity._replace(last_ms=gone.heard_ms)

    def _state(self, number: int, at_ms: int, members: Iterable[Member], activity: Mapping[str, Activity]) -> State:
        seen = tuple(self._seen(one) for one in members)
        return State(number, at_ms, at_ms, None, None, seen, frozenset(), {}, activity)

    def _seen(self, one: Member) -> Seen:
        count = sum(len(share.partitions) for share in one.assigned)
        # a commit is no heartbeat to these groups: the last one may come so much later than the last heartbeat, from
        # which the session is counted
        session_ms = (one.session_timeout_ms or self._session_ms) - EPOCH_HEARTBEAT_MS
        return Seen(
            one.member_id,
            one.instance_id,
            one.client_id or "",
            one.host or "",
            max(session_ms, _MS),
            one.rebalance_timeout_ms or REBALANCE_TIMEOUT_MS,
            0,
            count,  # nobody stops what he keeps: as in a cooperative group
            count,
            0,
        )


def _key(one: Member) -> Sequence[Any]:
    return (one.member_id,) if one.instance_id is None else ("static", one.instance_id)
