"""Input and output of the history of a KIP-848 group. Plain values; see `epochs`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

CLASSIC: Final = 2
EPOCH: Final = 3
PARTITION_METADATA: Final = 4
MEMBER: Final = 5
TARGET_EPOCH: Final = 6
TARGET: Final = 7
CURRENT: Final = 8
PATTERN: Final = 16
"""Key types: GroupMetadata, of which only tombstones matter here; ConsumerGroupMetadata, …PartitionMetadata (before
4.1), …MemberMetadata, …TargetAssignmentMetadata, …TargetAssignmentMember, …CurrentMemberAssignment,
…RegularExpression."""

AWAY: Final = -2
"""The epoch of a static member that stopped and may come back (LEAVE_GROUP_STATIC_MEMBER_EPOCH)."""
STABLE: Final = 0
OWES: Final = 1
"""States of a member: it has all that it is to have; it has to give something up (UNREVOKED_PARTITIONS)."""
FIRST: Final = 2
"""The highest epoch that a new group begins with: Kafka 4.3 counts from 2, others from 1."""


class Record(NamedTuple):
    """A record of a group, in the order of the log."""

    offset: int
    at_ms: int
    key_type: int
    key: str
    """A member's id, or a pattern; empty where there is one record for the group."""
    value: Mapping[str, Any] | None
    """In Kafka's JSON form; None: a tombstone."""


class Share(NamedTuple):
    """What a member has of a topic."""

    topic: str
    partitions: tuple[int, ...]


class Member(NamedTuple):
    """A member in a state."""

    member_id: str
    instance_id: str | None
    client_id: str | None
    host: str | None
    session_timeout_ms: int | None
    """Only members that speak the classic protocol say it."""
    rebalance_timeout_ms: int | None
    rack: str | None
    topics: tuple[str, ...]
    """What it subscribes to; what its pattern stands for."""
    assigned: tuple[Share, ...]


class Gone(NamedTuple):
    """A member that the group went on without."""

    member: Member
    at_ms: int
    heard_ms: int
    """When something of it was last written because it was heard of."""
    away_ms: int | None
    """Since when a static member had been stopped; None: it had not."""
    owes_ms: int | None
    """Since when it had been to give partitions up; None: it had not."""


class Take(NamedTuple):
    """A partition that got an owner."""

    topic: str
    partition: int
    member_id: str
    offset: int
    at_ms: int
    paused_ms: int | None
    """Since it was taken from the one before; None: it had no owner, or the group was empty in between."""


class Change(NamedTuple):
    """What is different between two epochs."""

    before: int | None
    """The epoch before; None: the log does not reach back that far."""
    members_before: int
    joined: tuple[str, ...] = ()
    gone: tuple[Gone, ...] = ()
    resubscribed: tuple[str, ...] = ()
    topics_changed: bool = False
    """Partitions or racks of topics, or which topics a pattern stands for."""
    is_conversion: bool = False
    """It is the same generation that it was as a classic group."""


class Hold(NamedTuple):
    """A member had a partition."""

    topic: str
    partition: int
    member: Member
    start_ms: int
    end_ms: int | None
    """When it was told to give it up, or went; None: it has it still."""
    first_epoch: int
    last_epoch: int


class State(NamedTuple):
    """A group in an epoch, as it was at the end of its rebalance; or the end of the group."""

    epoch: int | None
    """None: the group is no more."""
    offset: int
    began_ms: int
    at_ms: int
    """When all members were there, or the next epoch began, or the log ends."""
    assignor: str | None
    members: tuple[Member, ...]
    owners: tuple[tuple[str, int, int, str], ...]
    """Topic, partition, from which offset on, member id: in the order of the log; offset 0: from before the epoch."""
    takes: tuple[Take, ...]
    change: Change | None
    """None: the same epoch goes on, with a static member under another id, say."""
