"""The events of a consumer group for the history: one function for each kind of event. This module decides nothing.

If thousands of members and partitions move, the first of them are reported, and the others are only counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from muster.coordinator.groups.common import epoch_history, events
from muster.coordinator.groups.common.epoch_history import changed_topics
from muster.coordinator.groups.common.events import MemberFacts, Trigger
from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.consumer.group import CONSUMER, ConsumerGroup
from muster.coordinator.groups.consumer.member import (
    NOTHING,
    STABLE,
    UNREVOKED_PARTITIONS,
    ConsumerMember,
    CurrentAssignment,
    Position,
    TargetAssignment,
    same_partitions,
    trigger_of,
)
from muster.coordinator.groups.consumer.reconciliation_facts import (
    MAX_SLOWEST,
    MemberProgress,
    ReconciliationFacts,
    is_settled,
    size,
)

MAX_MEMBER_EVENTS: Final = 20
"""How many members of one reconciliation have their own event."""
MAX_PARTITIONS: Final = 100
"""How many revoked partitions of a member are listed."""

Change = tuple[str, TargetAssignment, TargetAssignment]
"""A member with a new target: the member id, the previous target, the new target."""


# ---- members


def _facts(step: Step, member: ConsumerMember) -> MemberFacts:
    description, classic = member.description, member.description.classic
    session_ms = (
        step.state.settings.group_consumer_session_timeout_ms if classic is None else classic.session_timeout_ms
    )
    return MemberFacts(
        member.member_id, description.instance_id, description.client_id, description.client_host, session_ms,
        description.rebalance_timeout_ms, () if classic is None else classic.protocols, None, None, None, b"",
    )  # fmt: skip


def joined(step: Step, group: ConsumerGroup, member: ConsumerMember, reason: str | None = None) -> None:
    """Report a new member."""
    description = member.description
    epoch_history.joined(
        step,
        group.group_id,
        _facts(step, member),
        CONSUMER,
        description.topics,
        None if description.classic is None else "classic",
        reason,
        description.pattern or None,
        description.assignor,
    )


def replaced(step: Step, group: ConsumerGroup, old: ConsumerMember, member: ConsumerMember) -> None:
    """Report the new id of a static member."""
    if group.reconciliation is not None:
        group.reconciliation.members.pop(old.member_id, None)
    facts = _facts(step, member)
    step.event(events.MEMBER_REPLACED, group.group_id, member=facts, replaced=old.member_id, reason=None)


def static_member_left(step: Step, group: ConsumerGroup, member: ConsumerMember) -> None:
    """Report a static member that has left and will return (epoch -2)."""
    step.event(events.MEMBER_AWAY, group.group_id, member=_facts(step, member))
    if group.reconciliation is not None:
        group.reconciliation.released(member.member_id, step.now.mono_ms)
        if is_settled(group):
            _finished(step, group, group.reconciliation)


def members_removed(
    step: Step, group: ConsumerGroup, members: Iterable[ConsumerMember], cause: str, reasons: Any
) -> None:
    """Report that these members are about to be removed. `reasons`: the clients' reasons, by member id."""
    reconciliation = _reconciliation(step, group)
    for member in members:
        reconciliation.hand_over(member.position.assigned, NOTHING, step.now.mono_ms)
        reason = None if reasons is None else reasons.get(member.member_id)
        epoch_history.removed(step, group.group_id, _facts(step, member), cause, reason)
        reconciliation.members.pop(member.member_id, None)
        reconciliation.released(member.member_id, step.now.mono_ms)


# ---- epochs and targets


def epoch_bumped(
    step: Step,
    group: ConsumerGroup,
    cause: str,
    by: Trigger | None = None,
    before: Mapping[str, TopicImage] | None = None,
    state: str | None = None,
) -> None:
    """Report a new epoch. `before`: if changed topics are the cause, all topics before the change, if known."""
    reconciliation = group.reconciliation
    if not group.members:
        reconciliation = group.reconciliation = None
    elif reconciliation is None:
        reconciliation = group.reconciliation = ReconciliationFacts(group.epoch, step.now.mono_ms, cause, by)
    if reconciliation is not None and not reconciliation.epochs:
        # `members_removed` may have made the facts before the first new epoch.
        reconciliation.first_epoch, reconciliation.cause, reconciliation.trigger = group.epoch, cause, by
    topics = changed_topics(group.names, before, step.state.image)
    epoch_history.epoch_bumped(step, group, reconciliation, cause, by, topics, state or group.state)


def target_requested(step: Step, group: ConsumerGroup) -> None:
    """Note that the targets of the epoch are being computed outside the core."""
    _reconciliation(step, group).wanted_ms = step.now.mono_ms


def target_assigned(step: Step, group: ConsumerGroup, assignor: str, changes: Sequence[Change]) -> None:
    """Report that the group's new targets are in force."""
    reconciliation, now_ms = _reconciliation(step, group), step.now.mono_ms
    took_ms = 0 if reconciliation.wanted_ms is None else now_ms - reconciliation.wanted_ms
    reconciliation.wanted_ms, reconciliation.target_ms, reconciliation.assignor = None, now_ms, assignor
    epoch_history.target_assigned(
        step, group, reconciliation, assignor, len(group.names), changes, step.state.image, took_ms
    )


