"""What the core reports for the history: kinds of events, their facts, and causes of rebalances. This module decides
nothing.

In a classic group each rebalance begins with one REBALANCE_STARTED. The end is REBALANCE_COMPLETED or GROUP_EMPTIED, or
REBALANCE_FAILED if another rebalance begins before. A consumer group (KIP-848) has one EPOCH_BUMPED for each new epoch,
and one TARGET_ASSIGNED for its targets. EPOCH_RECONCILED says that all members have reached their targets.

Kinds and causes are words of the schema in `docs/events.md`: they are never renamed. The docstring of each kind names
its facts. "member" is a member id, "instance" a group.instance.id or None. Times are wall ms. The rules for unstable
members at the end of this module are also those of the pipeline's verdicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from muster.coordinator.groups.common.group import Protocols
from muster.coordinator.state_machine.interface import Client
from muster.protocol.message import Message


class Event(NamedTuple):
    """Something that happened in a group: a rebalance began or ended, a member joined, left or was fenced."""

    kind: str
    group_id: str
    facts: dict[str, object]


# ---- kinds

GROUP_CREATED: Final = "group_created"
"""This event has no facts."""
GROUP_EMPTIED: Final = "group_emptied"
"""generation, took_ms (the length of the rebalance that ended without members)."""
GROUP_DELETED: Final = "group_deleted"
"""This event has no facts."""
MEMBER_JOINED: Final = "member_joined"
"""member (MemberFacts), protocol_type, reason (as the client gave it, KIP-800, or None). In a consumer group also
protocol ("consumer" or "classic"), subscribed (the first topics), pattern, assignor (or None).
"""
MEMBER_LEFT: Final = "member_left"
"""member (MemberFacts), reason."""
MEMBER_EXPIRED: Final = "member_expired"
"""member (MemberFacts): a member whose session timeout passed without a request."""
MEMBER_REMOVED: Final = "member_removed"
"""member (MemberFacts), cause: JOIN_TIMEOUT, SYNC_TIMEOUT, REVOCATION_TIMEOUT or GROUP_FULL."""
MEMBER_REPLACED: Final = "member_replaced"
"""member (MemberFacts, with the new id), replaced (the old id, which is fenced), reason."""
DELIVERIES_FAILED: Final = "deliveries_failed"
"""topic, partition, first_offset, last_offset, records (how many), deliveries, cause, member (or None), state.

* left_out: how many such records had no event before.

These records of a share group were not accepted in their last delivery.
"""
TOPICS_NOT_READY: Final = "topics_not_ready"
"""code (of the status), detail (a sentence), topology_epoch: the topics of a streams group are missing or wrong."""
TOPICS_READY: Final = "topics_ready"
"""topology_epoch, took_ms (how long the topics were not ready, as far as this core knows)."""
TASKS_RESTORING: Final = "tasks_restoring"
"""member (MemberFacts), count, tasks (rows with task, role, behind): the member reports that they lack state."""
TASKS_RESTORED: Final = "tasks_restored"
"""member (MemberFacts), count, tasks (rows with task, role, took_ms, behind): such tasks have their state now.

