"""Why the epoch of a KIP-848 group was raised, inferred from its records and commits alone. Pure.

The records say which members joined and which are missing, and what they subscribe to. They do not say how a missing
member ended. If a member leaves and if its session expires, the records are the same. `departures` decides that by the
silence of the member. No record has the session timeout: it is learned, also from later epochs (AHEAD).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final, NamedTuple

from muster.coordinator.groups.common import events
from muster.pipeline.defaults import EPOCH_HEARTBEAT_MS, EPOCH_SESSION_MS, REBALANCE_TIMEOUT_MS
from muster.pipeline.infer.departures import EXPIRED, LEFT, REPLACED, departure
from muster.pipeline.infer.epoch_image import Change, Gone, Member
from muster.pipeline.infer.evidence import Activity, Habits, State, joined_activity, with_parting, with_state
from muster.pipeline.infer.evidence import Member as JudgedRebalance
from muster.pipeline.infer.history import NOT_KNOWN
from muster.pipeline.infer.silenced import Span, is_too_soon, removal

REVOCATION_TIMEOUT: Final = "revocation_timeout"
"""A cause that classic groups do not have: a member did not revoke its partitions in time."""
REMOVED: Final = "removed"
_NEARLY: Final = 0.95
"""This share of a timeout counts as the whole timeout: the clocks of a coordinator's threads differ a little."""
_MS: Final = 1_000
AHEAD: Final = 64
"""This many epochs are read before the first of them is judged."""
_LEAST_SESSION_MS: Final = 6_000
"""The shortest session timeout that is assumed."""
_LEAST_SILENCE_MS: Final = 4_000
"""A silence longer than this is longer than a third of the session. Heartbeats are sent at least that often."""
_MANY: Final = 10
"""A silence longer than each of the last _MANY intervals between commits is not by chance."""
_CLEARLY: Final = 1.2
"""After few commits, a silence must be this many times longer than the longest interval between them."""
_LONGEST_MS: Final = EPOCH_SESSION_MS + 3 * _MS
_BEATS: Final = 3
"""This many usual intervals without a commit are not by chance."""
_ONCE_IN: Final = 20
"""A silence that occurs only once in this many intervals is not usual."""
_NEARLY_POLLED: Final = 0.8
_UNSURE: Final = 0.6
"""The certainty that a member left, if it was silent for a while before. Its session may have been that short."""
_NOBODY: Final = 0.5
"""The certainty that an unknown member left, if the group has no members now."""
_FAR: Final = 3
_AT_PARTING_MS: Final = 300
"""A commit this near the time at which a member is to give partitions up belongs to that."""
_RARE: Final = 10
"""If members commit at most once in so many times _AT_PARTING_MS, such a commit is not by chance."""


class Epoch(NamedTuple):
    """An epoch of a group with the facts by which it is judged."""

    number: int
    began_ms: int
    at_ms: int
    members: tuple[Member, ...]
    change: Change | None
    activity: Mapping[str, Activity]
    """The commits of the members from this epoch to the next one."""
    gave_up_ms: tuple[int, ...] = ()
    """The times at which members gave up partitions that others got then."""


class Ended(NamedTuple):
    """The end of a member's time in the group."""

    member_id: str
    how: str
    at_ms: int


class Departed(NamedTuple):
    """A missing member, and how its time in the group ended."""

    member: Member
    how: str
    at_ms: int
    heard_ms: int
    """The time of the member's last sign of life, as far as is known."""


class Raised(NamedTuple):
    """The inferred cause of a new epoch, and the members that joined or are missing."""

    epoch: Epoch
    change: Change
    cause: str | None
    trigger: Member | None
    certainty: float
    ended: tuple[Ended, ...]
    departed: tuple[Departed, ...] = ()


