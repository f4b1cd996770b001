"""The evidence for the cause of a rebalance: two states in a row, commits, and a group's habits.

The habits are what the history of a group shows about its members. How often do they commit? Do they commit before they
give partitions up? How many partitions do the topics have? The size of the habits does not grow with the history. A
member's *beat* is its usual time between two commits. A commit *at parting* comes just before a member gives partitions
up or leaves. Times are in ms. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log
from statistics import median
from types import MappingProxyType
from typing import Final, NamedTuple

from muster.pipeline.infer.silenced import Span


class Member(NamedTuple):
    """A member in a state."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    topics: int | None
    """A hash of the member's subscribed topics. None: it is no consumer, or its subscription cannot be read."""
    owned: int
    """The number of partitions that the member reported when it joined; 0 under an eager protocol."""
    assigned: int
    """The number of partitions that the member got in this state."""
    metadata: int
    """A hash of all the member's metadata."""

    @property
    def key(self) -> str:
        """What identifies the member when it returns: a static member returns under another member id."""
        return self.member_id if self.instance_id is None else f"static {self.instance_id}"

    @property
    def process(self) -> tuple[str, str]:
        """Client id and host: both stay the same when a process restarts."""
        return self.client_id, self.host


class Activity(NamedTuple):
    """The commits of a member in a state."""

    commits: int
    first_ms: int
    last_ms: int
    gap_ms: int | None
    """The mean time between two commits of a partition. It is None if no partition has two commits."""
    max_gap_ms: int | None
    """The longest time between two commits."""
    last_gap_ms: int | None
    """The time from the last commit but one to the last commit."""

    @property
    def is_off_beat(self) -> bool:
        """Whether the member's commits are regular, and the last commit came sooner than usual."""
        gap, longest, last = self.gap_ms, self.max_gap_ms, self.last_gap_ms
        if gap is None or longest is None or last is None:
            return False
        return longest <= 2 * gap and last < 0.8 * gap

    def usual_ms(self, longest_ms: int) -> int | None:
        """The mean time between two commits of a partition, without a single gap of more than `longest_ms`.

        While the coordinator is away, nobody commits.
        """
        gap_ms, gap_once_ms = self.gap_ms, self.max_gap_ms or 0
        if not gap_ms or gap_once_ms <= longest_ms:
            return gap_ms
        span_ms = self.last_ms - self.first_ms
        steps = span_ms // gap_ms - 1
        return max((span_ms - gap_once_ms) // steps, 1) if steps > 0 else gap_ms


NOTHING: Final[Mapping[str, Activity]] = {}


class State(NamedTuple):
    """A group from one of its records to the next record."""

    generation: int
    at_ms: int
    """The time at which the record was written: the leader had sent its SyncGroup."""
    joined_ms: int
    """When the join phase ended."""
    protocol: str | None
    leader: str | None
    members: tuple[Member, ...]
    topics: frozenset[str]
    """All topics that at least one member subscribes to."""
    counts: Mapping[str, int]
    """The number of assigned partitions of each topic."""
    activity: Mapping[str, Activity] = NOTHING
    """The commits of each member until the next record, by member id."""
    ends_ms: int | None = None
    """When the next rebalance began, if a record says so: the record that made a KIP-848 group a classic one."""
    parted: frozenset[str] = frozenset()
    """The ids of those `members` that the record of this state no longer has.

    Only a record that made a KIP-848 group a classic one leaves members out.
    """

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep their partitions while they join."""
        return "cooperative" in (self.protocol or "") or any(member.owned for member in self.members)

    def usual_ms(self) -> int | None:
        """The usual time between two commits in the group. It is None if no member committed twice."""
        gaps = [one.gap_ms for one in self.activity.values() if one.gap_ms is not None]
        return round(median(gaps)) if gaps else None


def continued(before: State, after: State) -> State:
    """The state of a record that was written again: `before`, with all commits of both states.

    A record is written again for a static member's new id, or when a group is loaded.
    """
    ids = {member.key: member.member_id for member in before.members}
    activity = dict(after.activity)
    for member in after.members:
        then, now = before.activity.get(ids.get(member.key, "")), activity.get(member.member_id)
        if then is not None:
            activity[member.member_id] = then if now is None else joined_activity(then, now)
    return after._replace(at_ms=before.at_ms, joined_ms=before.joined_ms, activity=activity)


def taken_over(epoch: State, record: State) -> State:
    """The last epoch of a KIP-848 group, which continues as a generation of a classic group by `record`.

    The server writes this record when the last member with the new protocol leaves, or returns with the old protocol.
    The record begins a rebalance.
    """
    keys, ids = {member.key for member in record.members}, {member.member_id for member in record.members}
    parted = [one for one in epoch.members if one.key not in keys and one.member_id not in ids]
    ids_before = {member.key: member.member_id for member in epoch.members}
    members = [one._replace(member_id=ids_before.get(one.key, one.member_id)) for one in record.members]
    counts = {topic: max(epoch.counts.get(topic, 0), count) for topic, count in record.counts.items()}
    return record._replace(
        members=(*members, *parted),
        counts={**epoch.counts, **counts},
        activity=epoch.activity,
        ends_ms=record.at_ms,
        parted=frozenset(one.member_id for one in parted),
        at_ms=min(epoch.at_ms, record.at_ms),
        joined_ms=min(epoch.at_ms, record.at_ms),
    )


def joined_activity(then: Activity, now: Activity) -> Activity:
    """The commits of one member in two successive states of its group, as one `Activity`."""
    commits = then.commits + now.commits
    longest = max(then.max_gap_ms or 0, now.max_gap_ms or 0, now.first_ms - then.last_ms)
    gap = then.gap_ms if now.gap_ms is None or (then.gap_ms is not None and then.commits > now.commits) else now.gap_ms
    return Activity(commits, then.first_ms, now.last_ms, gap, longest, now.last_gap_ms or now.first_ms - then.last_ms)


def survivors(before: State, after: State) -> list[Member]:
    """The members of `before` that are also in `after`, as they were in `before`."""
    stayed = {member.key for member in after.members}
    return [member for member in before.members if member.key in stayed]


def committed(before: State, after: State) -> list[Activity]:
    """The commits in `before` of the members that stayed."""
    return [before.activity[one.member_id] for one in survivors(before, after) if one.member_id in before.activity]


def rested_ms(before: State, after: State) -> int | None:
    """The time of the last commit of the members that stayed. It is None if none of them committed."""
    return max((one.last_ms for one in committed(before, after)), default=None)


JOIN_MS: Final = 6_000
"""A member sees a rebalance with its next heartbeat (3 s), and joins again within this time."""
_SURE: Final = 5.0
"""The log odds of a habit stay between plus and minus this value: habits change with a new release."""
_MISSED: Final = 0.05
"""The probability that a member with the habit does not follow it."""

_AWAY: Final = 64
"""At most this many processes that are away are remembered."""
_OFF_BEAT: Final = 0.25
"""The probability that the last commit comes sooner than usual by chance."""


_EARLY: Final = 0.85
"""A commit is off the beat if it comes before this part of the usual interval."""
_QUICK_MS: Final = 300
"""Commits that follow each other within this time are never off the beat."""


class Habits(NamedTuple):
    """What is known about a group before a rebalance is judged."""

    counts: Mapping[str, int] = MappingProxyType({})
    """For each topic, the largest number of assigned partitions while a member subscribed to it."""
    has_grown: bool = False
    """Whether the last state was the first one in which its members had so many partitions of a topic.

    With librdkafka, every member checks for new partitions. So the other members join again when they see the new
    partitions too.
    """
    usual_ms: int | None = None
    """The usual time between two commits. It is None if no member has committed twice."""
    parting: float = 0.0
    """The log odds that members commit just before they give partitions up or leave."""

    away: tuple[tuple[str, str], ...] = ()
    """Client id and host of the latest processes that left and are not back yet."""
    silences: tuple[Span, ...] = ()
    """The times in which no group of the cluster gave a sign of life."""
    commits: bool = True
    """Whether members of such groups commit at all. Those of share groups do not."""

    @property
    def commits_at_parting(self) -> float:
        """The probability that members commit just before they give partitions up, from the log odds `parting`."""
        return 1 / (1 + exp(-self.parting))


def with_state(habits: Habits, state: State) -> Habits:
    """The habits after one more state, with its commits and assignments."""
    counts: Mapping[str, int] = habits.counts
    if state.members and not state.is_cooperative:  # in these states all partitions are assigned
        counts = state.counts
    elif state.members:
        topics = sorted(state.topics | set(state.counts))
        counts = {topic: max(habits.counts.get(topic, 0), state.counts.get(topic, 0)) for topic in topics}
    known = habits.counts.keys() & counts.keys()
    has_grown = any(counts[topic] > habits.counts[topic] for topic in known)
    usual_ms = state.usual_ms() or habits.usual_ms
    if habits.usual_ms and usual_ms and usual_ms > habits.usual_ms and _has_silence(habits, state):
        usual_ms = habits.usual_ms
    return habits._replace(counts=counts, has_grown=has_grown, usual_ms=usual_ms)


def _has_silence(habits: Habits, state: State) -> bool:
    """Did a silence of all groups begin between two commits of a state?"""
    last_ms = max((one.last_ms for one in state.activity.values()), default=state.at_ms)
    return any(state.at_ms <= one.from_ms <= last_ms for one in habits.silences)


def with_gone(habits: Habits, before: State, after: State) -> Habits:
    """The habits after a rebalance.

    Processes that left in the rebalance are added to `away`, and those that are back are removed.
    """
    here = {member.process for member in after.members}
    went = [member.process for member in before.members if member.process not in here]
    away = [process for process in habits.away if process not in here and process not in went]
    return habits._replace(away=(*away, *went)[-_AWAY:])


def with_parting(habits: Habits, before: State, after: State) -> Habits:
    """The habits after a rebalance in which members gave partitions up.

    Did these members commit off their beat just before? In a cooperative group only members that leave give partitions
    up at that moment.
    """
    odds = habits.parting
    stayed = {member.key for member in after.members}
    for member in before.members:
        activity = before.activity.get(member.member_id)
        if not member.assigned or (before.is_cooperative and member.key in stayed):
            continue
        beat_ms = (activity and activity.gap_ms) or habits.usual_ms or before.usual_ms()
        if beat_ms is None:  # no member commits regularly, so a commit at the very end is not by chance
            beat_ms = after.joined_ms - before.at_ms
        window_ms = min(JOIN_MS, member.session_timeout_ms // 2)
        by_chance = min(max(window_ms, 1) / max(beat_ms, 1), 1 - _MISSED)
        if activity is not None and after.joined_ms - activity.last_ms <= window_ms:
            odds += log((1 - _MISSED) / by_chance)
        elif activity is not None and activity.is_off_beat:
            odds += log((1 - _MISSED) / _OFF_BEAT)
        elif member.key in stayed:  # a member that is missing may have been killed
            odds += log(_MISSED / (1 - by_chance))
    return habits._replace(parting=max(-_SURE, min(_SURE, odds)))


def is_off_beat(before: State, member: Member, habits: Habits) -> bool | None:
    """Did the member's last commit come sooner than usual?

    None: its commits are not regular, or follow each other too soon to show that.
    """
    one = before.activity.get(member.member_id)
    beat_ms = (one and one.gap_ms) or before.usual_ms() or habits.usual_ms
    if one is None or beat_ms is None or beat_ms < _QUICK_MS or (one.max_gap_ms or 0) > 2 * beat_ms:
        return None
    last_ms = one.last_gap_ms if one.last_gap_ms is not None else one.last_ms - before.at_ms
    return last_ms < _EARLY * beat_ms
