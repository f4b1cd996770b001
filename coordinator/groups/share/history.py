"""The events of a share group for the history: one function for each kind of event. This module decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from muster.coordinator.groups.common import epoch_history, events
from muster.coordinator.groups.common.epoch_history import changed_topics
from muster.coordinator.groups.common.events import Trigger
from muster.coordinator.groups.common.image import TopicImage
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.share.group import SHARE, ShareGroup
from muster.coordinator.groups.share.member import Assigned, ShareMember

ASSIGNOR: Final = "simple"

Change = tuple[str, Assigned, Assigned]
"""A member with a new target: the member id, the previous target, the new target."""


class Settling(epoch_history.Settling):
    """The facts since the first epoch that not all members have reached."""

    __slots__ = ("missing",)

    def __init__(self, first_epoch: int, mono_ms: int, cause: str, trigger: Trigger | None) -> None:
        super().__init__(first_epoch, mono_ms, cause, trigger)
        self.missing: set[str] | None = None
        """The members that do not have their targets yet; None before there are targets."""


def _session_ms(step: Step, group: ShareGroup) -> int:
    return step.state.configs.of_share(group.group_id).session_timeout_ms


def joined(step: Step, group: ShareGroup, member: ShareMember) -> None:
    """Report a new member."""
    epoch_history.joined(step, group.group_id, member.facts(_session_ms(step, group)), SHARE, member.description.topics)


def removed(step: Step, group: ShareGroup, member: ShareMember, cause: str) -> None:
    """Report that this member is about to be removed."""
    epoch_history.removed(step, group.group_id, member.facts(_session_ms(step, group)), cause)


def epoch_bumped(
    step: Step,
    group: ShareGroup,
    cause: str,
    member: ShareMember,
    before: Mapping[str, TopicImage] | None,
    state: str,
) -> None:
    """Report a new epoch. `before`: all topics when the group last looked at them; None if they are no cause."""
    trigger = None if cause in (events.TOPICS_CHANGED, events.PARTITIONS_READY) else member.trigger
    if not group.members:
        group.settling = None
    elif group.settling is None:
        group.settling = Settling(group.epoch, step.now.mono_ms, cause, trigger)
    if group.settling is not None:
        group.settling.missing = None
    topics = changed_topics(group.names, before, step.state.image) if cause == events.TOPICS_CHANGED else []
    epoch_history.epoch_bumped(step, group, group.settling, cause, trigger, topics, state)


def target_assigned(step: Step, group: ShareGroup, changes: Sequence[Change]) -> None:
    """Report that the group's new targets are in force."""
    settling: Settling | None = group.settling
    if settling is not None:
        settling.missing = {one for one, its in group.members.items() if its.position.epoch != group.assignment_epoch}
        settling.changed += len(changes)
        for _, before, its in changes:
            had, has = _partitions(before), _partitions(its)
            settling.revoked += len(had - has)
            settling.assigned += len(has - had)
    epoch_history.target_assigned(step, group, settling, ASSIGNOR, len(group.names), changes, step.state.image)


def _partitions(its: Assigned) -> set[tuple[bytes, int]]:
    return {(topic_id, number) for topic_id, numbers in its for number in numbers}


def settled(step: Step, group: ShareGroup, member: ShareMember) -> None:
    """Note a member's heartbeat. Report the end of the rebalance when no member lacks its target."""
    settling: Settling | None = group.settling
    if settling is None or settling.missing is None:
        return
    settling.missing.discard(member.member_id)  # a heartbeat always brings a member to its target
    if settling.missing:
        return
    group.settling = None
    partitions = {one for its in group.targets.values() for one in _partitions(its)}
    epoch_history.reconciled(step, group, settling, ASSIGNOR, len(partitions))