took_ms: the time since the member got the task. behind: the first report's.
"""
APPLICATION_SHUTDOWN: Final = "application_shutdown"
"""member (MemberFacts): this member of a streams group had an error, and asked all others to end."""
MEMBERS_SYNCED: Final = "members_synced"
"""generation, synced (wall ms by member id): SyncGroups that arrived after the generation was assigned."""
REBALANCE_STARTED: Final = "rebalance_started"
"""cause, trigger (Trigger or None), generation (which ends), members (how many), state (the group's earlier state)."""
REBALANCE_COMPLETED: Final = "rebalance_completed"
"""generation, protocol_type, protocol, votes, leader, cause, trigger, join_phase_ms, sync_phase_ms.

* took_ms: the time since members stopped work, including earlier failed rebalances.
* members (MemberFacts), before (the old assignments by member id), topics (partition counts), settings (GroupSettings).
"""
REBALANCE_FAILED: Final = "rebalance_failed"
"""generation, cause (of the rebalance that begins instead), members (MemberFacts), join_phase_ms (or None), took_ms."""
MEMBER_AWAY: Final = "member_away"
"""member (MemberFacts): a static member of a consumer group has announced that it will return (epoch -2)."""
EPOCH_BUMPED: Final = "epoch_bumped"
"""epoch (the new epoch), cause, trigger (Trigger or None), members (how many), state (the group's earlier state).

topics: if changed topics are the cause, the first of them: topic, before and now (partition counts), made_again.
"""
TARGET_ASSIGNED: Final = "target_assigned"
"""epoch, assignor, took_ms (of the computation), since_epoch_ms, members, topics (how many), names (TopicsImage).

changes: (member id, target before, target) of each member with a new target. In a streams group also unit, "task".
"""
TARGET_FAILED: Final = "target_failed"
"""epoch, assignor, took_ms. The assignor failed; the present targets stay in force."""
MEMBER_RECONCILED: Final = "member_reconciled"
"""A member has reached its target, after it lost or got partitions.

* member (its names), epoch, revoked and assigned (how many partitions), gave_up (the first revoked partitions).
* took_ms: the time since the target was in force. revoking_ms: the part until the member gave up its partitions.
* waited_ms: how long the member waited for partitions of others. waited_for: these other members.
"""
EPOCH_RECONCILED: Final = "epoch_reconciled"
"""All members have reached their targets.

* epoch, first_epoch, epochs (how many), causes (how many by cause), assignor, members, revoked, assigned, partitions.
* cause and trigger of the first epoch. took_ms: the time since then. All three are None if this core did not see that
  epoch.
* changed: how many members have lost or got partitions.
* paused_partition_ms: the sum of times without an owner, over all partitions with a new owner.
* slowest: rows like MEMBER_RECONCILED. waited_for: members that others waited for, with took_ms.
"""
GROUP_UPGRADED: Final = "group_upgraded"
"""A classic group has become a consumer group: epoch, members (how many), trigger (the member that caused it)."""
GROUP_DOWNGRADED: Final = "group_downgraded"
"""epoch, members (how many stay), cause, trigger (the last member of the consumer protocol)."""
OFFSETS_DELETED: Final = "offsets_deleted"
"""cause (ASKED, TOPIC_DELETED), topics: partitions by topic."""
OFFSETS_EXPIRED: Final = "offsets_expired"
"""topics: partitions by topic."""
TRANSACTION_COMMITTED: Final = "transaction_committed"
"""A transaction's offsets are in force now: producer_id, producer_epoch, since_ms (its last commit), offsets."""
TRANSACTION_ABORTED: Final = "transaction_aborted"
"""The offsets of an aborted transaction are dropped: producer_id, producer_epoch, offsets, since_ms."""
REQUEST_REFUSED: Final = "request_refused"
"""api, error (Kafka's code), client_id, host, member, instance. The server counts these events."""

# ---- causes
NEW_MEMBER: Final = "member_joined"
LEFT: Final = "member_left"
SESSION_EXPIRED: Final = "session_expired"
LEADER_REJOINED: Final = "leader_rejoined"
SUBSCRIPTION_CHANGED: Final = "subscription_changed"
METADATA_CHANGED: Final = "metadata_changed"
PARTITIONS_CHANGED: Final = "partitions_changed"
STATIC_MEMBER_BACK: Final = "static_member_returned"
JOIN_TIMEOUT: Final = "join_timeout"
SYNC_TIMEOUT: Final = "sync_timeout"
REVOCATION_TIMEOUT: Final = "revocation_timeout"
TOPICS_CHANGED: Final = "topics_changed"
PATTERN_RESOLVED: Final = "pattern_resolved"
PARTITIONS_READY: Final = "partitions_ready"
GROUP_FULL: Final = "group_full"
OVER_CAPACITY: Final = "group_over_capacity"
ASSIGNMENT_TOO_LARGE: Final = "assignment_too_large"
ASKED: Final = "asked"
TOPIC_DELETED: Final = "topic_deleted"

WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        NEW_MEMBER: "a new member joined",
        LEFT: "a member left",
        SESSION_EXPIRED: "a member sent no heartbeat for its session timeout",
        LEADER_REJOINED: "the leader joined again",
        SUBSCRIPTION_CHANGED: "a member changed its subscription",
        METADATA_CHANGED: "a member joined again with other metadata",
        PARTITIONS_CHANGED: "the leader saw that a topic has other partitions",
        STATIC_MEMBER_BACK: "a static member came back",
        JOIN_TIMEOUT: "a member did not join again within the rebalance timeout",
        SYNC_TIMEOUT: "a member did not sync within the rebalance timeout",
        REVOCATION_TIMEOUT: "a member did not give up its partitions within the rebalance timeout",
        TOPICS_CHANGED: "topics were created, deleted or got more partitions",
        PATTERN_RESOLVED: "a regular expression matches other topics",
        PARTITIONS_READY: "the states of share partitions were set up",
        GROUP_FULL: "the group is full",
        OVER_CAPACITY: "the group was loaded with more members than group.max.size",
        ASSIGNMENT_TOO_LARGE: "the leader's assignment is larger than max.message.bytes of __consumer_offsets",
        ASKED: "a client asked for it",
        TOPIC_DELETED: "the topic was deleted",
    }
)
"""Each cause in plain words."""


