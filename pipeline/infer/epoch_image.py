"""A KIP-848 group after a record: its members, the topics of its patterns, and the owner of each partition. Pure.

A share group (KIP-932) has such records too. In it several members own one partition at the same time. The classes at
the top are the input and the output of `epochs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

CLASSIC: Final = 2
EPOCH: Final = 3
PARTITION_METADATA: Final = 4
MEMBER: Final = 5
TARGET_EPOCH: Final = 6
TARGET: Final = 7
CURRENT: Final = 8
PATTERN: Final = 16
"""The key types of a group's records. GroupMetadata (only tombstones matter here); ConsumerGroupMetadata,
…PartitionMetadata (before 4.1), …MemberMetadata, …TargetAssignmentMetadata, …TargetAssignmentMember,
…CurrentMemberAssignment, …RegularExpression.
"""

SHARED_STATES: Final = 15
"""The key type of the record that says for which partitions of a share group a state exists
(ShareGroupStatePartitionMetadata). Only these partitions are assigned.
"""
OF_SHARE_GROUPS: Final[Mapping[int, int]] = {
    10: MEMBER, 11: EPOCH, 12: TARGET_EPOCH, 13: TARGET, 14: CURRENT, SHARED_STATES: SHARED_STATES,
}  # fmt: skip
"""The key types of a share group's records, and the types with the same meaning."""

AWAY: Final = -2
"""The epoch of a static member that stopped and may return (LEAVE_GROUP_STATIC_MEMBER_EPOCH)."""
STABLE: Final = 0
OWES: Final = 1
"""The states of a member. A STABLE member has its whole assignment. A member that OWES still has to revoke partitions
(UNREVOKED_PARTITIONS).
"""
FIRST: Final = 2
"""A new group begins with this epoch or a lower one: Kafka 4.3 counts from 2, other versions from 1."""


class Record(NamedTuple):
    """A record of a group, as it is in the log."""

    offset: int
    at_ms: int
    key_type: int
    key: str
    """The member id or the pattern in the key. It is empty for a type with one record in each group."""
    value: Mapping[str, Any] | None
    """The value in Kafka's JSON form; None: a tombstone."""


class Share(NamedTuple):
    """The partitions of one topic that a member has."""

    topic: str
    partitions: tuple[int, ...]


class Member(NamedTuple):
    """A member of the group in a state."""

    member_id: str
    instance_id: str | None
    client_id: str | None
    host: str | None
    session_timeout_ms: int | None
    """The member's session timeout. Only members with the classic protocol report it."""
    rebalance_timeout_ms: int | None
    rack: str | None
    topics: tuple[str, ...]
    """The topics that the member subscribes to, including the topics that match its pattern."""
    assigned: tuple[Share, ...]


class Gone(NamedTuple):
    """A member that is no longer in the group."""

    member: Member
    at_ms: int
    heard_ms: int
    """The last time at which a record of the member was written because of a request of the member."""
    away_ms: int | None
    """When the static member stopped; None: it had not stopped."""
    owes_ms: int | None
    """Since when the member had to revoke partitions; None: it had nothing to revoke."""


class Take(NamedTuple):
    """A partition that got a new owner."""

    topic: str
    partition: int
    member_id: str
    offset: int
    at_ms: int
    paused_ms: int | None
    """The time between the last owner and the new owner. It is None if there was no last owner, or if the group was
    empty between.
    """


class Change(NamedTuple):
    """The differences between an epoch and the epoch before."""

    before: int | None
    """The number of the epoch before; None: it is not in the log."""
    members_before: int
    joined: tuple[str, ...] = ()
    gone: tuple[Gone, ...] = ()
    resubscribed: tuple[str, ...] = ()
    topics_changed: bool = False
    """Whether the partitions or racks of topics changed, or the topics that match a pattern."""
    has_new_states: bool = False
    """Whether states of a share group's partitions were created, so that these partitions can be assigned."""
    is_conversion: bool = False
    """Whether a classic group became this KIP-848 group. Then the epoch has the number of the classic generation."""


class Hold(NamedTuple):
    """A time in which a member had a partition."""

    topic: str
    partition: int
    member: Member
    start_ms: int
    end_ms: int | None
    """When the member had to revoke the partition, or left; None: it still has the partition."""
    first_epoch: int
    last_epoch: int


