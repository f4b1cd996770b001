"""A classic group: members, generation and state, kept consistent. This module decides nothing and answers no request.

The states are Kafka's ClassicGroupState; docs/ has diagrams of the table of transitions. An Empty group may be deleted.
A group that becomes a consumer group is deleted too. The modules join, rebalance and sessions decide, and change a
group only by the group's methods. `records.replay` sets the persistent fields of a group, live and in replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from muster.coordinator.groups.classic.member import UNKNOWN, Member, Subscriptions, Support, elect
from muster.coordinator.groups.common.events import Trigger
from muster.coordinator.groups.common.group import NEWEST_COMMIT, NOT_NOW, SINCE_COMMIT, Partitions, Protocols
from muster.coordinator.groups.common.state import State
from muster.coordinator.state_machine.deadlines import Deadline, Deadlines
from muster.coordinator.state_machine.interface import IllegalTransition, Respond
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey

EMPTY: Final = "Empty"
PREPARING: Final = "PreparingRebalance"
COMPLETING: Final = "CompletingRebalance"
STABLE: Final = "Stable"
DEAD: Final = "Dead"
STATES: Final = (EMPTY, PREPARING, COMPLETING, STABLE, DEAD)

REBALANCE: Final = "a rebalance begins"
JOINED: Final = "the join phase ends with members"
DESERTED: Final = "the join phase ends without members"
ASSIGNED: Final = "the leader's assignment has arrived"
REMOVED: Final = "the group is deleted"
CONVERTED: Final = "the group becomes a consumer group"
EVENTS: Final = (REBALANCE, JOINED, DESERTED, ASSIGNED, REMOVED, CONVERTED)

TRANSITIONS: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        (EMPTY, REBALANCE): PREPARING,
        (STABLE, REBALANCE): PREPARING,
        (COMPLETING, REBALANCE): PREPARING,
        (PREPARING, JOINED): COMPLETING,
        (PREPARING, DESERTED): EMPTY,
        (COMPLETING, ASSIGNED): STABLE,
        (EMPTY, REMOVED): DEAD,
        (PREPARING, CONVERTED): DEAD,
        (COMPLETING, CONVERTED): DEAD,
        (STABLE, CONVERTED): DEAD,
    }
)


CONSUMER: Final = "consumer"
"""The protocol type of groups of consumers. The coordinator may decode the metadata of their members."""
JOIN_PHASE: Final = "join phase"
SYNC_PHASE: Final = "sync phase"
"""The kinds of deadlines that belong to a group and not to a member."""
_WITH_SESSIONS: Final = (STABLE, PREPARING)
"""States in which a commit counts as a heartbeat."""


class RebalanceFacts:
    """Facts about the present rebalance, for the history only. Times are monotonic ms."""

    __slots__ = ("before", "began_ms", "cause", "joined_ms", "stopped_ms", "trigger", "votes")

    def __init__(
        self, cause: str, trigger: Trigger | None, now_ms: int, before: dict[str, bytes], stopped_ms: int | None
    ) -> None:
        """`before`: the assignments that the rebalance replaces. `stopped_ms`: when members stopped work; None: now."""
        self.cause = cause
        self.trigger = trigger
        self.began_ms = now_ms
        self.stopped_ms: int = now_ms if stopped_ms is None else stopped_ms
        self.joined_ms = now_ms
        """The end of the join phase."""
        self.before: dict[str, bytes] = before
        self.votes: dict[str, int] = {}
        """The votes for each protocol; empty during the join phase."""


class ClassicGroup:
    """One classic group.

    `initial`: the join phase began from Empty, so it waits `group.initial.rebalance.delay.ms`. `newcomer`: a member was
    added during the present part (`delay_ms`) of this delay. `remaining_ms`: by how much the delay may still grow.
    `pending`: member ids that were handed out and not used yet (KIP-394). `pending_sync`: the members that have not
    sent SyncGroup in this generation. `state_since_ms`: wall ms of the last transition (Kafka's currentStateTimestamp).

    Only the history uses these fields. `rebalance`: the facts about the present rebalance. `partition_counts`: those of
    the topics at the end of the last rebalance. `departed`: the assignments of members that left since then.
    `late_syncs`: the times of SyncGroups after the leader's.
    """

    __slots__ = (
        "delay_ms", "departed", "generation", "group_id", "initial", "join_deadline", "late_syncs", "leader_id",
        "members", "newcomer", "parked_joins", "partition_counts", "pending", "pending_sync", "protocol_name",
        "protocol_type", "rebalance", "remaining_ms", "state", "state_since_ms", "static_ids", "subscriptions",
        "support", "sync_deadline",
    )  # fmt: skip

    kind = "classic"

    def __init__(self, group_id: str, state_since_ms: int) -> None:
        self.group_id = group_id
        self.protocol_type: str | None = None
        self.state = EMPTY
        self.state_since_ms = state_since_ms
        self.generation = 0
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}
        self.pending: dict[str, Deadline] = {}
        self.pending_sync: dict[str, None] = {}
        self.parked_joins = 0
        self.support = Support()
        self.subscriptions: Subscriptions = UNKNOWN
        self.initial = self.newcomer = False
        self.delay_ms = self.remaining_ms = 0
        self.rebalance: RebalanceFacts | None = None
        self.departed: dict[str, bytes] = {}
        self.late_syncs: dict[str, int] = {}
        self.partition_counts: dict[str, int] | None = None
        self.join_deadline = Deadline(JOIN_PHASE, group_id)
        self.sync_deadline = Deadline(SYNC_PHASE, group_id)

    def transition(self, event: str, wall_ms: int) -> None:
        """Change the state by the table of transitions. If the table has no entry, raises IllegalTransition instead."""
        target = TRANSITIONS.get((self.state, event))
        if target is None:
            raise IllegalTransition(f"group {self.group_id!r}", self.state, event)
        self.state = target
        self.state_since_ms = wall_ms

    # ---- members

    def add(self, member: Member) -> None:
        """Add a member, whose id is no longer pending. The first member becomes the leader."""
        if not self.members:
            self.leader_id = self.leader_id or member.member_id
        self.members[member.member_id] = member
        self.pending.pop(member.member_id, None)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        self.support.add(member.protocols)
        self.parked_joins += member.parked_join is not None

    def remove(self, member_id: str) -> Member | None:
        """Remove a member or a pending id, and return the member. The first other member replaces a removed leader."""
        self.pending.pop(member_id, None)
        self.pending_sync.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        if member.instance_id is not None:
            del self.static_ids[member.instance_id]
        self.support.remove(member.protocols)
        self.parked_joins -= member.parked_join is not None
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def rename(self, instance_id: str, member_id: str) -> None:
        """Give a static member a new id (KIP-345). The member keeps its place, leadership and pending SyncGroup."""
        old_id = self.static_ids[instance_id]
        self.static_ids[instance_id] = member_id
        member = self.members[member_id] = self.members.pop(old_id)
        member.member_id = member_id
        if old_id in self.pending_sync:
            del self.pending_sync[old_id]
            self.pending_sync[member_id] = None
        if self.leader_id == old_id:
            self.leader_id = member_id

    def update(self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> None:
        """Set the fields of a member from its new JoinGroup."""
        if member.rebalance_timeout_ms != rebalance_timeout_ms:  # equal values are shared, not replaced
            member.rebalance_timeout_ms = rebalance_timeout_ms
        if member.session_timeout_ms != session_timeout_ms:
            member.session_timeout_ms = session_timeout_ms
        if member.protocols != protocols:
            self.support.remove(member.protocols)
            self.support.add(protocols)
            member.protocols = protocols

    def park_join(self, member: Member, respond: Respond) -> Respond | None:
        """Park the member's JoinGroup. Returns the function that answers the JoinGroup parked before, or None."""
        older = member.parked_join
        member.parked_join = respond
        self.parked_joins += older is None
        return older

    def unpark_join(self, member: Member) -> Respond | None:
        """Unpark the member's JoinGroup. Returns the function that answers the request; None when none is parked."""
        respond = member.parked_join
        if respond is not None:
            member.parked_join = None
            self.parked_joins -= 1
        return respond

    @property
    def has_everyone(self) -> bool:
        """Whether all members have joined this rebalance, and no member id is pending."""
        return self.parked_joins == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The rebalance timeout of the slowest member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # ---- protocol and generation

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols may be in this group (Kafka's supportsProtocols)."""
        if self.state == EMPTY:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and self.support.has_common(protocols)

    def vote(self) -> str:
        """The protocol that the members would choose now. The group must have members."""
        leader = self.members.get(self.leader_id or "")
        return elect(self.support, leader)

    def keep_or_elect_leader(self) -> bool:
        """Keep a leader that has joined this rebalance, else elect a joined member. False: no member has joined."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.parked_join is not None:
            return True
        joined = next((member for member in self.members.values() if member.parked_join is not None), None)
        if joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    def begin_generation(self) -> None:
        """End the join phase: the generation grows by one, and its members, if any, vote for a protocol."""
        self.generation += 1
        self.protocol_name = self.vote() if self.members else None
        self.pending_sync.clear()
        self.note_subscriptions()

    def note_subscriptions(self) -> None:
        """Remember the topics of this generation's members (Kafka's computeSubscribedTopics)."""
        if self.protocol_type != CONSUMER or (self.members and self.protocol_name is None):
            self.subscriptions = UNKNOWN
        else:
            self.subscriptions = Subscriptions([one.metadata(self.protocol_name) for one in self.members.values()])

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic. If the topics are unknown: whether the members are consumers."""
        topics = self.subscriptions.topics()
        return self.protocol_type == CONSUMER if topics is None else topic in topics

    def record_keys(self) -> list[Message]:
        """The key of the group's only record."""
        return [GroupMetadataKey(self.group_id)]

    # ---- checks

    def validate_member(self, member_id: str, instance_id: str | None) -> int:
        """0 if `member_id` is a member with this instance id, which is checked first; else Kafka's error code."""
        if instance_id is not None:
            holder = self.static_ids.get(instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return 0 if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def validate_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        version: int = NEWEST_COMMIT,  # noqa: ARG002  # only a consumer group asks
        partitions: Partitions | None = None,  # noqa: ARG002  # as above
    ) -> int:
        """0 if this member may commit offsets in the generation `epoch`, else Kafka's error code."""
        if epoch < 0 and self.state == EMPTY:
            return 0  # a consumer that only stores offsets in the group
        if epoch < 0 and not member_id and instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self.validate_member(member_id, instance_id)
        if error:
            return error
        if epoch != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state == COMPLETING else 0

    def validate_transactional_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        partitions: Partitions,  # noqa: ARG002  # as above
    ) -> int:
        """See `Group`. Offsets may be committed in every state, and without a member (by clients before KIP-447)."""
        if epoch < 0 and (self.state == EMPTY or (not member_id and instance_id is None)):
            return 0
        error = self.validate_member(member_id, instance_id)
        return error or (ErrorCode.ILLEGAL_GENERATION if epoch != self.generation else 0)

    def validate_fetch(self, member_id: str | None, epoch: int) -> int:  # noqa: ARG002  # only a consumer group asks
        """Return 0: every client may read offsets."""
        return 0

    def has_committed(self, member_id: str, deadlines: Deadlines, mono_ms: int) -> None:
        """Renew the member's session: a commit counts as a heartbeat. A group without members has no sessions."""
        if self.state in _WITH_SESSIONS:
            member = self.members[member_id]
            deadlines.set(member, mono_ms + member.session_timeout_ms)

    def validate_offset_delete(self) -> int:
        """See `Group`. Offsets may be deleted without members, or if members are consumers: their topics are known."""
        return 0 if self.state == EMPTY or self.protocol_type == CONSUMER else ErrorCode.NON_EMPTY_GROUP

    def deletion_error(self) -> int:
        """See `Group`. An Empty group may be deleted, even if it has pending member ids."""
        return 0 if self.state == EMPTY else ErrorCode.NON_EMPTY_GROUP

    def is_unused(self) -> bool:
        """Whether the group has neither members nor pending member ids."""
        return self.state == EMPTY and not self.pending

    def unused_since_ms(self) -> int:
        """See `Group`. Retention counts from the time when the group became Empty, also for later commits (KIP-211)."""
        if self.protocol_type is None:  # a simple group: it only stores offsets
            return SINCE_COMMIT
        if self.state == EMPTY:
            return self.state_since_ms  # -1 (SINCE_COMMIT) in the records of Kafka before 2.1
        known = self.state == STABLE and self.subscriptions.topics() is not None
        return SINCE_COMMIT if known else NOT_NOW


def classic_group(state: State, group_id: str) -> ClassicGroup | None:
    """The classic group of that id. None when no such group exists."""
    group = state.groups.get(group_id)
    return group if type(group) is ClassicGroup else None
