"""What each record of a streams group does to the state, live and in replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from sys import intern
from typing import Final

from muster.coordinator.groups.common.epoch_group import present
from muster.coordinator.groups.common.state import Replay, State
from muster.coordinator.groups.streams.group import StreamsGroup, streams_group
from muster.coordinator.groups.streams.member import (
    STABLE,
    UNKNOWN,
    UNRELEASED_TASKS,
    UNREVOKED_TASKS,
    Description,
    Position,
)
from muster.coordinator.groups.streams.tasks import NOT_ANY, Held, TaskEpochs, Tasks, sets_of
from muster.coordinator.groups.streams.topology import Topology
from muster.protocol.message import Message
from muster.protocol.messages.group_records.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    TaskIds,
)
from muster.protocol.messages.group_records.streams_group_member_metadata import (
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
)
from muster.protocol.messages.group_records.streams_group_metadata import (
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
)
from muster.protocol.messages.group_records.streams_group_target_assignment_member import (
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
)
from muster.protocol.messages.group_records.streams_group_target_assignment_metadata import (
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
)
from muster.protocol.messages.group_records.streams_group_topology import (
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)

_STATES: Final = frozenset([STABLE, UNREVOKED_TASKS, UNRELEASED_TASKS])


def _member(state: State, key: StreamsGroupMemberMetadataKey, value: StreamsGroupMemberMetadataValue | None) -> None:
    """Replay the new description of a member, or its removal."""
    if value is None:
        group = streams_group(state, key.group_id)
        member = None if group is None else group.remove_member(key.member_id)
        if member is not None:
            state.deadlines.cancel(member)
            state.deadlines.cancel(member.revocation)
        return
    group, of, endpoint = present(state, StreamsGroup, key.group_id), state.shared.of, value.user_endpoint
    description = Description(
        value.instance_id,
        None if value.rack_id is None else of(value.rack_id),
        of(value.client_id),
        of(value.client_host),
        value.rebalance_timeout_ms,
        value.topology_epoch,
        of(value.process_id),
        None if endpoint is None else (endpoint.host, endpoint.port),
        of(tuple([(tag.key, tag.value) for tag in value.client_tags])),
    )
    group.describe_member(group.put_member(intern(key.member_id)), description)


def _topology(state: State, key: StreamsGroupTopologyKey, value: StreamsGroupTopologyValue | None) -> None:
    """Replay the new topology of a group, or its removal."""
    if value is not None:
        present(state, StreamsGroup, key.group_id).topology = Topology(value.epoch, value.subtopologies)
    elif (group := streams_group(state, key.group_id)) is not None:
        group.topology = None


def _epoch(state: State, key: StreamsGroupMetadataKey, value: StreamsGroupMetadataValue | None) -> None:
    """Replay the new epoch of a group, or its deletion."""
    if value is not None:
        group = present(state, StreamsGroup, key.group_id)
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        group.validated_epoch = value.validated_topology_epoch
        group.last_configs = {one.key: one.value for one in value.last_assignment_configs or ()}
        group.descriptions = value.stored_description_topology_epoch, value.failed_description_topology_epoch
        return
    found = streams_group(state, key.group_id)
    if found is None:
        return
    for member in found.members.values():  # if all earlier records are in the log, there are no members
        state.deadlines.cancel(member)
        state.deadlines.cancel(member.revocation)
    state.deadlines.cancel(found.delay)
    del state.groups[found.group_id]


def _target(
    state: State, key: StreamsGroupTargetAssignmentMemberKey, value: StreamsGroupTargetAssignmentMemberValue | None
) -> None:
    """Replay the new target of a member, or its removal."""
    if value is not None:
        tasks = Tasks(sets_of(value.active_tasks), sets_of(value.standby_tasks), sets_of(value.warmup_tasks))
        present(state, StreamsGroup, key.group_id).targets[intern(key.member_id)] = tasks
    elif (group := streams_group(state, key.group_id)) is not None:
        group.targets.pop(key.member_id, None)


def _target_epoch(
    state: State, key: StreamsGroupTargetAssignmentMetadataKey, value: StreamsGroupTargetAssignmentMetadataValue | None
) -> None:
    """Replay the epoch of the targets, or its removal."""
    if value is not None:
        group = present(state, StreamsGroup, key.group_id)
        group.assignment_reached(value.assignment_epoch, value.assignment_timestamp)
    elif (found := streams_group(state, key.group_id)) is not None:
        found.assignment_reached(-1, 0)


def _current(
    state: State, key: StreamsGroupCurrentMemberAssignmentKey, value: StreamsGroupCurrentMemberAssignmentValue | None
) -> None:
    """Replay the new position of a member. After a tombstone the member has no tasks, and will be removed."""
    if value is not None:
        group, epoch = present(state, StreamsGroup, key.group_id), value.member_epoch
        position = Position(
            epoch,
            value.previous_member_epoch,
            value.state if value.state in _STATES else UNKNOWN,
            Held(_with_epochs(value.active_tasks, epoch), sets_of(value.standby_tasks), sets_of(value.warmup_tasks)),
            Held(
                _with_epochs(value.active_tasks_pending_revocation, epoch),
                sets_of(value.standby_tasks_pending_revocation),
                sets_of(value.warmup_tasks_pending_revocation),
            ),
        )
        group.move_member(group.put_member(intern(key.member_id)), position)
        return
    found = streams_group(state, key.group_id)
    if found is not None and key.member_id in found.members:
        member = found.put_member(key.member_id)
        found.move_member(member, Position(-1, -1, member.position.state, NOT_ANY, NOT_ANY))


def _with_epochs(rows: Iterable[TaskIds], epoch: int) -> TaskEpochs:
    """Active tasks with their epochs. Without as many epochs as partitions, all have the member's epoch."""
    made = {}
    for row in rows:
        epochs = row.assignment_epochs
        if epochs is None or len(epochs) != len(row.partitions):
            epochs = [epoch] * len(row.partitions)
        made[row.subtopology_id] = dict(zip(row.partitions, epochs, strict=True))
    return made


RECORDS: Final[Mapping[type[Message], Replay]] = {
    StreamsGroupMemberMetadataKey: _member,
    StreamsGroupTopologyKey: _topology,
    StreamsGroupMetadataKey: _epoch,
    StreamsGroupTargetAssignmentMemberKey: _target,
    StreamsGroupTargetAssignmentMetadataKey: _target_epoch,
    StreamsGroupCurrentMemberAssignmentKey: _current,
}
"""The functions that replay records, by the type of the key."""
