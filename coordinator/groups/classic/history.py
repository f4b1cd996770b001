"""The events of a classic group for the history: one function for each kind of event. This module decides nothing."""

from __future__ import annotations

from typing import Final

from muster.coordinator.groups.classic.group import CONSUMER, STABLE, ClassicGroup, RebalanceFacts
from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import MemberFacts, Trigger
from muster.coordinator.groups.common.group import Protocols
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.state import Step
from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.state_machine.interface import Now
from muster.protocol.consumer import decode_subscription, subscribed_topics
from muster.protocol.message import MalformedMessage
from muster.protocol.messages.consumer_protocol import ConsumerProtocolSubscription

MAX_DECODED_BYTES: Final = 64 * 1024
"""The largest metadata, in bytes, that is decoded for the history. Larger metadata counts as unreadable."""


def rejoin_cause(group: ClassicGroup, member: Member, protocols: Protocols, image: TopicsImage) -> str:
    """Why a member that joins again starts a rebalance. Call this function before the member gets the new `protocols`.

    A leader joins again when partition counts have changed. The JoinGroup does not name this reason, so the counts are
    compared with those of the last generation.
    """
    changed = False
    if member.protocols != protocols:
        before, now = _decoded_metadata(group, member.protocols), _decoded_metadata(group, protocols)
        if _topics(before) != _topics(now):
            return events.SUBSCRIPTION_CHANGED
        if member.member_id != group.leader_id:
            return events.METADATA_CHANGED
        changed = _gave_up(before, now)
    if group.partition_counts is not None and partition_counts(group, image) != group.partition_counts:
        return events.PARTITIONS_CHANGED
    return events.METADATA_CHANGED if changed else events.LEADER_REJOINED


def partition_counts(group: ClassicGroup, image: TopicsImage) -> dict[str, int]:
    """The partition counts of the existing subscribed topics; empty if the topics are unknown or too many."""
    if group.subscriptions.is_long:
        return {}
    by_name = image.by_name
    there = [name for name in group.subscriptions.topics() or () if name in by_name]
    return {name: by_name[name].partitions for name in sorted(there)}


def _decoded_metadata(group: ClassicGroup, protocols: Protocols) -> list[ConsumerProtocolSubscription | None]:
    """The decoded metadata of each protocol. None for unreadable metadata, or for groups without consumers."""
    is_consumers = group.protocol_type == CONSUMER
    return [_subscription(metadata) if is_consumers else None for _, metadata in protocols]


def _subscription(metadata: bytes) -> ConsumerProtocolSubscription | None:
    if len(metadata) > MAX_DECODED_BYTES:
        return None
    try:
        try:
            return decode_subscription(metadata)[1]
        except MalformedMessage:
            # Some clients name a version without sending all of its fields. The topics can still be decoded.
            return ConsumerProtocolSubscription(list(subscribed_topics(metadata)))
    except MalformedMessage:
        return None


def _topics(said: list[ConsumerProtocolSubscription | None]) -> list[frozenset[str] | None]:
    return [None if one is None else frozenset(one.topics) for one in said]


def _gave_up(before: list[ConsumerProtocolSubscription | None], now: list[ConsumerProtocolSubscription | None]) -> bool:
    """Whether a consumer has lost partitions that it owned before, as in the second round of a cooperative rebalance.
    The other parts of the metadata change with every generation. Unreadable bytes count as a change.
    """
    return any(
        one is None or other is None or _owned(one) - _owned(other) for one, other in zip(before, now, strict=True)
    )


def _owned(said: ConsumerProtocolSubscription) -> set[tuple[str, int]]:
    return {(topic.topic, partition) for topic in said.owned_partitions for partition in topic.partitions}


def heard_ms(member: Member, due_ms: int, now: Now) -> int | None:
    """Wall ms of a member's last request, from the session's `due_ms`. None when nothing arrived since the load."""
    asked_ms = member.asked_ms(due_ms)
    if asked_ms in (NEVER, member.restarted_ms):
        return max(member.joined_ms, member.synced_ms) or None
    return now.wall_ms - max(now.mono_ms - asked_ms + member.session_timeout_ms, 0)


def of_member(member: Member, now: Now) -> MemberFacts:
    """The facts about a member, for events."""
    return MemberFacts(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.session_timeout_ms,
        member.rebalance_timeout_ms,
        member.protocols,
        member.joined_ms or None,
        member.synced_ms or None,
        None if member.is_new else heard_ms(member, member.due_ms, now),
        member.assignment,
    )


def trigger(member: Member, reason: str | None = None) -> Trigger:
    """The trigger of a rebalance that this member caused."""
    return Trigger(member.member_id, member.instance_id, member.client_id, member.client_host, reason)


