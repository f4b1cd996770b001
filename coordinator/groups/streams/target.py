"""The targets of a streams group in a new epoch. Heartbeats and the initial delay cause the computation.

This module changes nothing, and a thread may compute large targets. Kafka: TargetAssignmentBuilder of streams groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from muster.assignors.java_order import string_order
from muster.assignors.sticky_tasks import StickyTaskAssignor, TaskCount, TaskMember
from muster.coordinator.groups.common import kafka_order
from muster.coordinator.groups.common.state import State, Step, with_bytes
from muster.coordinator.groups.streams import records
from muster.coordinator.groups.streams.group import StreamsGroup
from muster.coordinator.groups.streams.internal_topics import Configured
from muster.coordinator.groups.streams.member import Description
from muster.coordinator.groups.streams.tasks import NO_TASKS, NONE, Held, Tasks, without_epochs
from muster.coordinator.state_machine.interface import Record
from muster.protocol.message import Message

ASSIGNOR: Final = StickyTaskAssignor()
STANDBY_REPLICAS: Final = "num.standby.replicas"
"""The setting of the number of standby copies, as in the record of the group."""
RACK_TAGS: Final = "rack.aware.assignment.tags"
"""The setting of the client tags that standby copies have to differ in, as in the record of the group."""
AT_ONCE: Final = 500
"""The targets of up to this many members, tasks and standby copies are computed at once, in some 4 ms."""


class Candidate(NamedTuple):
    """A member for which targets are computed."""

    member_id: str
    description: Description
    assigned: Held
    offsets: Mapping[str, Mapping[int, int]] = NONE
    """The sums of changelog offsets that the member reported."""


TaskRows = tuple[tuple[bytes, tuple[int, ...]], ...]
"""Subtopologies as bytes, ascending, with ascending partition numbers: active tasks in an event."""


def task_rows(tasks: Tasks) -> TaskRows:
    """The active tasks for an event."""
    return tuple([(name.encode(), tuple(sorted(its))) for name, its in sorted(tasks.active.items())])


class ComputedTarget(NamedTuple):
    """New targets, and the records for them."""

    targets: Mapping[str, Tasks]
    changes: Sequence[tuple[str, TaskRows, TaskRows]]
    """Member id, active tasks before and now of each member whose target changes."""
    records: Sequence[Record]
    """A record for each change, in the same order."""


@dataclass(slots=True, eq=False, repr=False)
class TasksWanted(Message):
    """The request to compute targets. If they are large, it leaves the core like a reply, when the log is durable.

    Its values never change, so a thread can read them.
    """

    group_id: str
    epoch: int
    present: Mapping[str, Candidate]
    """The members, without the one that the sender replaces. The sender is last if it is new."""
    slots: int
    """The slots of Kafka's table of members, as in `EpochGroup`."""
    newcomer: str | None
    """The sender, if it is new."""
    before: Mapping[str, Tasks]
    """The targets in force."""
    configured: Configured
    replicas: int
    """The number of standby copies of each task with state."""
    assignor: str = ASSIGNOR.name

    def is_large(self) -> bool:
        """Whether a thread should compute the targets."""
        size = len(self.present)
        if self.configured.status is None:
            rows = self.configured.subtopologies.values()
            size += sum([row.tasks * (1 + (self.replicas if row.changelogs else 0)) for row in rows])
        return size > AT_ONCE


class TasksComputed(NamedTuple):
    """The command with the result of a TasksWanted. `computed` is None when the computation failed."""

    wanted: TasksWanted
    computed: ComputedTarget | None


def configs_of(state: State, group_id: str) -> dict[str, str]:
    """The settings of the assignment that apply to the group now, as its record has them."""
    times = state.configs.of_streams(group_id)
    made = {STANDBY_REPLICAS: str(times.standby_replicas)}
    if times.rack_tags:
        made[RACK_TAGS] = ",".join(times.rack_tags)
    return made


def is_in_time(step: Step, group: StreamsGroup) -> bool:
    """Whether the interval between two assignments is over."""
    interval_ms = step.state.configs.of_streams(group.group_id).assignment_interval_ms
    return not group.assignment_ms or not interval_ms or step.now.wall_ms >= group.assignment_ms + interval_ms


def wanted(
    group: StreamsGroup,
    epoch: int,
    configured: Configured,
    configs: Mapping[str, str],
    sender: Candidate | None = None,
    replaced: str | None = None,
) -> TasksWanted:
    """The request for the targets of this epoch. `sender`: as it will be after this heartbeat, with the targets of the
    member that it replaces.
    """
    present = {
        one: Candidate(one, member.description, member.position.assigned, _sums(group, one))
        for one, member in group.members.items()
        if one != replaced
    }
    before = dict(group.targets)
    newcomer = None
    if sender is not None:
        newcomer = None if sender.member_id in present else sender.member_id
        present[sender.member_id] = sender
        if replaced is not None:
            before[sender.member_id] = before.get(replaced, NO_TASKS)
    replicas = int(configs.get(STANDBY_REPLICAS, "0"))
    return TasksWanted(group.group_id, epoch, present, group.slots, newcomer, before, configured, replicas)


def compute(wanted: TasksWanted) -> ComputedTarget:
    """Compute the targets, and prepare their records. A thread may call this function."""
    present, shares = wanted.present, {}
    if wanted.configured.status is None:
        subtopologies = wanted.configured.subtopologies.items()
        counts = {name: TaskCount(one.tasks, bool(one.changelogs)) for name, one in subtopologies}
        shares = ASSIGNOR.assign([_task_member(present[one]) for one in _in_order(wanted)], counts, wanted.replicas)
    targets, changes, made = {}, [], []
    for member_id in string_order(present):
        had, share = wanted.before.get(member_id), shares.get(member_id)
        its = NO_TASKS
        if share is not None:
            active = {name: frozenset(numbers) for name, numbers in share.active.items()}
            standby = {name: frozenset(numbers) for name, numbers in share.standby.items()}
            its = Tasks(active, standby)
        targets[member_id] = its
        if its != had:
            changes.append((member_id, task_rows(had or NO_TASKS), task_rows(its)))
            made.append(with_bytes(records.target(wanted.group_id, member_id, its)))
    return ComputedTarget(targets, changes, made)


def computed(wanted: TasksWanted) -> TasksComputed:
    """The result of a request, for the core."""
    return TasksComputed(wanted, compute(wanted))


def _in_order(wanted: TasksWanted) -> list[str]:
    """The members in Kafka's order of iteration: a new member is last."""
    newcomer = wanted.newcomer
    ids = kafka_order.timeline([one for one in wanted.present if one != newcomer], wanted.slots)
    return ids if newcomer is None else [*ids, newcomer]


def _task_member(one: Candidate) -> TaskMember:
    assigned = one.assigned
    return TaskMember(
        one.member_id, one.description.process_id, without_epochs(assigned.active), assigned.standby, one.offsets
    )


def _sums(group: StreamsGroup, member_id: str) -> Mapping[str, Mapping[int, int]]:
    offsets = group.offsets.get(member_id)
    return NONE if offsets is None else offsets[0]
