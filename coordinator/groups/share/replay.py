"""What each record of a share group does to the state, live and in replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from sys import intern
from typing import Final

from muster.coordinator.groups.common.epoch_group import present
from muster.coordinator.groups.common.state import Replay, SharedValues, State
from muster.coordinator.groups.share.group import NOT_QUIET, ShareGroup, share_group
from muster.coordinator.groups.share.member import NOTHING, Assigned, Description, Position, assigned
from muster.coordinator.groups.share.states import NamedPartitions, States
from muster.protocol.message import Message
from muster.protocol.messages.group_records.share_group_current_member_assignment import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from muster.protocol.messages.group_records.share_group_member_metadata import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
)
from muster.protocol.messages.group_records.share_group_metadata import ShareGroupMetadataKey, ShareGroupMetadataValue
from muster.protocol.messages.group_records.share_group_state_partition_metadata import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    TopicPartitionsInfo,
)
from muster.protocol.messages.group_records.share_group_target_assignment_member import (
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from muster.protocol.messages.group_records.share_group_target_assignment_metadata import (
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

MAX_SHARED_NAMES: Final = 1_000
"""Only subscriptions of up to this many names are shared between groups, because shared values outlive members."""


def _member(state: State, key: ShareGroupMemberMetadataKey, value: ShareGroupMemberMetadataValue | None) -> None:
    """Replay the new description of a member, or its removal."""
    if value is None:
        group = share_group(state, key.group_id)
        member = None if group is None else group.remove_member(key.member_id)
        if member is not None:
            state.deadlines.cancel(member)
        return
    group, of = present(state, ShareGroup, key.group_id), state.shared.of
    topics = tuple(value.subscribed_topic_names)
    if len(topics) <= MAX_SHARED_NAMES:
        topics = of(tuple([of(name) for name in topics]))
    rack_id = None if value.rack_id is None else of(value.rack_id)
    description = Description(rack_id, of(value.client_id), of(value.client_host), topics)
    group.describe_member(group.put_member(intern(key.member_id)), description)


def _epoch(state: State, key: ShareGroupMetadataKey, value: ShareGroupMetadataValue | None) -> None:
    """Replay the new epoch of a group, or its deletion."""
    if value is not None:
        group = present(state, ShareGroup, key.group_id)
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        return
    found = share_group(state, key.group_id)
    if found is None:
        return
    for member in found.members.values():  # if all earlier records are in the log, there are no members
        state.deadlines.cancel(member)
    del state.groups[found.group_id]


def _target(
    state: State, key: ShareGroupTargetAssignmentMemberKey, value: ShareGroupTargetAssignmentMemberValue | None
) -> None:
    """Replay the new target of a member, or its removal."""
    if value is not None:
        present(state, ShareGroup, key.group_id).targets[intern(key.member_id)] = _rows(
            value.topic_partitions, state.shared
        )
    elif (group := share_group(state, key.group_id)) is not None:
        group.targets.pop(key.member_id, None)


def _target_epoch(
    state: State, key: ShareGroupTargetAssignmentMetadataKey, value: ShareGroupTargetAssignmentMetadataValue | None
) -> None:
    """Replay the epoch of the targets, or its removal."""
    if value is not None:
        group = present(state, ShareGroup, key.group_id)
        group.assignment_reached(value.assignment_epoch, value.assignment_timestamp)
    elif (found := share_group(state, key.group_id)) is not None:
        found.assignment_reached(-1, 0)


def _current(
    state: State, key: ShareGroupCurrentMemberAssignmentKey, value: ShareGroupCurrentMemberAssignmentValue | None
) -> None:
    """Replay the new position of a member. After a tombstone the member has no partitions, and will be removed."""
    if value is not None:
        member = present(state, ShareGroup, key.group_id).put_member(intern(key.member_id))
        rows = _rows(value.assigned_partitions, state.shared)
        member.position = Position(value.member_epoch, value.previous_member_epoch, value.state, rows)
        return
    group = share_group(state, key.group_id)
    if group is not None and key.member_id in group.members:
        member = group.put_member(key.member_id)
        member.position = Position(-1, -1, member.position.state, NOTHING)


def _rows(rows: Iterable[TopicPartition | TopicPartitions], shared: SharedValues) -> Assigned:
    of = shared.of
    return of(assigned({of(row.topic_id): row.partitions for row in rows}))


def _states(
    state: State, key: ShareGroupStatePartitionMetadataKey, value: ShareGroupStatePartitionMetadataValue | None
) -> None:
    """Replay for which partitions the state is set up. The tombstone is written when the group is deleted."""
    if value is not None:
        group = present(state, ShareGroup, key.group_id)
        group.quiet_version = NOT_QUIET
        group.states = States(
            _named(value.initializing_topics),
            _named(value.initialized_topics),
            frozenset([one.topic_id for one in value.deleting_topics]),
        )
    elif (found := share_group(state, key.group_id)) is not None:
        found.states = None


def _named(rows: Iterable[TopicPartitionsInfo]) -> Mapping[bytes, NamedPartitions]:
    return {row.topic_id: NamedPartitions(row.topic_name, tuple(sorted(row.partitions))) for row in rows}


RECORDS: Final[Mapping[type[Message], Replay]] = {
    ShareGroupMemberMetadataKey: _member,
    ShareGroupMetadataKey: _epoch,
    ShareGroupTargetAssignmentMemberKey: _target,
    ShareGroupTargetAssignmentMetadataKey: _target_epoch,
    ShareGroupCurrentMemberAssignmentKey: _current,
    ShareGroupStatePartitionMetadataKey: _states,
}
"""The functions that replay records, by the type of the key."""
