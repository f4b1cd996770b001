"""Decodes members from the bytes of JoinGroup, and encodes assignments as the bytes of SyncGroup."""

from __future__ import annotations

from collections.abc import Mapping

from muster.assignors.assignor import Assignment, Member, Partitions
from muster.protocol.consumer import NEWEST, decode_subscription, encode_assignment
from muster.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
)


def member_of(member_id: str, metadata: bytes, instance_id: str | None = None) -> Member:
    """Decode a member from its row of the JoinGroup response. `metadata`: the subscription. Raises MalformedMessage."""
    subscription = decode_subscription(metadata)[1]
    owned: dict[str, list[int]] = {}
    for topic in subscription.owned_partitions:
        owned.setdefault(topic.topic, []).extend(topic.partitions)
    return Member(
        member_id,
        tuple(subscription.topics),
        owned,
        max(subscription.generation_id, -1),
        instance_id,
        subscription.rack_id or None,
        subscription.user_data,
    )


def assignment_bytes(partitions: Partitions, user_data: bytes | None = None) -> bytes:
    """Encode the assignment of one member as bytes for SyncGroup. Raises UnrepresentableField."""
    rows = [ConsumerProtocolAssignmentTopicPartition(topic, list(numbers)) for topic, numbers in partitions.items()]
    return encode_assignment(ConsumerProtocolAssignment(rows, user_data), NEWEST)


def assignments_bytes(assignment: Assignment) -> Mapping[str, bytes]:
    """Encode the assignment of each member (by member id) as bytes for SyncGroup. Raises UnrepresentableField."""
    return {member_id: assignment_bytes(partitions) for member_id, partitions in assignment.items()}
