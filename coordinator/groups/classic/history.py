"""What the history is told: of a rebalance as it goes on, one function for each thing that happens, and of refused
requests. Decides nothing; keeps what is told later in the group's `Round`.
"""

from __future__ import annotations

from typing import cast

from muster.coordinator.groups.classic import rejoin_cause
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.classic.round import Round
from muster.coordinator.groups.classic.states import STABLE
from muster.coordinator.groups.classic.vote import tally
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Trigger
from muster.coordinator.groups.common.step import Step


def rebalance_started(step: Step, group: ClassicGroup, cause: str, trigger: Trigger | None) -> None:
    """A rebalance is about to begin: nothing of the group has changed yet, but that a new member is in it. One that was
    on has failed.
    """
    now, failed = step.now, group.round
    if group.late_syncs:
        _tell_late_syncs(step, group)
    if failed is not None:
        step.event(
            events.REBALANCE_FAILED,
            group.group_id,
            generation=group.generation,
            cause=cause,
            join_phase_ms=failed.joined_ms - failed.began_ms if failed.votes else None,
            took_ms=now.mono_ms - failed.began_ms,
            members=tuple(events.of_member(one, now) for one in group.members.values()),
        )
        group.round = Round(cause, trigger, now.mono_ms, failed.before, failed.stopped_ms)
    else:
        before = {one.member_id: one.assignment for one in group.members.values()} | group.departed
        if cause == events.NEW_MEMBER and trigger is not None:
            before.pop(trigger.member, None)
        group.round = Round(cause, trigger, now.mono_ms, before, None)
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
    """The join phase is over, and the group has members."""
    current = _round(group)
    current.joined_ms = step.now.mono_ms
    current.votes = tally(group.support, group.members.values(), len(group.members))


def emptied(step: Step, group: ClassicGroup) -> None:
    """The join phase is over, and nobody is left."""
    took_ms = step.now.mono_ms - _round(group).began_ms
    group.round = None
    step.event(events.GROUP_EMPTIED, group.group_id, generation=group.generation, took_ms=took_ms)


def synced(step: Step, group: ClassicGroup, member: Member) -> None:
    """The first SyncGroup of a member in this generation has come."""
    member.synced_ms = step.state.shared.moment(step.now.wall_ms)
    member.restarted_ms = member.due_ms
    if group.state == STABLE:  # else it is told with the others when the generation is assigned
        group.late_syncs[member.member_id] = step.now.wall_ms
        if not group.pending_sync:
            _tell_late_syncs(step, group)


def completed(step: Step, group: ClassicGroup) -> None:
    """The members have their assignments."""
    now, current = step.now, _round(group)
    group.round = None
    group.partition_counts = rejoin_cause.partition_counts(group, step.state.image)
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
        members=tuple(events.of_member(one, now) for one in group.members.values()),
        before=current.before,
        topics=group.partition_counts,
        settings=step.state.settings,
    )


def left(step: Step, group: ClassicGroup, member: Member, reason: str | None) -> None:
    """A member is about to leave by itself."""
    _departs(group, member)
    step.event(events.MEMBER_LEFT, group.group_id, member=events.of_member(member, step.now), reason=reason)


def replaced(step: Step, group: ClassicGroup, member: Member, old_id: str, reason: str | None) -> None:
    """A static member has come back under a new id."""
    if group.round is not None and old_id in group.round.before:
        group.round.before[member.member_id] = group.round.before.pop(old_id)
    facts = events.of_member(member, step.now)
    step.event(events.MEMBER_REPLACED, group.group_id, member=facts, replaced=old_id, reason=reason)


def removed(step: Step, group: ClassicGroup, member: Member, cause: str) -> None:
    """A member is about to be removed because of `cause`."""
    _departs(group, member)
    facts = events.of_member(member, step.now)
    if cause == events.SESSION_EXPIRED:
        # its deadline has just rung, and is off
        due_ms = step.state.deadlines.rang_ms
        heard_ms = facts.joined_ms if member.is_new else events.heard_ms(member, due_ms, step.now)
        step.event(events.MEMBER_EXPIRED, group.group_id, member=facts._replace(heard_ms=heard_ms))
    else:
        step.event(events.MEMBER_REMOVED, group.group_id, member=facts, cause=cause)


def _tell_late_syncs(step: Step, group: ClassicGroup) -> None:
    synced, group.late_syncs = group.late_syncs, {}
    step.event(events.MEMBERS_SYNCED, group.group_id, generation=group.generation, synced=synced)


def _departs(group: ClassicGroup, member: Member) -> None:
    if group.round is None:  # else its assignment is remembered there
        group.departed[member.member_id] = member.assignment


def _round(group: ClassicGroup) -> Round:
    return cast("Round", group.round)  # there is one from `rebalance_started` on
