"""The events of a streams group for the history: one function for each kind of event. This module decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from muster.assignors.sticky_tasks import Task
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Trigger
from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.streams.group import STREAMS, StreamsGroup
from muster.coordinator.groups.streams.member import Position, StreamsMember
from muster.coordinator.groups.streams.target import ASSIGNOR, ComputedTarget
from muster.coordinator.groups.streams.tasks import Tasks

MAX_TOPICS: Final = 20
"""How many changed topics are reported."""
MAX_NAMES: Final = 100
"""How many source topics of a new member are reported."""


class Before(NamedTuple):
    """What a group was before a heartbeat. `is_new_hash`, `is_own`: topics, or fields of the sender, have changed."""

    state: str
    epoch: int
    topics: Mapping[str, TopicImage] | None
    is_new_hash: bool
    is_own: bool


class Settling:
    """The facts since the first epoch that not all members have reached."""

    __slots__ = (
        "assigned", "began_ms", "bumped_ms", "cause", "causes", "changed", "epochs", "first_epoch", "freed_ms",
        "paused_ms", "revoked", "trigger",
    )  # fmt: skip

    def __init__(self, epoch: int, now_ms: int, cause: str, trigger: Trigger | None) -> None:
        self.first_epoch = epoch
        self.began_ms = self.bumped_ms = now_ms
        self.cause, self.trigger = cause, trigger
        self.causes: dict[str, int] = {}
        self.epochs = self.revoked = self.assigned = self.paused_ms = 0
        self.changed: set[str] = set()
        self.freed_ms: dict[Task, int] = {}
        """When each active task lost its member, while nobody has it."""


def _session_ms(step: Step, group: StreamsGroup) -> int:
    return step.state.configs.of_streams(group.group_id).session_timeout_ms


def beaten(
    step: Step,
    group: StreamsGroup,
    member_id: str,
    replaced: StreamsMember | None,
    is_new: bool,  # of one caller
    before: Before,
    computed: ComputedTarget | None,
) -> None:
    """Report what a heartbeat has changed: a member, the epoch, the targets."""
    member = group.members[member_id]
    if replaced is not None:
        facts = member.facts(_session_ms(step, group))
        step.event(events.MEMBER_REPLACED, group.group_id, member=facts, replaced=replaced.member_id, reason=None)
    elif is_new:
        _joined(step, group, member)
    if group.epoch > before.epoch:
        cause = events.TOPICS_CHANGED
        if replaced is not None:
            cause = events.STATIC_MEMBER_BACK
        elif is_new:
            cause = events.NEW_MEMBER
        elif before.is_own:
            cause = events.SUBSCRIPTION_CHANGED
        elif not before.is_new_hash:
            cause = events.ASKED
        epoch_bumped(step, group, cause, member, before)
    if computed is not None:
        target_assigned(step, group, computed)


def _joined(step: Step, group: StreamsGroup, member: StreamsMember) -> None:
    names = [] if group.topology is None else sorted(group.topology.of_source)[:MAX_NAMES]
    step.event(
        events.MEMBER_JOINED,
        group.group_id,
        member=member.facts(_session_ms(step, group)),
        protocol_type=STREAMS,
        reason=None,
        protocol=STREAMS,
        subscribed=names,
        pattern=None,
        assignor=None,
    )


def away(step: Step, group: StreamsGroup, member: StreamsMember) -> None:
    """Report that a static member will return."""
    step.event(events.MEMBER_AWAY, group.group_id, member=member.facts(_session_ms(step, group)))


def removed(step: Step, group: StreamsGroup, member: StreamsMember, cause: str) -> None:
    """Report that this member is about to be removed."""
    facts = member.facts(_session_ms(step, group))
    if cause == events.LEFT:
        step.event(events.MEMBER_LEFT, group.group_id, member=facts, reason=None)
    elif cause == events.SESSION_EXPIRED:
        step.event(events.MEMBER_EXPIRED, group.group_id, member=facts)
    else:
        step.event(events.MEMBER_REMOVED, group.group_id, member=facts, cause=cause)


def epoch_bumped(step: Step, group: StreamsGroup, cause: str, member: StreamsMember, before: Before) -> None:
    """Report a new epoch, which this member caused unless topics or settings are the cause."""
    trigger = None if cause in (events.TOPICS_CHANGED, events.ASKED) else member.trigger
    settling, now_ms = group.settling, step.now.mono_ms
    if not group.members:
        settling = group.settling = None
    elif settling is None:
        settling = group.settling = Settling(group.epoch, now_ms, cause, trigger)
    if settling is not None:
        settling.bumped_ms = now_ms
        settling.epochs += 1
        settling.causes[cause] = settling.causes.get(cause, 0) + 1
    step.event(
        events.EPOCH_BUMPED,
        group.group_id,
        epoch=group.epoch,
        cause=cause,
        trigger=trigger,
        members=len(group.members),
        topics=_changed_topics(group, before.topics, step.state.image) if cause == events.TOPICS_CHANGED else [],
        state=before.state,
    )


def _changed_topics(
    group: StreamsGroup, before: Mapping[str, TopicImage] | None, image: TopicsImage
) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name in () if before is None or group.topology is None else group.topology.topics:
        then, now = (before or {}).get(name), image.by_name.get(name)
        had, has = (0 if one is None else one.partitions for one in (then, now))
        again = then is not None and now is not None and then.topic_id != now.topic_id
        if (had != has or again) and len(rows) < MAX_TOPICS:
            rows.append({"topic": name, "before": had, "now": has, "made_again": again})
    return rows


def target_assigned(step: Step, group: StreamsGroup, computed: ComputedTarget) -> None:
    """Report that the group's new targets are in force. Subtopologies have the places of topics."""
    settling, now_ms = group.settling, step.now.mono_ms
    names = (
        {}
        if group.topology is None
        else {name.encode(): f"subtopology {name}" for name in group.topology.subtopologies}
    )
    step.event(
        events.TARGET_ASSIGNED,
        group.group_id,
        epoch=group.assignment_epoch,
        assignor=ASSIGNOR.name,
        took_ms=0,
        since_epoch_ms=0 if settling is None else now_ms - settling.bumped_ms,
        members=len(group.members),
        topics=0 if group.topology is None else len(group.topology.of_source),
        changes=tuple([(one, _rows(before), _rows(its)) for one, before, its in computed.changes]),
        names=TopicsImage({}, 0, names),
    )


