"""Large targets of a streams group, which are computed in the background: the request, and their coming into force.

Meanwhile members keep the targets in force, and each heartbeat is answered at once. Kafka does so while the assignment
interval lasts.
"""

from __future__ import annotations

from muster.coordinator.groups.common.state import Step, pack, size_of
from muster.coordinator.groups.streams import history, records, target
from muster.coordinator.groups.streams.group import StreamsGroup, streams_group
from muster.coordinator.groups.streams.target import ComputedTarget, TaskRows, TasksComputed, TasksWanted
from muster.coordinator.state_machine.interface import Record


def request_targets(step: Step, group: StreamsGroup, wanted: TasksWanted) -> None:
    """Let targets be computed in the background."""
    assert step.state.helpers is not None
    group.computing = wanted
    step.reply(step.state.helpers.compute, wanted)


def bring_up_to_date(step: Step, group: StreamsGroup) -> None:
    """Compute or request the targets of the group's epoch, without a heartbeat."""
    if not group.members or group.configured is None or group.computing or group.epoch <= group.assignment_epoch:
        return
    if not target.is_in_time(step, group):
        return
    wanted = target.wanted(group, group.epoch, group.configured, group.last_configs)
    if step.state.helpers is not None and wanted.is_large():
        request_targets(step, group, wanted)
    else:
        _apply(step, group, wanted, target.compute(wanted))


def computed(step: Step, result: TasksComputed) -> None:
    """Put computed targets in force, unless the group was empty meanwhile. If they failed, the next heartbeat asks."""
    wanted, group = result.wanted, streams_group(step.state, result.wanted.group_id)
    if group is None or group.computing is not wanted:
        return
    group.computing = None
    if result.computed is not None and group.assignment_epoch < wanted.epoch:
        _apply(step, group, wanted, result.computed)


def _apply(step: Step, group: StreamsGroup, wanted: TasksWanted, its: ComputedTarget) -> None:
    """Record targets and their epoch, in one batch. If the batch is too large, the old targets stay in force."""
    made: list[Record] = []
    changes: list[tuple[str, TaskRows, TaskRows]] = []
    for (member_id, had, has), record in zip(its.changes, its.records, strict=True):
        heir = _heir(group, wanted, member_id)
        if heir is not None:
            made.append(record if heir == member_id else records.target(group.group_id, heir, its.targets[member_id]))
            changes.append((heir, had, has))
    made.append(records.target_epoch(group.group_id, wanted.epoch, step.now.wall_ms))
    if size_of(list(map(pack, made))) <= step.max_bytes:
        step.record_all(made)
        history.target_assigned(step, group, its._replace(changes=changes))


def _heir(group: StreamsGroup, wanted: TasksWanted, member_id: str) -> str | None:
    """The member for which a target is: a static member may have another id now. None: the member has left."""
    if member_id in group.members:
        return member_id
    instance_id = wanted.present[member_id].description.instance_id
    return None if instance_id is None else group.static_ids.get(instance_id)
