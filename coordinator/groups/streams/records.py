"""The records of a streams group in `__consumer_offsets`, as in Kafka 4.4. `replay` applies them to the state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from muster.assignors.java_order import sort_strings
from muster.coordinator.groups.common.state import tombstone
from muster.coordinator.groups.streams.member import Description, Position
from muster.coordinator.groups.streams.tasks import TaskEpochs, Tasks, TaskSets
from muster.coordinator.state_machine.interface import Record
from muster.protocol.message import Message
from muster.protocol.messages.group_records import streams_group_current_member_assignment as current_record
from muster.protocol.messages.group_records import streams_group_member_metadata as member_record
from muster.protocol.messages.group_records import streams_group_target_assignment_member as target_record
from muster.protocol.messages.group_records.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
)
from muster.protocol.messages.group_records.streams_group_member_metadata import (
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
)
from muster.protocol.messages.group_records.streams_group_metadata import (
    LastAssignmentConfig,
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

_Row = TypeVar("_Row")

_VERSION: Final = 0
"""The version of the values of all records in this module."""


def member_metadata(group_id: str, member_id: str, its: Description) -> Record:
    """The record of a member's description."""
    endpoint = None if its.endpoint is None else member_record.Endpoint(*its.endpoint)
    tags = [member_record.KeyValue(*tag) for tag in its.client_tags]
    value = StreamsGroupMemberMetadataValue(
        its.instance_id, its.rack_id, its.client_id, its.client_host, its.rebalance_timeout_ms, its.topology_epoch,
        its.process_id, endpoint, tags,
    )  # fmt: skip
    return Record(StreamsGroupMemberMetadataKey(group_id, member_id), value, _VERSION)


def topology(group_id: str, value: StreamsGroupTopologyValue) -> Record:
    """The record of the group's topology."""
    return Record(StreamsGroupTopologyKey(group_id), value, _VERSION)


def group_epoch(
    group_id: str,
    epoch: int,
    metadata_hash: int,
    validated_epoch: int,
    configs: Mapping[str, str],
    descriptions: tuple[int, int],
) -> Record:
    """The record of a group's epoch, with the hash of its topics and the settings of its assignment.

    `descriptions`: the topology epochs of the description that a plugin keeps, and of the one that it could not keep.
    """
    rows = [LastAssignmentConfig(key, configs[key]) for key in sorted(configs)]
    value = StreamsGroupMetadataValue(epoch, metadata_hash, validated_epoch, rows, *descriptions)
    return Record(StreamsGroupMetadataKey(group_id), value, _VERSION)


def target(group_id: str, member_id: str, its: Tasks) -> Record:
    """The record of a member's target."""
    value = StreamsGroupTargetAssignmentMemberValue(*[_rows(target_record.TaskIds, tasks) for tasks in its])
    return Record(StreamsGroupTargetAssignmentMemberKey(group_id, member_id), value, _VERSION)


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """The record of the epoch to which the targets of all members belong."""
    value = StreamsGroupTargetAssignmentMetadataValue(epoch, timestamp_ms)
    return Record(StreamsGroupTargetAssignmentMetadataKey(group_id), value, _VERSION)


def current(group_id: str, member_id: str, position: Position) -> Record:
    """The record of a member's position."""
    assigned, revoking, task_ids = position.assigned, position.revoking, current_record.TaskIds
    value = StreamsGroupCurrentMemberAssignmentValue(
        position.epoch,
        position.previous_epoch,
        position.state,
        _rows_with_epochs(assigned.active),
        _rows(task_ids, assigned.standby),
        _rows(task_ids, assigned.warmup),
        _rows_with_epochs(revoking.active),
        _rows(task_ids, revoking.standby),
        _rows(task_ids, revoking.warmup),
    )
    return Record(StreamsGroupCurrentMemberAssignmentKey(group_id, member_id), value, _VERSION)


def _rows(row: Callable[[str, list[int]], _Row], tasks: TaskSets) -> list[_Row]:
    return [row(name, sorted(tasks[name])) for name in sort_strings(tasks)]


def _rows_with_epochs(tasks: TaskEpochs) -> list[current_record.TaskIds]:
    made = []
    for name in sort_strings(tasks):
        numbers = sorted(tasks[name])
        made.append(current_record.TaskIds(name, numbers, [tasks[name][one] for one in numbers]))
    return made


def member_removed(group_id: str, member_id: str) -> list[Record]:
    """The tombstones of a member."""
    return [
        tombstone(StreamsGroupCurrentMemberAssignmentKey(group_id, member_id)),
        tombstone(StreamsGroupTargetAssignmentMemberKey(group_id, member_id)),
        tombstone(StreamsGroupMemberMetadataKey(group_id, member_id)),
    ]


def record_keys(group_id: str, member_ids: Sequence[str]) -> list[Message]:
    """The keys of all records of a group, in the order in which Kafka deletes them."""
    return [
        *[StreamsGroupCurrentMemberAssignmentKey(group_id, one) for one in member_ids],
        *[StreamsGroupTargetAssignmentMemberKey(group_id, one) for one in member_ids],
        StreamsGroupTargetAssignmentMetadataKey(group_id),
        *[StreamsGroupMemberMetadataKey(group_id, one) for one in member_ids],
        StreamsGroupMetadataKey(group_id),
        StreamsGroupTopologyKey(group_id),
    ]