def _rows(tasks: Tasks) -> tuple[tuple[bytes, tuple[int, ...]], ...]:
    return tuple([(name.encode(), tuple(sorted(its))) for name, its in sorted(tasks.active.items())])


def moved(step: Step, group: StreamsGroup, member: StreamsMember, before: Position) -> None:
    """Note a member's new position. Report the end of the rebalance when all members have reached their targets."""
    settling, now_ms = group.settling, step.now.mono_ms
    if settling is None:
        return
    had, has = _active(before), _active(member.position)
    for task in has - had:
        settling.paused_ms += now_ms - settling.freed_ms.pop(task, now_ms)
    settling.freed_ms.update(dict.fromkeys(had - has, now_ms))
    settling.revoked += len(had - has)
    settling.assigned += len(has - had)
    if had != has:
        settling.changed.add(member.member_id)
    epoch = group.assignment_epoch
    if group.epoch != epoch or not all(one.is_reconciled(epoch) for one in group.members.values()):
        return
    group.settling = None
    step.event(
        events.EPOCH_RECONCILED,
        group.group_id,
        epoch=epoch,
        first_epoch=settling.first_epoch,
        epochs=settling.epochs,
        cause=settling.cause,
        trigger=settling.trigger,
        causes=settling.causes,
        assignor=ASSIGNOR.name,
        took_ms=now_ms - settling.began_ms,
        members=len(group.members),
        changed=len(settling.changed),
        revoked=settling.revoked,
        assigned=settling.assigned,
        partitions=sum([len(its) for one in group.targets.values() for its in one.active.values()]),
        paused_partition_ms=settling.paused_ms,
        slowest=[],
        waited_for=[],
    )


def _active(position: Position) -> set[Task]:
    return {(name, number) for name, its in position.assigned.active.items() for number in its}
