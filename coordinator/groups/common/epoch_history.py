"""The events that groups with epochs have in common, for the history. This module decides nothing.

A group has several epochs until all members have reached their targets; `Settling` has the facts of this time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.epoch_group import EpochGroup
from muster.coordinator.groups.common.events import MemberFacts, Trigger
from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.groups.common.state import Step

MAX_TOPICS: Final = 20
"""How many changed topics are reported."""
MAX_NAMES: Final = 100
"""How many topics of a new member's subscription are reported."""


class Settling:
    """The facts since the first epoch that not all members have reached. Times are monotonic ms.

    `cause` and `trigger`: of the first epoch; None if this core did not see it. `causes`: number of epochs by cause.
    `changed`: members with other partitions than before. `paused_ms`: the sum of times in which nobody had a partition.
    """

    __slots__ = (
        "assigned", "began_ms", "bumped_ms", "cause", "causes", "changed", "epochs", "first_epoch", "paused_ms",
        "revoked", "trigger",
    )  # fmt: skip

    def __init__(self, first_epoch: int, mono_ms: int, cause: str | None, trigger: Trigger | None) -> None:
        self.first_epoch = first_epoch
        self.began_ms = self.bumped_ms = mono_ms
        self.cause, self.trigger = cause, trigger
        self.causes: dict[str, int] = {}
        self.epochs = self.changed = self.revoked = self.assigned = self.paused_ms = 0

    def bumped(self, cause: str, mono_ms: int) -> None:
        """Note a new epoch."""
        self.bumped_ms = mono_ms
        self.epochs += 1
        self.causes[cause] = self.causes.get(cause, 0) + 1


def joined(
    step: Step,
    group_id: str,
    facts: MemberFacts,
    kind: str,
    topics: Sequence[str],
    protocol: str | None = None,
    reason: str | None = None,
    pattern: str | None = None,
    assignor: str | None = None,
) -> None:
    """Report a new member. `kind`: the type of its group, which is also the protocol unless another one is given."""
    step.event(
        events.MEMBER_JOINED,
        group_id,
        member=facts,
        protocol_type=kind,
        reason=reason,
        protocol=protocol or kind,
        subscribed=list(topics[:MAX_NAMES]),
        pattern=pattern,
        assignor=assignor,
    )


def removed(step: Step, group_id: str, facts: MemberFacts, cause: str, reason: str | None = None) -> None:
    """Report that this member is about to be removed. `reason`: the client's, if the member leaves."""
    if cause == events.LEFT:
        step.event(events.MEMBER_LEFT, group_id, member=facts, reason=reason)
    elif cause == events.SESSION_EXPIRED:
        step.event(events.MEMBER_EXPIRED, group_id, member=facts)
    else:
        step.event(events.MEMBER_REMOVED, group_id, member=facts, cause=cause)


def epoch_bumped(
    step: Step,
    group: EpochGroup[Any, Any],
    settling: Settling | None,
    cause: str,
    trigger: Trigger | None,
    topics: list[dict[str, object]],
    state: str,
) -> None:
    """Report a new epoch, and note it in the facts. `state`: the state of the group before this step."""
    if settling is not None:
        settling.bumped(cause, step.now.mono_ms)
    step.event(
        events.EPOCH_BUMPED,
        group.group_id,
        epoch=group.epoch,
        cause=cause,
        trigger=trigger,
        members=len(group.members),
        topics=topics,
        state=state,
    )


def changed_topics(
    names: Iterable[str], before: Mapping[str, TopicImage] | None, image: TopicsImage
) -> list[dict[str, object]]:
    """The topics of these names that have changed. `before`: all topics before the change; None if not known."""
    rows: list[dict[str, object]] = []
    if before is None or before is image.by_name:
        return rows
    for name in names:
        if len(rows) == MAX_TOPICS:
            break
        then, now = before.get(name), image.by_name.get(name)
        if then is not now:
            had, has = (0 if one is None else one.partitions for one in (then, now))
            again = then is not None and now is not None and then.topic_id != now.topic_id
            if had != has or again:
                rows.append({"topic": name, "before": had, "now": has, "made_again": again})
    return rows


def target_assigned(
    step: Step,
    group: EpochGroup[Any, Any],
    settling: Settling | None,
    assignor: str,
    topics: int,
    changes: Iterable[tuple[str, Any, Any]],
    names: TopicsImage,
    took_ms: int = 0,
    **more: object,
) -> None:
    """Report that the group's new targets are in force. `changes`: a member's id, its previous and its new target."""
    step.event(
        events.TARGET_ASSIGNED,
        group.group_id,
        epoch=group.assignment_epoch,
        assignor=assignor,
        took_ms=took_ms,
        since_epoch_ms=0 if settling is None else step.now.mono_ms - settling.bumped_ms,
        members=len(group.members),
        topics=topics,
        changes=tuple(changes),
        names=names,
        **more,
    )


def reconciled(
    step: Step,
    group: EpochGroup[Any, Any],
    settling: Settling,
    assignor: str | None,
    partitions: int,
    slowest: Sequence[object] = (),
    waited_for: Sequence[object] = (),
    **more: object,
) -> None:
    """Report that all members have reached their targets. `partitions`: how many are assigned. `more`: other facts."""
    step.event(
        events.EPOCH_RECONCILED,
        group.group_id,
        epoch=group.assignment_epoch,
        first_epoch=settling.first_epoch,
        epochs=settling.epochs,
        cause=settling.cause,
        trigger=settling.trigger,
        causes=settling.causes,
        assignor=assignor,
        took_ms=None if settling.cause is None else step.now.mono_ms - settling.began_ms,
        members=len(group.members),
        changed=settling.changed,
        revoked=settling.revoked,
        assigned=settling.assigned,
        partitions=partitions,
        paused_partition_ms=settling.paused_ms,
        slowest=list(slowest),
        waited_for=list(waited_for),
        **more,
    )