@dataclass(slots=True)
class _Session:
    """The session timeout of a group, as far as is known."""

    ms: int = EPOCH_SESSION_MS
    is_known: bool = False
    """Whether the session timeout is known. Otherwise `ms` is only an upper bound."""

    def at_most(self, ms: int) -> None:
        """Learn that a member died after it had been silent for `ms`, so a session is not longer."""
        if not self.is_known:
            self.ms = min(self.ms, max(ms, _LEAST_SESSION_MS))

    @property
    def beat_ms(self) -> int:
        """The longest time between two heartbeats of a member."""
        return min(EPOCH_HEARTBEAT_MS, self.ms // 3)


def raised(epochs: Iterable[Epoch | None], silences: Sequence[Span] = (), *, commits: bool = True) -> Iterator[Raised]:
    """Judge each new epoch of a group, in the order of the log. A None in `epochs` means that the group was deleted.

    `silences`: the times without a sign of life of any group. `commits`: whether members of such groups commit at all.
    """
    session = _Session()
    # the scout only learns from epochs, up to AHEAD of the judge
    scout, judge = _Judge(session, silences, commits), _Judge(session, silences, commits)
    ahead: deque[Epoch | None] = deque()
    for epoch in epochs:
        scout.next_epoch(epoch, ())
        ahead.append(epoch)
        if len(ahead) > AHEAD:
            yield from judge.next_epoch(ahead.popleft(), ahead)
    while ahead:
        yield from judge.next_epoch(ahead.popleft(), ahead)


class _Judge:
    """What is known of a group so far. `session` also has what is known from later epochs."""

    def __init__(self, session: _Session, silences: Sequence[Span], commits: bool) -> None:
        self._session, self._silences, self._commits = session, silences, commits
        self._reset()

    def _reset(self) -> None:
        self._habits = Habits(commits=self._commits)
        self._silent: dict[str, int] = {}
        """How long each missing member had been silent, by member id. Members that polled too late are not in it."""
        self._parted: list[bool] = []
        """For each time at which members gave partitions up: did a member commit just then, and not by chance?"""
        self._ahead: Iterable[Epoch | None] = ()
        self._members: dict[str, Member] = {}
        self._activity: dict[str, Activity] = {}
        self._ended: list[Ended] = []

    def next_epoch(self, epoch: Epoch | None, ahead: Iterable[Epoch | None]) -> list[Raised]:
        """The inferred cause of an epoch. The epoch is kept for judging the next ones.

        `ahead`: the epochs that follow this epoch.
        """
        if epoch is None:
            self._reset()
            return []
        self._ahead = ahead
        found = []
        if epoch.change is not None and not epoch.change.is_conversion:
            found.append(self.judge(epoch, epoch.change))
        else:
            self.replaced(epoch)
        self.record_commits(epoch)
        return found

    def replaced(self, epoch: Epoch) -> None:
        """Replace the last epoch by the same epoch, in which members have other ids."""
        keys = {_key(one) for one in epoch.members}
        there = {one.member_id for one in epoch.members}
        back = [one for name, one in self._members.items() if name not in there and _key(one) in keys]
        self._ended += [Ended(one.member_id, REPLACED, epoch.began_ms) for one in back]

    def record_commits(self, epoch: Epoch) -> None:
        """Keep the members of an epoch, and their commits."""
        self._members = {one.member_id: one for one in epoch.members}
        for name, now in epoch.activity.items():
            then = self._activity.get(name)
            self._activity[name] = now if then is None else joined_activity(then, now)
        self._activity = {name: one for name, one in self._activity.items() if name in self._members}
        known = [one for one in epoch.activity.values() if (one.gap_ms or _LONGEST_MS) >= _RARE * _AT_PARTING_MS]
        times = [ms for one in known for ms in (one.first_ms, one.last_ms)]
        # members that are missing gave theirs up when the epoch began
        parted = [at for at in epoch.gave_up_ms if at > epoch.began_ms]
        self._parted += [any(abs(ms - at) <= _AT_PARTING_MS for ms in times) for at in parted]
        self._habits = with_state(self._habits, self._state(epoch.number, epoch.at_ms, epoch.members, epoch.activity))

    def judge(self, epoch: Epoch, change: Change) -> Raised:
        """The inferred cause of an epoch."""
        ended, self._ended = self._ended, []
        if change.before is None:
            return Raised(epoch, change, None, None, NOT_KNOWN, tuple(ended))
        departed: tuple[Departed, ...] = ()
        cause, trigger, certainty = self._same_members(epoch, change)
        for name in change.joined:
            # clients keep their member id, so this member was removed though it was alive
            if name in self._silent:
                self._session.at_most(self._silent.pop(name) // _MS * _MS + _MS)
        if change.joined:
            there = {one.member_id: one for one in epoch.members}
            cause, trigger, certainty = events.NEW_MEMBER, there.get(change.joined[0]), 0.99
        if change.gone:
            ends = self._departures(epoch, change)
            departed = tuple(
                Departed(one.member, how, one.at_ms, self._heard_ms(one, how))
                for one, (_, how, _) in zip(change.gone, ends, strict=True)
            )
            ended += [Ended(one.member.member_id, one.how, one.at_ms) for one in departed]
            cause, trigger, certainty = ends[0][0], change.gone[0].member, ends[0][2]
        raises = epoch.number - change.before
        if raises > 1:
            certainty *= 0.85 if raises <= _FAR else 0.4
        return Raised(epoch, change, cause, trigger, certainty, tuple(ended), departed)

    def _heard_ms(self, gone: Gone, how: str) -> int:
        """The last sign of life: a commit, a record, or the last heartbeat, which was a session before the end."""
        if gone.away_ms is not None:
            return gone.away_ms  # the member announced that it stops, at this time
        known = self._activity.get(gone.member.member_id)
        known_ms = max(gone.heard_ms, known.last_ms if known is not None else 0)
        session_ms = gone.member.session_timeout_ms or self._session.ms
        return max(known_ms, gone.at_ms - session_ms) if how == EXPIRED else known_ms

    def _same_members(self, epoch: Epoch, change: Change) -> tuple[str | None, Member | None, float]:
        if not epoch.members:
            return events.LEFT, None, _NOBODY  # the records of a member that ended are gone
        if change.resubscribed:
            trigger = next((one for one in epoch.members if one.member_id == change.resubscribed[0]), None)
            return events.SUBSCRIPTION_CHANGED, trigger, 0.97
        if change.topics_changed:
            return events.PARTITIONS_CHANGED, None, 0.95
        if change.has_new_states:
            return events.PARTITIONS_READY, None, 0.95
        return None, None, NOT_KNOWN

    def _departures(self, epoch: Epoch, change: Change) -> list[tuple[str, str, float]]:
        """For each missing member: the cause of its end, how it ended, and how sure that is."""
        gone = {one.member.member_id: one for one in change.gone}
        members = {**self._members, **{name: one.member for name, one in gone.items()}}
        activity = {name: self._heard(gone.get(name), one) for name, one in self._activity.items()}
        before = self._state(change.before or 0, epoch.began_ms, members.values(), activity)
        after = self._state(epoch.number, epoch.began_ms, epoch.members, {})
        self._habits = with_parting(self._habits, before, after)
        return [self._departure(one, before, after) for one in change.gone]

    def _departure(self, gone: Gone, before: State, after: State) -> tuple[str, str, float]:
        if gone.away_ms is not None:
            # the member announced that it may return, and did not. From then until its end is one session
            self._session.ms = max(round((gone.at_ms - gone.away_ms) / _MS), 1) * _MS
            self._session.is_known = True
            return events.SESSION_EXPIRED, EXPIRED, 0.97
        limit_ms = (gone.member.rebalance_timeout_ms or REBALANCE_TIMEOUT_MS) * _NEARLY
        if gone.owes_ms is not None and gone.at_ms - gone.owes_ms >= limit_ms:
            return REVOCATION_TIMEOUT, REMOVED, 0.95
        # its session may be shorter than is known
        last_ms = self._last_ms(gone, before)
        if removal(self._silences, gone.heard_ms, last_ms, gone.at_ms, _LEAST_SESSION_MS) is not None:
            return events.SESSION_EXPIRED, EXPIRED, 0.85
        least_ms = gone.member.session_timeout_ms or _LEAST_SESSION_MS
        if after.members and is_too_soon(self._silences, last_ms, gone.at_ms, least_ms):
            return events.LEFT, LEFT, _UNSURE
        by_silence = self._by_silence(gone, before)
        if by_silence is not None:
            return by_silence
        # a record of its partitions, when it was last alive, is a sign of life too
        seen = self._judged_rebalances(gone.member)
        ends = departure(before._replace(at_ms=gone.heard_ms), after, seen, self._habits, came=False)
        if ends.how == EXPIRED:
            return events.SESSION_EXPIRED, EXPIRED, ends.certainty
        silent_ms = gone.at_ms - self._last_ms(gone, before)
        is_unsure = gone.member.session_timeout_ms is None and silent_ms >= _LEAST_SILENCE_MS
        return events.LEFT, LEFT, min(ends.certainty, _UNSURE) if is_unsure else ends.certainty

    @staticmethod
    def _last_ms(gone: Gone, before: State) -> int:
        known = before.activity.get(gone.member.member_id)
        return max(gone.heard_ms, known.last_ms if known is not None else 0)

    def _by_silence(self, gone: Gone, before: State) -> tuple[str, str, float] | None:
        """How a member ended that was silent while other members continued.

        Sessions may be shorter than usual. Such a member has not left by itself: it would have committed before. A
        static member does not leave without an announcement that it will return. A member that joins again under its
        id, and did poll in time, has not left either.
        """
        known = before.activity.get(gone.member.member_id)
        heard_ms = max(gone.heard_ms, known.last_ms if known is not None else 0)
        others = [one for name, one in before.activity.items() if name != gone.member.member_id]
        silent_ms = gone.at_ms - heard_ms
        silent_ms -= _common_gap_ms(others, heard_ms, silent_ms)
        if gone.member.session_timeout_ms is not None or not _LEAST_SILENCE_MS <= silent_ms < _LONGEST_MS:
            return None
        beats = [ms for one in before.activity.values() if (ms := one.usual_ms(_LONGEST_MS))]
        beat_ms = (known and known.usual_ms(_LONGEST_MS)) or (round(median(beats)) if beats else self._habits.usual_ms)
        limit_ms = gone.member.rebalance_timeout_ms or REBALANCE_TIMEOUT_MS
        if _NEARLY_POLLED * limit_ms <= silent_ms <= limit_ms + 2 * (beat_ms or 0) + _MS:
            return events.LEFT, LEFT, 0.7  # the application of this member did not poll in time
        self._silent[gone.member.member_id] = silent_ms
        if self._is_back(gone.member.member_id):
            return events.SESSION_EXPIRED, EXPIRED, 0.9
        if gone.member.instance_id is not None:
            self._learn(silent_ms, beat_ms)
            return events.SESSION_EXPIRED, EXPIRED, 0.85
        if gone.member.assigned and 2 * sum(self._parted) > len(self._parted):
            # members of this group commit when they give partitions up
            return events.SESSION_EXPIRED, EXPIRED, 0.7
        heard_others_ms = max((one.last_ms for one in others), default=0)
        if known is None or beat_ms is None:
            return None
        longest_ms = known.max_gap_ms or 0
        if longest_ms >= _LONGEST_MS:
            longest_ms = beat_ms  # nobody knows the longest of the other gaps
        share = 1 if known.commits >= _MANY else _CLEARLY
        is_longest = silent_ms > share * max(longest_ms, beat_ms)
        if silent_ms < _BEATS * beat_ms:
            others_go_on = 2 * (gone.at_ms - heard_others_ms) <= silent_ms
            return (events.SESSION_EXPIRED, EXPIRED, 0.7) if is_longest and others_go_on else None
        is_usual = longest_ms >= silent_ms and known.last_ms - known.first_ms < _ONCE_IN * beat_ms
        if is_usual:
            return None
        if 2 * (gone.at_ms - heard_others_ms) > silent_ms:
            # all members had nothing more to commit; or several died at the same time, a session before
            is_chance = not -self._session.beat_ms <= silent_ms - self._session.ms <= beat_ms + _MS
            return None if is_chance else (events.SESSION_EXPIRED, EXPIRED, 0.75)
        self._learn(silent_ms, beat_ms)
        return events.SESSION_EXPIRED, EXPIRED, 0.85

    def _is_back(self, member_id: str) -> bool:
        for one in self._ahead:
            if one is None:
                return False
            if one.change is not None and member_id in one.change.joined:
                return True
        return False

    def _learn(self, silent_ms: int, beat_ms: int | None) -> None:
        """Learn that a session is at most this long, if commits follow each other soon."""
        if beat_ms is not None and _BEATS * beat_ms <= silent_ms:
            self._session.at_most(silent_ms // _MS * _MS + _MS)

    def _heard(self, gone: Gone | None, activity: Activity) -> Activity:
        if gone is None or gone.heard_ms <= activity.last_ms:
            return activity
        return activity._replace(last_ms=gone.heard_ms)

    def _state(self, number: int, at_ms: int, members: Iterable[Member], activity: Mapping[str, Activity]) -> State:
        seen = tuple(self._judged_rebalances(one) for one in members)
        return State(number, at_ms, at_ms, None, None, seen, frozenset(), {}, activity)

    def _judged_rebalances(self, one: Member) -> JudgedRebalance:
        count = sum(len(share.partitions) for share in one.assigned)
        # in these groups a commit is no heartbeat. The session begins with the last heartbeat, and the last commit may
        # be one heartbeat interval later
        known_ms = one.session_timeout_ms
        session_ms = known_ms - EPOCH_HEARTBEAT_MS if known_ms else self._session.ms - self._session.beat_ms
        return JudgedRebalance(
            one.member_id,
            one.instance_id,
            one.client_id or "",
            one.host or "",
            max(session_ms, _MS),
            one.rebalance_timeout_ms or REBALANCE_TIMEOUT_MS,
            0,
            count,  # as in a cooperative group, no member stops reading the partitions that it keeps
            count,
            0,
        )


def _common_gap_ms(others: Iterable[Activity], heard_ms: int, silent_ms: int) -> int:
    """How long nobody in the group committed after a member was last heard of, because the coordinator was away.

    0: there is no such time. Members that commit again afterwards all have a gap of at least this length.
    """
    after = [one for one in others if one.last_ms > heard_ms]
    gap_ms = min((max(one.max_gap_ms or 0, one.first_ms - heard_ms) for one in after), default=0)
    return gap_ms if _LONGEST_MS <= gap_ms <= silent_ms else 0


def _key(one: Member) -> Sequence[Any]:
    return (one.member_id,) if one.instance_id is None else ("static", one.instance_id)
