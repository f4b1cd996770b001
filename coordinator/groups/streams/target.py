"""The targets of a streams group in a new epoch. Heartbeats and the initial delay cause the computation.

This module changes nothing. Kafka: TargetAssignmentBuilder of streams groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from muster.assignors.java_order import string_order
from muster.assignors.sticky_tasks import StickyTaskAssignor, TaskCount, TaskMember
from muster.coordinator.groups.common import kafka_order
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.streams import records
from muster.coordinator.groups.streams.group import StreamsGroup
from muster.coordinator.groups.streams.internal_topics import Configured
from muster.coordinator.groups.streams.member import Description
from muster.coordinator.groups.streams.tasks import NO_TASKS, NONE, Held, Tasks, without_epochs
from muster.coordinator.state_machine.interface import Record

ASSIGNOR: Final = StickyTaskAssignor()
STANDBY_REPLICAS: Final = "num.standby.replicas"
"""The setting of the number of standby copies, as in the record of the group."""
RACK_TAGS: Final = "rack.aware.assignment.tags"
"""The setting of the client tags that standby copies have to differ in, as in the record of the group."""


class Candidate(NamedTuple):
    """A member for which targets are computed."""

    member_id: str
    description: Description
    assigned: Held
    offsets: Mapping[str, Mapping[int, int]] = NONE
    """The sums of changelog offsets that the member reported."""


class ComputedTarget(NamedTuple):
    """New targets, and the records for them."""

    targets: Mapping[str, Tasks]
    changes: Sequence[tuple[str, Tasks, Tasks]]
    """Member id, target before and new target of each member whose target changes."""
    records: Sequence[Record]


def configs_of(step: Step, group_id: str) -> dict[str, str]:
    """The settings of the assignment that apply to the group now, as its record has them."""
    times = step.state.configs.of_streams(group_id)
    made = {STANDBY_REPLICAS: str(times.standby_replicas)}
    if times.rack_tags:
        made[RACK_TAGS] = ",".join(times.rack_tags)
    return made


def is_in_time(step: Step, group: StreamsGroup) -> bool:
    """Whether the interval between two assignments is over."""
    interval_ms = step.state.configs.of_streams(group.group_id).assignment_interval_ms
    return not group.assignment_ms or not interval_ms or step.now.wall_ms >= group.assignment_ms + interval_ms


def candidates(group: StreamsGroup, sender: Candidate | None, replaced: str | None) -> list[Candidate]:
    """All members, in Kafka's order, with the sender of this heartbeat instead of the member that it replaces."""
    made = [
        Candidate(one, group.members[one].description, group.members[one].position.assigned, _sums(group, one))
        for one in group.member_ids()
        if one != replaced and (sender is None or one != sender.member_id)
    ]
    if sender is None:
        return made
    by_id = {one.member_id: one for one in [*made, sender]}
    slots = group.slots
    if sender.member_id not in group.members:
        slots = kafka_order.slots_after(slots, len(group.members))
    return [by_id[one] for one in kafka_order.timeline(by_id, slots)]


def compute(
    step: Step,
    group: StreamsGroup,
    epoch: int,
    members: Sequence[Candidate],
    before: Mapping[str, Tasks],
    configured: Configured,
    configs: Mapping[str, str],
) -> ComputedTarget:
    """Compute the targets of this epoch. `before`: the present targets of the members."""
    shares = {}
    if configured.status is None:
        counts = {name: TaskCount(one.tasks, bool(one.changelogs)) for name, one in configured.subtopologies.items()}
        shares = ASSIGNOR.assign(
            [_task_member(one) for one in members], counts, int(configs.get(STANDBY_REPLICAS, "0"))
        )
    targets, changes, made = {}, [], []
    for member_id in string_order([one.member_id for one in members]):
        had, share = before.get(member_id), shares.get(member_id)
        its = NO_TASKS
        if share is not None:
            active = {name: frozenset(numbers) for name, numbers in share.active.items()}
            standby = {name: frozenset(numbers) for name, numbers in share.standby.items()}
            its = Tasks(active, standby)
        targets[member_id] = its
        if its != had:
            changes.append((member_id, had or NO_TASKS, its))
            made.append(records.target(group.group_id, member_id, its))
    made.append(records.target_epoch(group.group_id, epoch, step.now.wall_ms))
    return ComputedTarget(targets, changes, made)


def _task_member(one: Candidate) -> TaskMember:
    assigned = one.assigned
    return TaskMember(
        one.member_id, one.description.process_id, without_epochs(assigned.active), assigned.standby, one.offsets
    )


def _sums(group: StreamsGroup, member_id: str) -> Mapping[str, Mapping[int, int]]:
    offsets = group.offsets.get(member_id)
    return NONE if offsets is None else offsets[0]