def target_failed(step: Step, group: ConsumerGroup, epoch: int, assignor: str) -> None:
    """Report that the assignor could not compute the targets."""
    reconciliation, now_ms = _reconciliation(step, group), step.now.mono_ms
    took_ms = 0 if reconciliation.wanted_ms is None else now_ms - reconciliation.wanted_ms
    reconciliation.wanted_ms = None
    step.event(events.TARGET_FAILED, group.group_id, epoch=epoch, assignor=assignor, took_ms=took_ms)


def _reconciliation(step: Step, group: ConsumerGroup) -> ReconciliationFacts:
    """The facts of the present reconciliation; new facts if the reconciliation began before this core was loaded."""
    reconciliation: ReconciliationFacts | None = group.reconciliation
    if reconciliation is None:
        reconciliation = group.reconciliation = ReconciliationFacts(group.epoch, step.now.mono_ms, None, None)
    return reconciliation


# ---- steps towards the target


def position_changed(step: Step, group: ConsumerGroup, member: ConsumerMember, before: Position) -> None:
    """Report a step of a member towards its target."""
    reconciliation, now_ms, after, member_id = (
        _reconciliation(step, group),
        step.now.mono_ms,
        member.position,
        member.member_id,
    )
    progress = reconciliation.members.get(member_id)
    reconciliation.hand_over(before.assigned, after.assigned, now_ms)
    if progress is not None or after.state != STABLE or not same_partitions(before.assigned, after.assigned):
        if progress is None:
            progress = reconciliation.members[member_id] = MemberProgress(
                max(reconciliation.target_ms, reconciliation.began_ms)
            )
        reconciliation.note(group, progress, member, before, now_ms)
    if member_id in reconciliation.owners and after.state != UNREVOKED_PARTITIONS:
        reconciliation.released(member_id, now_ms)
    if after.state == STABLE and after.epoch == group.assignment_epoch:
        if progress is not None:
            del reconciliation.members[member_id]
            _arrived(step, group, reconciliation, progress, member)
        if is_settled(group):
            _finished(step, group, reconciliation)


def _arrived(
    step: Step,
    group: ConsumerGroup,
    reconciliation: ReconciliationFacts,
    progress: MemberProgress,
    member: ConsumerMember,
) -> None:
    revoked = sum([size(one) for one in progress.revoked])
    reconciliation.changed += 1
    reconciliation.revoked += revoked
    reconciliation.assigned += progress.assigned
    took_ms = step.now.mono_ms - progress.began_ms
    row = {
        "member": _named(trigger_of(member.member_id, member)),
        "revoked": revoked,
        "revoking_ms": progress.revoking_ms,
        "assigned": progress.assigned,
        "waited_ms": progress.waited_ms,
        "took_ms": took_ms,
    }
    if len(reconciliation.slowest) < MAX_SLOWEST or took_ms > reconciliation.slowest[-1]["took_ms"]:
        reconciliation.slowest.append(row)
        reconciliation.slowest.sort(key=lambda one: -one["took_ms"])
        del reconciliation.slowest[MAX_SLOWEST:]
    if reconciliation.reported >= MAX_MEMBER_EVENTS:
        return
    reconciliation.reported += 1
    waits_for = sorted(progress.waits_for, key=lambda who: -progress.waits_for[who])[:MAX_SLOWEST]
    step.event(
        events.MEMBER_RECONCILED,
        group.group_id,
        **row,
        epoch=member.position.epoch,
        gave_up=_listed(progress.revoked, step.state.image),
        waited_for=waits_for,
    )


def _finished(step: Step, group: ConsumerGroup, reconciliation: ReconciliationFacts) -> None:
    group.reconciliation = None
    if not (reconciliation.epochs or reconciliation.revoked or reconciliation.assigned):
        return  # only a static member has returned, with its old partitions
    now_ms = step.now.mono_ms
    slow = sorted(reconciliation.owners.values(), key=lambda one: (one.until_ms or now_ms) - one.since_ms, reverse=True)
    waited_for = [
        {"member": _named(one.who), "partitions": one.partitions, "took_ms": (one.until_ms or now_ms) - one.since_ms}
        for one in slow[:MAX_SLOWEST]
    ]
    partitions = sum([len(of_topic) for of_topic in group.owners.values()])
    epoch_history.reconciled(
        step, group, reconciliation, reconciliation.assignor, partitions, reconciliation.slowest, waited_for
    )


def _named(who: Trigger) -> dict[str, str | None]:
    return {"member": who.member, "instance": who.instance, "client_id": who.client_id, "host": who.host}


def _listed(gave_up: Sequence[CurrentAssignment], image: TopicsImage) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    left = MAX_PARTITIONS
    for current in gave_up:
        for topic_id, partitions, _ in current:
            if left <= 0:
                return rows
            topic = image.by_id.get(topic_id)
            name = image.deleted.get(topic_id) if topic is None else topic.name
            rows.append({"topic": name, "partitions": list(partitions[:left])})
            left -= len(partitions)
    return rows


# ---- changes of the protocol


def upgraded(step: Step, group: ConsumerGroup, by: Trigger) -> None:
    """Report that a classic group has become this consumer group."""
    step.event(events.GROUP_UPGRADED, group.group_id, epoch=group.epoch, members=len(group.members), trigger=by)


def downgraded(step: Step, group: ConsumerGroup, members: int, cause: str, by: Trigger | None) -> None:
    """Report that this group becomes a classic group with `members` members."""
    step.event(
        events.GROUP_DOWNGRADED, group.group_id, epoch=group.epoch, members=members, cause=cause, trigger=by
    )  # fmt: skip