class State(NamedTuple):
    """A group in an epoch, as it was at the end of the epoch's rebalance. Or it is the end of the group."""

    epoch: int | None
    """The number of the epoch; None: the group was deleted."""
    offset: int
    began_ms: int
    at_ms: int
    """When all members had reached the epoch, or the next epoch began, or the log ended."""
    assignor: str | None
    members: tuple[Member, ...]
    owners: tuple[tuple[str, int, int, str], ...]
    """Topic, partition, first offset, and member id of each owner, in the order of the log.

    The offset is that of the owner's record. It is 0 if the owner had the partition before the epoch.
    """
    takes: tuple[Take, ...]
    change: Change | None
    """The differences to the epoch before. None: the same epoch continues, perhaps with a static member's new id."""


Place = tuple[str, int]
"""A partition: topic id and number."""
SharedPlace = tuple[str, int, str]
"""A partition of a share group, and one of its owners."""
Subscription = tuple[tuple[str, ...], str]
"""A subscription: names of topics, and a pattern or an empty text."""


@dataclass(slots=True)
class Present:
    """A present member of the group."""

    value: Mapping[str, Any]
    heard_ms: int
    """The last time at which a record of the member was written because of a request of the member."""
    epoch: int = 0
    state: int = STABLE
    places: dict[Place, None] = field(default_factory=dict)
    away_ms: int | None = None
    owes_ms: int | None = None

    @property
    def subscription(self) -> Subscription:
        """The names of topics and the pattern that the member subscribes to."""
        return tuple(sorted(self.value.get("subscribedTopicNames") or ())), self.value.get("subscribedTopicRegex") or ""


@dataclass(slots=True)
class CurrentOwner:
    """The owner of a partition."""

    member_id: str
    start_ms: int
    first_epoch: int
    end_ms: int | None = None
    """When the owner had to revoke the partition. It may still commit, and stays the owner until another member has the
    partition.
    """
    last_epoch: int | None = None
    """The last epoch at whose end this member had the partition."""


class Taken(NamedTuple):
    """A partition that got a new owner."""

    place: Place
    member_id: str
    offset: int
    at_ms: int
    paused_ms: int | None


