"""A member of a consumer group: its assignments, states, fields and timers. This module decides nothing.

docs/ has diagrams of the tables of states (Kafka: MemberState, CurrentAssignmentBuilder, ConsumerGroupState). A timer
is a deadline of a member, other than the session. A member has one timer of each kind, as on Kafka.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from muster.coordinator.groups.common.events import Trigger
from muster.coordinator.state_machine.deadlines import Deadline, Deadlines, Due

TargetAssignment = tuple[tuple[bytes, tuple[int, ...]], ...]
"""A target assignment: (topic id, partitions in ascending order), ascending by topic id."""
Row = tuple[bytes, tuple[int, ...], tuple[int, ...]]
"""One topic of a `CurrentAssignment`: topic id, partitions, epochs."""
CurrentAssignment = tuple[Row, ...]
"""A `TargetAssignment` with the epoch at which each partition was assigned (KIP-1251)."""
Epochs = dict[int, int]
"""The epoch at which each partition was assigned, by partition."""
NOTHING: Final[tuple[()]] = ()
FEW: Final = 100
"""Tuples of at most this many epochs are shared. Longer tuples would stay in memory when no member has them."""
NOT_KNOWN: Final = 0
"""The epoch of a partition in a record without epochs (before Kafka 4.3)."""


def target_assignment(rows: Mapping[bytes, Collection[int]]) -> TargetAssignment:
    """The target assignment of these partitions by topic id. Topics without partitions are left out."""
    return tuple([(topic_id, tuple(sorted(rows[topic_id]))) for topic_id in sorted(rows) if rows[topic_id]])


def rows_of(target: Mapping[bytes, Sequence[int]]) -> TargetAssignment:
    """The rows of these partitions by topic id, in their order, without topics that have no partitions."""
    return tuple([(topic_id, tuple(its)) for topic_id, its in target.items() if its])


def current_assignment(rows: Mapping[bytes, Mapping[int, int]]) -> CurrentAssignment:
    """The current assignment of these partitions with their epochs. Topics without partitions are left out."""
    return tuple([row_of(topic_id, sorted(epochs.items())) for topic_id, epochs in sorted(rows.items()) if epochs])


def row_of(topic_id: bytes, pairs: Sequence[tuple[int, int]]) -> Row:
    """The row of a topic. `pairs`: (partition, epoch), in ascending order."""
    return topic_id, tuple([one[0] for one in pairs]), tuple([one[1] for one in pairs])


@lru_cache(256)
def _few_since(epoch: int, count: int) -> tuple[int, ...]:
    return (epoch,) * count


def all_since(epoch: int, count: int) -> tuple[int, ...]:
    """The epochs of `count` partitions that were all assigned at `epoch`."""
    return _few_since(epoch, count) if count <= FEW else (epoch,) * count


def assigned_since(member_target: TargetAssignment, epoch: int) -> CurrentAssignment:
    """The current assignment of a member that owns its whole target since this epoch."""
    since = {count: all_since(epoch, count) for count in {len(row[1]) for row in member_target}}
    return tuple([(topic_id, partitions, since[len(partitions)]) for topic_id, partitions in member_target])


def with_shared_tuples(
    current: CurrentAssignment, target: TargetAssignment, shared: Callable[[tuple[int, ...]], tuple[int, ...]]
) -> CurrentAssignment:
    """The same assignment, with tuples of the target and tuples that `shared` returns: this needs less memory. Nearly
    always a member has owned its whole target since one epoch.
    """
    of_target = dict(target)
    made = []
    for topic_id, partitions, epochs in current:
        its = of_target.get(topic_id)
        if len(epochs) <= FEW and epochs.count(epochs[0]) == len(epochs):
            epochs = shared(epochs)
        made.append((topic_id, its if its == partitions else partitions, epochs))
    return tuple(made)


def epochs_of(current: Iterable[Row]) -> dict[bytes, Epochs]:
    """The argument of `current_assignment` for this current assignment."""
    return {topic_id: dict(zip(partitions, epochs, strict=True)) for topic_id, partitions, epochs in current}


def without_epochs(current: CurrentAssignment) -> CurrentAssignment:
    """The same partitions, all with the epoch `NOT_KNOWN`."""
    return tuple([(topic_id, partitions, (NOT_KNOWN,) * len(partitions)) for topic_id, partitions, _ in current])


def same_partitions(one: CurrentAssignment, other: CurrentAssignment) -> bool:
    """Whether two current assignments have the same partitions, whatever the epochs are."""
    if one is other or one == other:  # fast: nearly always the rows are the same objects
        return True
    return len(one) == len(other) and all(
        mine is its or (mine[0] == its[0] and mine[1] == its[1]) for mine, its in zip(one, other, strict=True)
    )


def partition_sets(current: CurrentAssignment) -> dict[bytes, frozenset[int]]:
    """The partitions of each topic as sets, for many look-ups, because a client may name any number of partitions."""
    return {topic_id: frozenset(partitions) for topic_id, partitions, _ in current}


STABLE: Final = 0
"""The member owns its whole target in its epoch."""
UNREVOKED_PARTITIONS: Final = 1
"""The member was asked to give up partitions, and has not confirmed this yet."""
UNRELEASED_PARTITIONS: Final = 2
"""Other members still have partitions of this member's target."""
UNKNOWN: Final = 127
"""A state that only a later Kafka knows: the member has to rejoin without partitions."""
NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {
        STABLE: "STABLE",
        UNREVOKED_PARTITIONS: "UNREVOKED_PARTITIONS",
        UNRELEASED_PARTITIONS: "UNRELEASED_PARTITIONS",
        UNKNOWN: "UNKNOWN",
    }
)
"""The names of the states, by their values in records."""

