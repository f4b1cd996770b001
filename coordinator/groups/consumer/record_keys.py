"""The keys of all records of a consumer group."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from muster.coordinator.groups.consumer import kafka_order
from muster.protocol.message import Message
from muster.protocol.messages.group_records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from muster.protocol.messages.group_records.consumer_group_member_metadata import ConsumerGroupMemberMetadataKey
from muster.protocol.messages.group_records.consumer_group_metadata import ConsumerGroupMetadataKey
from muster.protocol.messages.group_records.consumer_group_partition_metadata import ConsumerGroupPartitionMetadataKey
from muster.protocol.messages.group_records.consumer_group_regular_expression import ConsumerGroupRegularExpressionKey
from muster.protocol.messages.group_records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from muster.protocol.messages.group_records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
)


def record_keys(group_id: str, member_ids: Sequence[str], patterns: Collection[str]) -> list[Message]:
    """The keys in the order in which Kafka deletes them. `patterns`: the resolved ones."""
    keys: list[Message] = [ConsumerGroupCurrentMemberAssignmentKey(group_id, one) for one in member_ids]
    keys += [ConsumerGroupTargetAssignmentMemberKey(group_id, one) for one in member_ids]
    keys.append(ConsumerGroupTargetAssignmentMetadataKey(group_id))
    keys += [ConsumerGroupMemberMetadataKey(group_id, one) for one in member_ids]
    in_order = kafka_order.timeline(patterns, kafka_order.slots_for(len(patterns)))
    keys += [ConsumerGroupRegularExpressionKey(group_id, one) for one in in_order]
    # This key is included even without such a record, as on Kafka.
    keys += [ConsumerGroupPartitionMetadataKey(group_id), ConsumerGroupMetadataKey(group_id)]
    return keys
