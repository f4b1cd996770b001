"""Why a member that joins again starts a rebalance: the changes in its JoinGroup. Only for the history."""

from __future__ import annotations

from typing import Final

from muster.coordinator.groups.classic.group import CONSUMER, ClassicGroup
from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.shared_values import Protocols
from muster.protocol.consumer import decode_subscription, subscribed_topics
from muster.protocol.message import MalformedMessage
from muster.protocol.messages.consumer_protocol import ConsumerProtocolSubscription

LONGEST: Final = 64 * 1024
"""Bytes of metadata that are decoded for this. Longer metadata counts as unreadable."""


def of_rejoin(group: ClassicGroup, member: Member, protocols: Protocols, image: TopicsImage) -> str:
    """The cause. Call it before the member gets the new `protocols`.

    A leader joins again when it sees other partition counts. Its JoinGroup does not say so, but the counts of the last
    generation show it.
    """
    changed = False
    if member.protocols != protocols:
        before, now = _said(group, member.protocols), _said(group, protocols)
        if _topics(before) != _topics(now):
            return events.SUBSCRIPTION_CHANGED
        if member.member_id != group.leader_id:
            return events.METADATA_CHANGED
        changed = _gave_up(before, now)
    if group.partition_counts is not None and partition_counts(group, image) != group.partition_counts:
        return events.PARTITIONS_CHANGED
    return events.METADATA_CHANGED if changed else events.LEADER_REJOINED


def partition_counts(group: ClassicGroup, image: TopicsImage) -> dict[str, int]:
    """The existing subscribed topics, by name, with their partition counts. Empty when the topics are unknown or too
    many.
    """
    if group.subscriptions.is_long:
        return {}
    by_name = image.by_name
    there = [name for name in group.subscriptions.topics() or () if name in by_name]
    return {name: by_name[name].partitions for name in sorted(there)}


def _said(group: ClassicGroup, protocols: Protocols) -> list[ConsumerProtocolSubscription | None]:
    """The decoded metadata of each protocol. None for metadata that is no consumer's, or unreadable."""
    is_consumers = group.protocol_type == CONSUMER
    return [_subscription(metadata) if is_consumers else None for _, metadata in protocols]


def _subscription(metadata: bytes) -> ConsumerProtocolSubscription | None:
    if len(metadata) > LONGEST:
        return None
    try:
        try:
            return decode_subscription(metadata)[1]
        except MalformedMessage:
            # Some clients claim a version and leave out its fields: the topics can be decoded all the same.
            return ConsumerProtocolSubscription(list(subscribed_topics(metadata)))
    except MalformedMessage:
        return None


def _topics(said: list[ConsumerProtocolSubscription | None]) -> list[frozenset[str] | None]:
    return [None if one is None else frozenset(one.topics) for one in said]


def _gave_up(before: list[ConsumerProtocolSubscription | None], now: list[ConsumerProtocolSubscription | None]) -> bool:
    """Whether a consumer of the same topics owns less than before, as in the second round of a cooperative rebalance.

    Its other metadata changes with every generation. Other unreadable bytes count as a change.
    """
    return any(
        one is None or other is None or _owned(one) - _owned(other) for one, other in zip(before, now, strict=True)
    )


def _owned(said: ConsumerProtocolSubscription) -> set[tuple[str, int]]:
    return {(topic.topic, partition) for topic in said.owned_partitions for partition in topic.partitions}