def rebalance_started(step: Step, group: ClassicGroup, cause: str, trigger: Trigger | None) -> None:
    """Report that a rebalance is about to begin. A rebalance that has not ended before has failed."""
    now, failed = step.now, group.rebalance
    if group.late_syncs:
        _report_late_syncs(step, group)
    if failed is not None:
        step.event(
            events.REBALANCE_FAILED,
            group.group_id,
            generation=group.generation,
            cause=cause,
            join_phase_ms=failed.joined_ms - failed.began_ms if failed.votes else None,
            took_ms=now.mono_ms - failed.began_ms,
            members=tuple(of_member(one, now) for one in group.members.values()),
        )
        group.rebalance = RebalanceFacts(cause, trigger, now.mono_ms, failed.before, failed.stopped_ms)
    else:
        before = {one.member_id: one.assignment for one in group.members.values()} | group.departed
        if cause == events.NEW_MEMBER and trigger is not None:
            before.pop(trigger.member, None)
        group.rebalance = RebalanceFacts(cause, trigger, now.mono_ms, before, None)
    group.departed = {}
    step.event(
        events.REBALANCE_STARTED,
        group.group_id,
        cause=cause,
        trigger=trigger,
        generation=group.generation,
        members=len(group.members),
        state=group.state,
    )


def joined(step: Step, group: ClassicGroup) -> None:
    """Note the end of the join phase in a group with members."""
    current = _rebalance(group)
    current.joined_ms = step.now.mono_ms
    current.votes = group.support.votes()


def emptied(step: Step, group: ClassicGroup) -> None:
    """Report the end of the join phase in a group without members."""
    took_ms = step.now.mono_ms - _rebalance(group).began_ms
    group.rebalance = None
    step.event(events.GROUP_EMPTIED, group.group_id, generation=group.generation, took_ms=took_ms)


def synced(step: Step, group: ClassicGroup, member: Member) -> None:
    """Note that the first SyncGroup of a member in this generation has arrived."""
    member.synced_ms = step.state.shared.moment(step.now.wall_ms)
    member.restarted_ms = member.due_ms
    if group.state == STABLE:  # REBALANCE_COMPLETED reports all earlier SyncGroups
        group.late_syncs[member.member_id] = step.now.wall_ms
        if not group.pending_sync:
            _report_late_syncs(step, group)


def completed(step: Step, group: ClassicGroup) -> None:
    """Report a completed rebalance. The members now have their assignments."""
    now, current = step.now, _rebalance(group)
    group.rebalance = None
    group.partition_counts = partition_counts(group, step.state.image)
    step.event(
        events.REBALANCE_COMPLETED,
        group.group_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol_name,
        votes=current.votes,
        leader=group.leader_id,
        cause=current.cause,
        trigger=current.trigger,
        join_phase_ms=current.joined_ms - current.began_ms,
        sync_phase_ms=now.mono_ms - current.joined_ms,
        took_ms=now.mono_ms - current.stopped_ms,
        members=tuple(of_member(one, now) for one in group.members.values()),
        before=current.before,
        topics=group.partition_counts,
        settings=step.state.settings,
    )


def left(step: Step, group: ClassicGroup, member: Member, reason: str | None) -> None:
    """Report that a member is about to leave by its own request."""
    _departs(group, member)
    step.event(events.MEMBER_LEFT, group.group_id, member=of_member(member, step.now), reason=reason)


def replaced(step: Step, group: ClassicGroup, member: Member, old_id: str, reason: str | None) -> None:
    """Report that a static member has joined under a new id."""
    if group.rebalance is not None and old_id in group.rebalance.before:
        group.rebalance.before[member.member_id] = group.rebalance.before.pop(old_id)
    facts = of_member(member, step.now)
    step.event(events.MEMBER_REPLACED, group.group_id, member=facts, replaced=old_id, reason=reason)


def removed(step: Step, group: ClassicGroup, member: Member, cause: str) -> None:
    """Report that a member is about to be removed because of `cause`."""
    _departs(group, member)
    facts = of_member(member, step.now)
    if cause == events.SESSION_EXPIRED:
        # The session has just ended, and its deadline is off. `rang_ms` still has the time.
        due_ms = step.state.deadlines.rang_ms
        last_ms = facts.joined_ms if member.is_new else heard_ms(member, due_ms, step.now)
        step.event(events.MEMBER_EXPIRED, group.group_id, member=facts._replace(heard_ms=last_ms))
    else:
        step.event(events.MEMBER_REMOVED, group.group_id, member=facts, cause=cause)


def _report_late_syncs(step: Step, group: ClassicGroup) -> None:
    synced, group.late_syncs = group.late_syncs, {}
    step.event(events.MEMBERS_SYNCED, group.group_id, generation=group.generation, synced=synced)


def _departs(group: ClassicGroup, member: Member) -> None:
    if group.rebalance is None:  # during a rebalance, `rebalance.before` has the assignment
        group.departed[member.member_id] = member.assignment


def _rebalance(group: ClassicGroup) -> RebalanceFacts:
    assert group.rebalance is not None  # `rebalance_started` has set this field
    return group.rebalance
