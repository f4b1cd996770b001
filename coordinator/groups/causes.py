"""Why a member that joins again starts a rebalance: what its JoinGroup says that the last one did not. For the history
only; nothing is decided by it.
"""

from __future__ import annotations

from muster.coordinator.groups import events
from muster.coordinator.groups.classic import CONSUMER, ClassicGroup
from muster.coordinator.groups.image import TopicsImage
from muster.coordinator.groups.members import Member, Protocols
from muster.protocol.consumer import decode_subscription
from muster.protocol.message import MalformedMessage


def of_rejoin(group: ClassicGroup, member: Member, protocols: Protocols, image: TopicsImage) -> str:
    """The cause, to be asked before the member takes over `protocols`.

    A consumer that leads joins again when it sees other partition counts: that is told by the counts of the last
    generation, since its JoinGroup does not say it.
    """
    if member.protocols != protocols:
        if group.protocol_type == CONSUMER and _topics(member.protocols) != _topics(protocols):
            return events.SUBSCRIPTION_CHANGED
        if member.member_id != group.leader_id:
            return events.METADATA_CHANGED
    if group.partition_counts is not None and partition_counts(group, image) != group.partition_counts:
        return events.PARTITIONS_CHANGED
    return events.LEADER_REJOINED if member.protocols == protocols else events.METADATA_CHANGED


def partition_counts(group: ClassicGroup, image: TopicsImage) -> dict[str, int]:
    """The subscribed topics that exist, by name, with their partition counts; empty when the topics are unknown."""
    topics = group.subscriptions.topics() or ()
    by_name = image.by_name
    return {name: by_name[name].partitions for name in sorted(topics) if name in by_name}


def _topics(protocols: Protocols) -> list[frozenset[str] | None]:
    return [_topics_of(metadata) for _, metadata in protocols]


def _topics_of(metadata: bytes) -> frozenset[str] | None:
    try:
        return frozenset(decode_subscription(metadata)[1].topics)
    except MalformedMessage:
        return None
