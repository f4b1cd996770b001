"""The events of a streams group for the history: one function for each kind of event. This module decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from muster.assignors.sticky_tasks import Task
from muster.coordinator.groups.common import epoch_history, events
from muster.coordinator.groups.common.epoch_history import changed_topics
from muster.coordinator.groups.common.events import Trigger
from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.streams import restoration
from muster.coordinator.groups.streams.group import STREAMS, StreamsGroup
from muster.coordinator.groups.streams.internal_topics import Status
from muster.coordinator.groups.streams.member import Position, StreamsMember
from muster.coordinator.groups.streams.target import ASSIGNOR, ComputedTarget
from muster.coordinator.groups.streams.tasks import NO_EPOCHS, NONE, TaskEpochs
from muster.coordinator.groups.streams.topology import Topology, needed_by

MAX_NAMED: Final = 20
"""How many subtopologies without their topics are reported."""
MAX_WAITED: Final = 10
"""How many tasks that nobody had for a while are reported."""


class Before(NamedTuple):
    """What a group was before a heartbeat. `is_new_hash`, `is_own`: topics, or fields of the sender, have changed."""

    state: str
    epoch: int
    topics: Mapping[str, TopicImage] | None
    is_new_hash: bool
    is_own: bool


class Settling(epoch_history.Settling):
    """The facts since the first epoch that not all members have reached."""

    __slots__ = ("freed_ms", "moved", "waited")

    def __init__(self, first_epoch: int, mono_ms: int, cause: str, trigger: Trigger | None) -> None:
        super().__init__(first_epoch, mono_ms, cause, trigger)
        self.moved: set[str] = set()
        """The members with other active tasks than before."""
        self.freed_ms: dict[Task, int] = {}
        """When each active task lost its member, while nobody has it."""
        self.waited: list[tuple[int, Task, str]] = []
        """How long nobody had a task, and the member that has it now; at most MAX_WAITED, the longest first."""


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
    names = [] if group.topology is None else sorted(group.topology.of_source)
    epoch_history.joined(step, group.group_id, member.facts(_session_ms(step, group)), STREAMS, names)


def away(step: Step, group: StreamsGroup, member: StreamsMember) -> None:
    """Report that a static member will return."""
    step.event(events.MEMBER_AWAY, group.group_id, member=member.facts(_session_ms(step, group)))


def removed(step: Step, group: StreamsGroup, member: StreamsMember, cause: str) -> None:
    """Report that this member is about to be removed."""
    epoch_history.removed(step, group.group_id, member.facts(_session_ms(step, group)), cause)


def epoch_bumped(step: Step, group: StreamsGroup, cause: str, member: StreamsMember, before: Before) -> None:
    """Report a new epoch, which this member caused unless topics or settings are the cause."""
    trigger = None if cause in (events.TOPICS_CHANGED, events.ASKED) else member.trigger
    if not group.members:
        group.settling = group.unready = None
    elif group.settling is None:
        group.settling = Settling(group.epoch, step.now.mono_ms, cause, trigger)
    topics = []
    if cause == events.TOPICS_CHANGED and group.topology is not None:
        topics = changed_topics(group.topology.topics, before.topics, step.state.image)
    epoch_history.epoch_bumped(step, group, group.settling, cause, trigger, topics, before.state)


def target_assigned(step: Step, group: StreamsGroup, computed: ComputedTarget) -> None:
    """Report that the group's new targets are in force. Subtopologies have the places of topics."""
    topology = group.topology
    names = {} if topology is None else {name.encode(): f"subtopology {name}" for name in topology.subtopologies}
    topics = 0 if topology is None else len(topology.of_source)
    image = TopicsImage({}, 0, names)
    changes = computed.changes
    epoch_history.target_assigned(step, group, group.settling, ASSIGNOR.name, topics, changes, image, unit="task")


def topics_checked(step: Step, group: StreamsGroup, topology_epoch: int, status: Status | None) -> None:
    """Report why the topics of the group are not ready, or that they are ready now. A reason is reported once."""
    known = group.unready
    if status is not None and (known is None or known[0] != status.detail):
        group.unready = status.detail, step.now.mono_ms if known is None else known[1]
        step.event(
            events.TOPICS_NOT_READY,
            group.group_id,
            topology_epoch=topology_epoch,
            code=status.code,
            detail=status.detail,
            subtopologies=_without_topics(group.topology, step.state.image),
        )
    elif status is None and known is not None:
        group.unready = None
        took_ms = step.now.mono_ms - known[1]
        step.event(events.TOPICS_READY, group.group_id, topology_epoch=topology_epoch, took_ms=took_ms)


def _without_topics(topology: Topology | None, image: TopicsImage) -> list[str]:
    """The subtopologies that need a topic that does not exist; none if the topics exist, but do not fit together."""
    rows = {} if topology is None else topology.subtopologies
    return [name for name, row in rows.items() if not all(topic in image.by_name for topic in needed_by(row))][
        :MAX_NAMED
    ]


def shut_down(step: Step, group: StreamsGroup, member: StreamsMember) -> None:
    """Report that this member had an error, and wants the whole application to end."""
    step.event(events.APPLICATION_SHUTDOWN, group.group_id, member=member.facts(_session_ms(step, group)))


def offsets_reported(step: Step, group: StreamsGroup, member: StreamsMember) -> None:
    """Report which tasks of this member lack state, and which ones are restored, by the offsets that it reported."""
    if member.restoring:
        restoration.reported(step, group, member, member.facts(_session_ms(step, group)))


def freed(step: Step, group: StreamsGroup, position: Position) -> None:
    """Note that a member with this position is gone, after its epoch was reported."""
    if group.settling is not None:
        group.settling.freed_ms.update(dict.fromkeys(_lacking(position.assigned.active, NONE), step.now.mono_ms))


def moved(step: Step, group: StreamsGroup, member: StreamsMember, before: Position) -> None:
    """Note a member's new position. Report the end of the rebalance when all members have reached their targets."""
    settling: Settling | None = group.settling
    if settling is None:
        return
    had, has, now_ms = before.assigned.active, member.position.assigned.active, step.now.mono_ms
    lost, gained = _lacking(had, has), _lacking(has, had)
    for task in gained:
        unowned_ms = now_ms - settling.freed_ms.pop(task, now_ms)
        settling.paused_ms += unowned_ms
        if unowned_ms:
            settling.waited.append((unowned_ms, task, member.member_id))
    settling.waited.sort(key=lambda one: (-one[0], one[1]))
    del settling.waited[MAX_WAITED:]
    settling.freed_ms.update(dict.fromkeys(lost, now_ms))
    settling.revoked += len(lost)
    settling.assigned += len(gained)
    if lost or gained:
        settling.moved.add(member.member_id)
        settling.changed = len(settling.moved)
    epoch = group.assignment_epoch
    if group.epoch != epoch or not all(one.is_reconciled_to(epoch) for one in group.members.values()):
        return
    group.settling = None
    tasks = sum([len(its) for one in group.targets.values() for its in one.active.values()])
    waited = [
        {"task": f"{name}_{number}", "unowned_ms": ms, "member": to} for ms, (name, number), to in settling.waited
    ]
    epoch_history.reconciled(step, group, settling, ASSIGNOR.name, tasks, unit="task", tasks=waited)


def _lacking(tasks: TaskEpochs, others: TaskEpochs) -> list[Task]:
    """The active tasks that are not among the others."""
    return [(name, number) for name, its in tasks.items() for number in its.keys() - others.get(name, NO_EPOCHS).keys()]