# ---- results of a step towards the target
TO_REVOKE: Final = "the member has partitions to give up"
ALL_FREE: Final = "all missing partitions are free"
SOME_FREE: Final = "some missing partitions are free, the others have owners"
NONE_FREE: Final = "all missing partitions have owners"
COMPLETE: Final = "no partition is missing"

AFTER: Final[Mapping[str, tuple[int, bool]]] = MappingProxyType(
    {
        TO_REVOKE: (UNREVOKED_PARTITIONS, False),
        ALL_FREE: (STABLE, True),
        SOME_FREE: (UNRELEASED_PARTITIONS, True),
        NONE_FREE: (UNRELEASED_PARTITIONS, True),
        COMPLETE: (STABLE, True),
    }
)
"""The member's next state, and whether the member reaches the target's epoch, by the result of a step."""

# ---- states of a group
EMPTY: Final = "Empty"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
STABLE_GROUP: Final = "Stable"
DEAD: Final = "Dead"


def state_of(members: int, epoch: int, assignment_epoch: int, reconciled: int) -> str:
    """The state of a group, if `reconciled` of its members are STABLE in the assignment epoch."""
    if not members:
        return EMPTY
    if epoch > assignment_epoch:
        return ASSIGNING
    return STABLE_GROUP if reconciled == members else RECONCILING


SESSION: Final = "consumer session"
"""The kind of the deadline at which a silent member is fenced."""
REVOCATION: Final = "revocation"
"""The kind of the deadline at which a member with a pending revocation is fenced."""
JOIN: Final = "join of a classic member"
"""The kind of the deadline at which a classic member is removed that was asked to join again."""
SYNC: Final = "sync of a classic member"
"""The kind of the deadline at which a classic member is removed that has joined, and has not synced."""
LEAVE_GROUP_MEMBER_EPOCH: Final = -1
"""The epoch in the heartbeat of a member that leaves, and of a member that has left."""
LEAVE_GROUP_STATIC_MEMBER_EPOCH: Final = -2
"""The epoch of a static member that will return within its session timeout."""
ANY_TIMEOUT: Final = -1
"""The rebalance timeout of a member that never sent a timeout."""