class Image:
    """The members of a group, and the partitions that they have. `names`: names of topics, by topic id.

    `is_shared`: several members may own one partition, and nobody waits for another one.
    """

    def __init__(self, names: Mapping[str, str], *, is_shared: bool = False) -> None:
        self.members: dict[str, Present] = {}
        self.patterns: dict[str, tuple[str, ...]] = {}
        self.held: dict[Place | SharedPlace, CurrentOwner] = {}
        self._is_shared = is_shared
        self._free: dict[Place, int] = {}
        """Since when each partition without an owner has none."""
        self._names = dict(names)

    def key(self, member_id: str) -> str:
        """What identifies a member when it returns: a static member gets a new member id."""
        instance_id = self.members[member_id].value.get("instanceId")
        return member_id if instance_id is None else f"static {instance_id}"

    # ---- changes by records

    def update_member(self, record: Record) -> None:
        """Apply a record that has the metadata of a member."""
        assert record.value is not None
        known = self.members.get(record.key)
        if known is None:
            self.members[record.key] = Present(record.value, record.at_ms)
        else:
            known.value, known.heard_ms = record.value, record.at_ms

    def remove_member(self, member_id: str, at_ms: int, reached: int) -> Iterator[Hold | Gone]:
        """Remove a member. Yields the times in which it had its partitions, and the member itself."""
        yield from self.release(member_id, at_ms, reached)
        one = self.members[member_id]
        yield Gone(self.seen(member_id), at_ms, one.heard_ms, one.away_ms, one.owes_ms)
        del self.members[member_id]

    def assign(self, record: Record, epoch: int, reached: int) -> Iterator[Hold | Taken]:
        """Apply a record by which a member has other partitions, or another epoch.

        `epoch`: the group's epoch; `reached`: the last epoch whose rebalance has ended.
        """
        assert record.value is not None
        value = record.value
        one = self.members.setdefault(record.key, Present({}, record.at_ms))
        if value["memberEpoch"] == AWAY:
            # the static member has not revoked anything, because it may return
            one.away_ms = record.at_ms
            return
        one.epoch, one.state, one.heard_ms, one.away_ms = value["memberEpoch"], value["state"], record.at_ms, None
        one.owes_ms = (one.owes_ms or record.at_ms) if one.state == OWES else None
        had, one.places = one.places, dict.fromkeys(_places(value))
        for place in had:
            if place not in one.places:
                self._revoke(self._slot(place, record.key), record.key, record.at_ms, reached)
        for place in one.places:
            slot = self._slot(place, record.key)
            held = self.held.get(slot)
            if held is not None and held.member_id == record.key and held.end_ms is None:
                continue
            if held is not None:
                yield self.hold(slot, record.at_ms, reached)
            self.held[slot] = CurrentOwner(record.key, record.at_ms, epoch)
            if self._is_shared:
                continue
            free_ms = self._free.pop(place, None)
            paused_ms = None if free_ms is None else record.at_ms - free_ms
            yield Taken(place, record.key, record.offset, record.at_ms, paused_ms)

    def release(self, member_id: str, at_ms: int, reached: int) -> Iterator[Hold]:
        """Remove all partitions from a member."""
        for slot in [slot for slot, held in self.held.items() if held.member_id == member_id]:
            self._revoke(slot, member_id, at_ms, reached)
            yield self.hold(slot, at_ms, reached)
            del self.held[slot]

    def forget_pauses(self) -> None:
        """Forget since when partitions have no owner: no member wants them, or the group is empty."""
        self._free.clear()

    def _slot(self, place: Place, member_id: str) -> Place | SharedPlace:
        return (*place, member_id) if self._is_shared else place

    def _revoke(self, slot: Place | SharedPlace, member_id: str, at_ms: int, reached: int) -> None:
        held = self.held.get(slot)
        if held is not None and held.member_id == member_id and held.end_ms is None:
            held.end_ms = at_ms
            held.last_epoch = reached
            if not self._is_shared:
                self._free[slot[0], slot[1]] = at_ms

    # ---- the result

    def hold(self, slot: Place | SharedPlace, at_ms: int | None, reached: int) -> Hold:
        """The time in which a member had a partition: until now, or until it had to revoke the partition."""
        held = self.held[slot]
        end_ms = at_ms if held.end_ms is None else held.end_ms
        last = max(held.first_epoch, reached if held.last_epoch is None else held.last_epoch)
        who = self.seen(held.member_id)
        return Hold(self.name(slot[0]), slot[1], who, held.start_ms, end_ms, held.first_epoch, last)

    def seen(self, member_id: str) -> Member:
        """A member in its present state."""
        one = self.members[member_id]
        value = one.value
        names, pattern = one.subscription
        shares: dict[str, list[int]] = {}
        for topic_id, partition in one.places:
            shares.setdefault(self.name(topic_id), []).append(partition)
        return Member(
            member_id,
            value.get("instanceId"),
            value.get("clientId"),
            value.get("clientHost"),
            (value.get("classicMemberMetadata") or {}).get("sessionTimeoutMs"),
            value.get("rebalanceTimeoutMs"),
            value.get("rackId"),
            tuple(sorted({*names, *self.patterns.get(pattern, ())})),
            tuple(Share(topic, tuple(sorted(numbers))) for topic, numbers in sorted(shares.items())),
        )

    def assignor(self) -> str | None:
        """The assignor that most members request; None: most members request none, and the server decides."""
        asked = [one.value.get("serverAssignor") for one in self.members.values()]
        known = [name for name in asked if name]
        return max(sorted(set(known)), key=known.count) if known else None

    def name(self, topic_id: str) -> str:
        """The name of a topic; the topic's id if the name is not known."""
        return self._names.get(topic_id, topic_id)

    def learn_names(self, epoch: int | None) -> None:
        """Learn names of topics: if a member subscribes to one topic, all its partitions belong to that topic."""
        for one in self.members.values():
            ids = {topic_id for topic_id, _ in one.places}
            names, pattern = one.subscription
            if len(ids) == 1 and len(names) == 1 and not pattern and one.epoch == epoch and one.state == STABLE:
                self._names.setdefault(ids.pop(), names[0])


def _places(value: Mapping[str, Any]) -> Iterator[Place]:
    for topic in value["assignedPartitions"]:
        for partition in topic["partitions"]:
            yield topic["topicId"], partition
