"""The events of a share group for the history: one function for each kind of event. This module decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Trigger
from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.share.group import SHARE, ShareGroup
from muster.coordinator.groups.share.member import Assigned, ShareMember

MAX_TOPICS: Final = 20
"""How many changed topics are reported."""
MAX_NAMES: Final = 100
"""How many topics of a member's subscription are reported."""
ASSIGNOR: Final = "simple"

Change = tuple[str, Assigned, Assigned]
"""A member with a new target: the member id, the previous target, the new target."""


class Settling:
    """The facts since the first epoch that not all members have reached."""

    __slots__ = (
        "assigned", "began_ms", "bumped_ms", "cause", "causes", "changed", "epochs", "first_epoch", "missing",
        "revoked", "trigger",
    )  # fmt: skip

    def __init__(self, epoch: int, now_ms: int, cause: str, trigger: Trigger | None) -> None:
        self.first_epoch = epoch
        self.began_ms = self.bumped_ms = now_ms
        self.cause, self.trigger = cause, trigger
        self.causes: dict[str, int] = {}
        self.epochs = self.changed = self.revoked = self.assigned = 0
        self.missing: set[str] | None = None
        """The members that do not have their targets yet; None before there are targets."""


def _session_ms(step: Step, group: ShareGroup) -> int:
    return step.state.configs.of_share(group.group_id).session_timeout_ms


def joined(step: Step, group: ShareGroup, member: ShareMember) -> None:
    """Report a new member."""
    step.event(
        events.MEMBER_JOINED,
        group.group_id,
        member=member.facts(_session_ms(step, group)),
        protocol_type=SHARE,
        reason=None,
        protocol=SHARE,
        subscribed=list(member.description.topics[:MAX_NAMES]),
        pattern=None,
        assignor=None,
    )


def removed(step: Step, group: ShareGroup, member: ShareMember, cause: str) -> None:
    """Report that this member is about to be removed."""
    facts = member.facts(_session_ms(step, group))
    if cause == events.LEFT:
        step.event(events.MEMBER_LEFT, group.group_id, member=facts, reason=None)
    else:
        step.event(events.MEMBER_EXPIRED, group.group_id, member=facts)


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
    settling, now_ms = group.settling, step.now.mono_ms
    if not group.members:
        settling = group.settling = None
    elif settling is None:
        settling = group.settling = Settling(group.epoch, now_ms, cause, trigger)
    if settling is not None:
        settling.bumped_ms, settling.missing = now_ms, None
        settling.epochs += 1
        settling.causes[cause] = settling.causes.get(cause, 0) + 1
    step.event(
        events.EPOCH_BUMPED,
        group.group_id,
        epoch=group.epoch,
        cause=cause,
        trigger=trigger,
        members=len(group.members),
        topics=_changed_topics(group, before, step.state.image) if cause == events.TOPICS_CHANGED else [],
        state=state,
    )


def _changed_topics(
    group: ShareGroup, before: Mapping[str, TopicImage] | None, image: TopicsImage
) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name in group.names if before is not None else ():
        then, now = (before or {}).get(name), image.by_name.get(name)
        had, has = (0 if one is None else one.partitions for one in (then, now))
        again = then is not None and now is not None and then.topic_id != now.topic_id
        if (had != has or again) and len(rows) < MAX_TOPICS:
            rows.append({"topic": name, "before": had, "now": has, "made_again": again})
    return rows


def target_assigned(step: Step, group: ShareGroup, changes: Sequence[Change]) -> None:
    """Report that the group's new targets are in force."""
    settling, now_ms = group.settling, step.now.mono_ms
    if settling is not None:
        settling.missing = {one for one, its in group.members.items() if its.position.epoch != group.assignment_epoch}
        settling.changed += len(changes)
        for _, before, its in changes:
            had, has = _partitions(before), _partitions(its)
            settling.revoked += len(had - has)
            settling.assigned += len(has - had)
    step.event(
        events.TARGET_ASSIGNED,
        group.group_id,
        epoch=group.assignment_epoch,
        assignor=ASSIGNOR,
        took_ms=0,
        since_epoch_ms=0 if settling is None else now_ms - settling.bumped_ms,
        members=len(group.members),
        topics=len(group.names),
        changes=tuple(changes),
        names=step.state.image,
    )


def _partitions(its: Assigned) -> set[tuple[bytes, int]]:
    return {(topic_id, number) for topic_id, numbers in its for number in numbers}


def settled(step: Step, group: ShareGroup, member: ShareMember) -> None:
    """Note a member's heartbeat. Report the end of the rebalance when no member lacks its target."""
    settling = group.settling
    if settling is None or settling.missing is None:
        return
    settling.missing.discard(member.member_id)  # a heartbeat always brings a member to its target
    if settling.missing:
        return
    group.settling = None
    step.event(
        events.EPOCH_RECONCILED,
        group.group_id,
        epoch=group.assignment_epoch,
        first_epoch=settling.first_epoch,
        epochs=settling.epochs,
        cause=settling.cause,
        trigger=settling.trigger,
        causes=settling.causes,
        assignor=ASSIGNOR,
        took_ms=step.now.mono_ms - settling.began_ms,
        members=len(group.members),
        changed=settling.changed,
        revoked=settling.revoked,
        assigned=settling.assigned,
        partitions=len({one for its in group.targets.values() for one in _partitions(its)}),
        paused_partition_ms=0,
        slowest=[],
        waited_for=[],
    )
