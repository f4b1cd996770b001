"""The evidence for the cause of a rebalance: two states in a row, and the commits in the first. Times are ms."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Final, NamedTuple


class Member(NamedTuple):
    """A member as a state has it."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    topics: int | None
    """A hash of its subscribed topics; None: it is no consumer, or its bytes cannot be read."""
    owned: int
    """Of how many partitions it said, when it joined, that it had them; 0 under an eager protocol."""
    assigned: int
    """How many partitions it was given."""
    metadata: int
    """A hash of all its metadata."""

    @property
    def key(self) -> str:
        """Who it is: a static member that comes back has another id."""
        return self.member_id if self.instance_id is None else f"static {self.instance_id}"

    @property
    def process(self) -> tuple[str, str]:
        """Client id and host: what a process keeps over a restart."""
        return self.client_id, self.host


class Activity(NamedTuple):
    """What a member committed in a state."""

    commits: int
    first_ms: int
    last_ms: int
    gap_ms: int | None
    """The mean time between two commits of a partition; None: no partition has two."""
    max_gap_ms: int | None
    """The longest one."""
    last_gap_ms: int | None
    """The last one."""

    @property
    def is_off_beat(self) -> bool:
        """Its commits are regular, and the last one came sooner than usual."""
        gap, longest, last = self.gap_ms, self.max_gap_ms, self.last_gap_ms
        if gap is None or longest is None or last is None:
            return False
        return longest <= 2 * gap and last < 0.8 * gap


NOTHING: Final[Mapping[str, Activity]] = {}


class State(NamedTuple):
    """A group from one of its records to the next."""

    generation: int
    at_ms: int
    """When the record was written: the leader has synced."""
    joined_ms: int
    """When the join phase ended."""
    protocol: str | None
    leader: str | None
    members: tuple[Member, ...]
    topics: frozenset[str]
    """Everything that some member subscribes to."""
    counts: Mapping[str, int]
    """How many partitions of each topic are assigned."""
    activity: Mapping[str, Activity] = NOTHING
    """By member id, until the next record."""
    ends_ms: int | None = None
    """When the next rebalance began, where a record says so: it made a KIP-848 group classic."""
    parted: frozenset[str] = frozenset()
    """The ids of the `members` that were gone by that record."""

    @property
    def is_cooperative(self) -> bool:
        """Members keep their partitions while they join."""
        return "cooperative" in (self.protocol or "") or any(member.owned for member in self.members)

    def usual_ms(self) -> int | None:
        """How long two commits are apart in the group; None: no member committed twice."""
        gaps = [one.gap_ms for one in self.activity.values() if one.gap_ms is not None]
        return round(median(gaps)) if gaps else None


def continued(before: State, after: State) -> State:
    """A state whose record was written again (for a static member's new id, or on loading), with all its commits."""
    ids = {member.key: member.member_id for member in before.members}
    activity = dict(after.activity)
    for member in after.members:
        then, now = before.activity.get(ids.get(member.key, "")), activity.get(member.member_id)
        if then is not None:
            activity[member.member_id] = then if now is None else joined_activity(then, now)
    return after._replace(at_ms=before.at_ms, joined_ms=before.joined_ms, activity=activity)


def taken_over(epoch: State, record: State) -> State:
    """A KIP-848 group's last epoch goes on as a generation of a classic group, by this record. The server writes it
    when the last member that speaks the new protocol goes, or comes back with the old one, and begins a rebalance.
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
    """What a member committed in two states in a row."""
    commits = then.commits + now.commits
    longest = max(then.max_gap_ms or 0, now.max_gap_ms or 0, now.first_ms - then.last_ms)
    gap = then.gap_ms if now.gap_ms is None or (then.gap_ms is not None and then.commits > now.commits) else now.gap_ms
    return Activity(commits, then.first_ms, now.last_ms, gap, longest, now.last_gap_ms or now.first_ms - then.last_ms)


def survivors(before: State, after: State) -> list[Member]:
    """Who of a state is still there in the next, as it was then."""
    stayed = {member.key for member in after.members}
    return [member for member in before.members if member.key in stayed]


def committed(before: State, after: State) -> list[Activity]:
    """What those committed that stayed."""
    return [before.activity[one.member_id] for one in survivors(before, after) if one.member_id in before.activity]


def rested_ms(before: State, after: State) -> int | None:
    """When those that stayed made their last commit; None: none of them committed."""
    return max((one.last_ms for one in committed(before, after)), default=None)
