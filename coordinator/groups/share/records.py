"""The records of a share group in `__consumer_offsets`, as in Kafka 4.4. `replay` applies the records to the state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from muster.assignors.java_order import capacity_of_copy
from muster.coordinator.groups.common import kafka_order
from muster.coordinator.groups.common.kafka_order import Tables
from muster.coordinator.groups.common.state import tombstone
from muster.coordinator.groups.share.member import Assigned, Description, Position
from muster.coordinator.groups.share.states import UNKNOWN_NAME, Named, States
from muster.coordinator.state_machine.interface import Record
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
    TopicInfo,
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

_VERSION: Final = 0
"""The version of the values of all records in this module."""


def member_metadata(group_id: str, member_id: str, description: Description) -> Record:
    """The record of a member's description."""
    value = ShareGroupMemberMetadataValue(
        description.rack_id, description.client_id, description.client_host, list(description.topics)
    )
    return Record(ShareGroupMemberMetadataKey(group_id, member_id), value, _VERSION)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """The record of a group's epoch, with the hash of the group's topics at that time."""
    return Record(ShareGroupMetadataKey(group_id), ShareGroupMetadataValue(epoch, metadata_hash), _VERSION)


def target(group_id: str, member_id: str, its: Assigned, tables: Tables) -> Record:
    """The record of a member's target. `tables`: the tables in which Kafka has the partitions."""
    rows = [TopicPartition(*row) for row in _ordered(its, tables)]
    key = ShareGroupTargetAssignmentMemberKey(group_id, member_id)
    return Record(key, ShareGroupTargetAssignmentMemberValue(rows), _VERSION)


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """The record of the epoch to which the targets of all members belong."""
    value = ShareGroupTargetAssignmentMetadataValue(epoch, timestamp_ms)
    return Record(ShareGroupTargetAssignmentMetadataKey(group_id), value, _VERSION)


def current(group_id: str, member_id: str, position: Position, tables: Tables) -> Record:
    """The record of a member's position. `tables`: see `target`."""
    rows = [TopicPartitions(*row) for row in _ordered(position.assigned, tables)]
    value = ShareGroupCurrentMemberAssignmentValue(position.epoch, position.previous_epoch, position.state, rows)
    return Record(ShareGroupCurrentMemberAssignmentKey(group_id, member_id), value, _VERSION)


def _ordered(its: Assigned, tables: Tables) -> list[tuple[bytes, list[int]]]:
    """The rows in the order in which Java iterates over these tables."""
    rows = []
    for place in kafka_order.topics([row[0] for row in its], tables):
        topic_id, partitions = its[place]
        capacity = tables.of_partitions.get(topic_id, tables.of_others)
        rows.append((topic_id, _walked(partitions, capacity)))
    return rows


def _walked(partitions: Sequence[int], capacity: int) -> list[int]:
    if kafka_order.is_ascending(partitions, capacity):
        return list(partitions)
    return [partitions[place] for place in kafka_order.partitions(partitions, capacity)]


def states(group_id: str, its: States, names: Mapping[bytes, str]) -> Record:
    """The record of the partitions whose state is being created, exists, or is being deleted.

    `names`: the names of the topics whose states are being deleted, as far as these topics exist.
    """
    deleting = [TopicInfo(topic_id, names.get(topic_id, UNKNOWN_NAME)) for topic_id in _walked_ids(its.deleting)]
    value = ShareGroupStatePartitionMetadataValue(_infos(its.initializing), _infos(its.initialized), deleting)
    return Record(ShareGroupStatePartitionMetadataKey(group_id), value, _VERSION)


def _infos(rows: Named) -> list[TopicPartitionsInfo]:
    made = []
    for topic_id in _walked_ids(rows):
        name, partitions = rows[topic_id]
        capacity = capacity_of_copy(len(partitions))
        made.append(TopicPartitionsInfo(topic_id, name, _walked(partitions, capacity)))
    return made


def _walked_ids(topic_ids: Collection[bytes]) -> list[bytes]:
    ids = sorted(topic_ids)
    return [ids[place] for place in kafka_order.topics(ids)]


def member_removed(group_id: str, member_id: str) -> list[Record]:
    """The tombstones of a member."""
    return [
        tombstone(ShareGroupCurrentMemberAssignmentKey(group_id, member_id)),
        tombstone(ShareGroupTargetAssignmentMemberKey(group_id, member_id)),
        tombstone(ShareGroupMemberMetadataKey(group_id, member_id)),
    ]


def record_keys(group_id: str, member_ids: Sequence[str]) -> list[Message]:
    """The keys of all records of a group, in the order in which Kafka deletes them."""
    return [
        *[ShareGroupCurrentMemberAssignmentKey(group_id, one) for one in member_ids],
        *[ShareGroupTargetAssignmentMemberKey(group_id, one) for one in member_ids],
        ShareGroupTargetAssignmentMetadataKey(group_id),
        *[ShareGroupMemberMetadataKey(group_id, one) for one in member_ids],
        # As on Kafka, this key is included even when no such record exists.
        ShareGroupStatePartitionMetadataKey(group_id),
        ShareGroupMetadataKey(group_id),
    ]
