"""What the core reports for the history: kinds of events, their facts, and causes of rebalances. This module decides
nothing.

In a classic group each rebalance begins with one REBALANCE_STARTED. It ends with REBALANCE_COMPLETED or GROUP_EMPTIED,
or with REBALANCE_FAILED when another rebalance begins before. A consumer group (KIP-848) has one EPOCH_BUMPED for each
new epoch, and one TARGET_ASSIGNED for its targets. EPOCH_RECONCILED says that all members have reached their targets.

Kinds and causes are words of the schema in `docs/events.md`: they are never renamed. The constant of each kind names
its facts. "member" is a member id, "instance" a group.instance.id or None. Times are wall ms. The pipeline's verdicts
use the same rules for unstable members, which stand at the end.
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
"""generation, took_ms (the length of the rebalance that left no member)."""
GROUP_DELETED: Final = "group_deleted"
"""This event has no facts."""
MEMBER_JOINED: Final = "member_joined"
"""member (MemberFacts), protocol_type, reason (as the client gave it, KIP-800, or None). In a consumer group also
protocol ("consumer" or "classic"), subscribed (the first topics), pattern, assignor (or None).
"""
MEMBER_LEFT: Final = "member_left"
"""member (MemberFacts), reason."""
MEMBER_EXPIRED: Final = "member_expired"
"""member (MemberFacts): its session timeout passed without a request."""
MEMBER_REMOVED: Final = "member_removed"
"""member (MemberFacts), cause: JOIN_TIMEOUT, SYNC_TIMEOUT, REVOCATION_TIMEOUT or GROUP_FULL."""
MEMBER_REPLACED: Final = "member_replaced"
"""member (MemberFacts, with the new id), replaced (the old id, which is fenced), reason."""
MEMBERS_SYNCED: Final = "members_synced"
"""generation, synced (wall ms by member id): SyncGroups that arrived after the generation was assigned."""
REBALANCE_STARTED: Final = "rebalance_started"
"""cause, trigger (Trigger or None), generation (the one that ends), members (how many), state (of the group before)."""
REBALANCE_COMPLETED: Final = "rebalance_completed"
"""generation, protocol_type, protocol, votes, leader, cause, trigger, join_phase_ms, sync_phase_ms.

* took_ms: since work stopped, including failed rebalances before this one.
* members (MemberFacts), before (the old assignments by member id), topics (partition counts), settings (GroupSettings).
"""
REBALANCE_FAILED: Final = "rebalance_failed"
"""generation, cause (of the rebalance that begins instead), members (MemberFacts), join_phase_ms (or None), took_ms."""
MEMBER_AWAY: Final = "member_away"
"""member (MemberFacts): a static member of a consumer group has announced that it will return (epoch -2)."""
EPOCH_BUMPED: Final = "epoch_bumped"
"""epoch (the new one), cause, trigger (Trigger or None), members (how many), state (of the group before).

topics: the first topics that have changed, if that is the cause: topic, before, now (partitions), made_again.
"""
TARGET_ASSIGNED: Final = "target_assigned"
"""epoch, assignor, took_ms (of the computation), since_epoch_ms, members, topics (how many), names (TopicsImage).

changes (member id, target before, target), of the members with a new target.
"""
TARGET_FAILED: Final = "target_failed"
"""epoch, assignor, took_ms: the assignor failed; the present targets stay in force."""
MEMBER_RECONCILED: Final = "member_reconciled"
"""A member has reached its target, and has lost or got partitions on the way.

* member (its names), epoch, revoked and assigned (how many partitions), gave_up (the first of the revoked ones).
* revoking_ms: until the member had given up its partitions. took_ms: since its target was in force.
* waited_ms, waited_for: how long, and the members whose partitions this member waited for.
"""
EPOCH_RECONCILED: Final = "epoch_reconciled"
"""All members have reached their targets.

* epoch, first_epoch, epochs (how many), causes (how many by cause), assignor, members, revoked, assigned, partitions.
* cause, trigger: of the first epoch. took_ms: since the first epoch. All are None when that epoch was not seen.
* changed: how many members have lost or got partitions.
* paused_partition_ms: the sum of the times without an owner, of the partitions that got another owner.
* slowest: rows as of MEMBER_RECONCILED. waited_for: members that had partitions of others, with took_ms.
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
"""api, error (Kafka's code), client_id, host, member, instance. The server counts them."""

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
        PATTERN_RESOLVED: "a regular expression stands for other topics",
        GROUP_FULL: "the group is full",
        OVER_CAPACITY: "the group was loaded with more members than group.max.size",
        ASSIGNMENT_TOO_LARGE: "the leader's assignment is larger than max.message.bytes of __consumer_offsets",
        ASKED: "a client asked for it",
        TOPIC_DELETED: "the topic was deleted",
    }
)
"""Each cause in plain words."""


class MemberFacts(NamedTuple):
    """One member at the time of an event. `heard_ms`: the time of its last request; None before the first one."""

    member: str
    instance: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    joined_ms: int | None
    """The time of its last JoinGroup. None when that was before this core was loaded."""
    synced_ms: int | None
    """The time of its SyncGroup in this generation. None before that."""
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
    """The event of a refused request of a member. An answer that only says what to do next is no refusal."""
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
"""A process has returned if one with the same instance id, or client id and host, joins within this time."""
LOOP_MS: Final = 15 * MINUTE
"""A process that leaves again within this time after it returned is in a loop."""
LOOPS: Final = 3
"""How often a process must have left and returned for a crash loop."""
TWO_LOOP: Final = 5
"""How often two processes together must have left and returned for flapping; each of them at least twice."""

CRASH_LOOP: Final = "crash_loop"
FLAPPING: Final = "flapping"
SLOW: Final = "slow_poller"
POLLED_TOO_LATE: Final = "poll timeout"
"""A client whose application has not polled in time leaves with a reason that contains this text."""


def unstable_text(kind: str, names: str, *, over: bool = False, again: bool = True, died: bool = True) -> str:
    """The sentence about unstable members. `over`: the problem has ended. `again`: a slow poller was removed
    repeatedly.

    `died`: the member did not always leave by LeaveGroup. If it always did, somebody may start and stop the process.
    """
    if kind == FLAPPING:
        return f"{names} {'took' if over else 'take'} turns in coming and going"
    if kind == SLOW:
        return f"{names} polled too slowly and was put out{' again and again' if again else ''}"
    if not died:
        return f"{names} {'kept' if over else 'keeps'} leaving and coming back"
    return f"{names} {'crash-looped' if over else 'crash-loops'}"