class Classic(NamedTuple):
    """The fields that a member of the classic protocol has sent."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class Description(NamedTuple):
    """The fields that a member sends about itself: those of ConsumerGroupMemberMetadataValue."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    """The names of the topics that the member subscribes to: distinct and ascending."""
    pattern: str | None
    """A regular expression for further topics. "" means no expression; older Kafkas wrote null."""
    rebalance_timeout_ms: int
    assignor: str | None
    classic: Classic | None


NO_PATTERN: Final = ""
"""What Kafka writes for a member that has sent no regular expression."""
NOBODY: Final = Description(None, None, "", "", (), NO_PATTERN, ANY_TIMEOUT, None, None)
"""The description of a member that has not sent any field yet."""


class Resolved(NamedTuple):
    """The topics that a regular expression matched (ConsumerGroupRegularExpressionValue)."""

    topics: tuple[str, ...]
    version: int
    """The version of the metadata image whose topics the expression was matched against."""
    timestamp_ms: int


class Position(NamedTuple):
    """The progress of a member towards its target: the fields of ConsumerGroupCurrentMemberAssignmentValue."""

    epoch: int
    previous_epoch: int
    state: int
    assigned: CurrentAssignment
    revoking: CurrentAssignment
    """The pending revocation: partitions that the member was asked to give up, and may still have."""


START: Final = Position(0, 0, STABLE, NOTHING, NOTHING)


class ConsumerMember(Due):
    """One member, which is also the deadline of its session. `is_persisted`: the description is in the log.

    `timers`: the member's other deadlines, by kind; None without other deadlines.
    """

    __slots__ = ("description", "is_persisted", "member_id", "position", "timers")

    kind = SESSION

    def __init__(self, group_id: str, member_id: str) -> None:
        super().__init__(group_id)
        self.member_id = member_id
        self.description = NOBODY
        self.position = START
        self.is_persisted = False
        self.timers: dict[str, Deadline] | None = None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether the member owns its whole target of this epoch."""
        return self.position.state == STABLE and self.position.epoch == assignment_epoch


def bare_id(drawn_id: str) -> str:
    """The id of a new member: a UUID, as Kafka's Uuid writes it, without the client id as prefix."""
    try:
        drawn = bytes.fromhex(drawn_id.replace("-", ""))
    except ValueError:
        return drawn_id
    return urlsafe_b64encode(drawn).rstrip(b"=").decode()


def trigger_of(member_id: str, member: ConsumerMember, reason: str | None = None) -> Trigger:
    """The trigger of an event that this member caused."""
    description = member.description
    return Trigger(member_id, description.instance_id, description.client_id, description.client_host, reason)


def start_timer(deadlines: Deadlines, member: ConsumerMember, kind: str, due_ms: int) -> None:
    """Start the member's timer of this kind, or set it again: it falls due at `due_ms`."""
    if member.timers is None:
        member.timers = {}
    deadline = member.timers.get(kind)
    if deadline is None:
        deadline = member.timers[kind] = Deadline(kind, member.group_id, member.member_id)
    deadlines.set(deadline, due_ms)


def start_timer_if_absent(deadlines: Deadlines, member: ConsumerMember, kind: str, due_ms: int) -> None:
    """Start the member's timer of this kind, unless this timer runs already."""
    if member.timers is None or kind not in member.timers:
        start_timer(deadlines, member, kind, due_ms)


def stop_timer(deadlines: Deadlines, member: ConsumerMember, kind: str) -> None:
    """Stop the member's timer of this kind, if the timer runs."""
    if member.timers is None or kind not in member.timers:
        return
    deadlines.cancel(member.timers.pop(kind))
    if not member.timers:
        member.timers = None


def stop_timers(deadlines: Deadlines, member: ConsumerMember) -> None:
    """Stop all timers of the member."""
    for deadline in (member.timers or {}).values():
        deadlines.cancel(deadline)
    member.timers = None