class MemberFacts(NamedTuple):
    """One member at the time of an event. `heard_ms`: the time of the member's last request; None before the first."""

    member: str
    instance: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    joined_ms: int | None
    """The time of the last JoinGroup. None if no JoinGroup arrived since the load."""
    synced_ms: int | None
    """The time of the SyncGroup in this generation; None before this SyncGroup."""
    heard_ms: int | None
    assignment: bytes


class Trigger(NamedTuple):
    """The member that caused a rebalance. `reason`: as the client gave it (KIP-800), or None."""

    member: str
    instance: str | None
    client_id: str
    host: str
    reason: str | None


def request_refused(
    request: Message, client: Client, group_id: str, error: int, member_id: str, instance_id: str | None
) -> Event:
    """The event of a member's refused request. Answers like REBALANCE_IN_PROGRESS are no refusals."""
    facts: dict[str, object] = {
        "api": type(request).__name__.removesuffix("Request"),
        "error": error,
        "client_id": client.client_id,
        "host": client.host,
        "member": member_id,
        "instance": instance_id,
    }
    return Event(REQUEST_REFUSED, group_id, facts)


SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND

RETURN_MS: Final = 10 * MINUTE
"""A process has returned if a member with its instance id, or client id and host, joins within this time."""
LOOP_MS: Final = 15 * MINUTE
"""A process is in a loop if it leaves again within this time after its return."""
LOOPS: Final = 3
"""In a crash loop, a process has left and returned at least this many times."""
TWO_LOOP: Final = 5
"""In flapping, two processes have together left and returned at least this many times, and each at least twice."""

CRASH_LOOP: Final = "crash_loop"
FLAPPING: Final = "flapping"
SLOW: Final = "slow_poller"
POLLED_TOO_LATE: Final = "poll timeout"
"""The reason of a member that leaves because its application did not poll in time contains this text."""


def unstable_text(
    kind: str, names: str, *, over: bool = False, again: bool = True, died: bool = True, several: bool = False
) -> str:
    """The sentence about unstable members. `over`: the problem has ended. `again`: a slow poller was removed
    repeatedly.

    `died`: the member left without LeaveGroup at least once. Otherwise somebody may start and stop the process.
    `several`: the names are those of several members.
    """
    if kind == FLAPPING:
        return f"{names} {'took' if over else 'take'} turns in coming and going"
    if kind == SLOW:
        return f"{names} polled too slowly and {'were' if several else 'was'} put out{' repeatedly' if again else ''}"
    now = "" if several else "s"
    if not died:
        return f"{names} {'kept' if over else f'keep{now}'} leaving and coming back"
    return f"{names} {'crash-looped' if over else f'crash-loop{now}'}"
