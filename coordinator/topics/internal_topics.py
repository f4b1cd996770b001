"""The coordinator's own topics: with how many partitions and which configs they are made. Pure."""

from __future__ import annotations

from muster.coordinator.topics.creation import NewTopic
from muster.coordinator.topics.names import GROUP_EVENTS_TOPIC, GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from muster.coordinator.topics.settings import TopicSettings

EVENTS_SEGMENT_BYTES = 16 * 1024 * 1024
"""Of __group_events: small, so that `retention.bytes` is kept to within an eighth."""
EVENTS_FLUSH_MS = 1_000
"""How much of __group_events a power cut may cost."""


def internal_topic(
    name: str, topic_id: bytes, settings: TopicSettings, offsets_partitions: int | None
) -> NewTopic | None:
    """What is to be made under that name; None for the topics of users. `offsets_partitions`: how many partitions
    __consumer_offsets has, when it is there.
    """
    if name == GROUP_OFFSETS_TOPIC:
        partitions, segment_bytes = settings.offsets_topic_num_partitions, settings.offsets_topic_segment_bytes
        configs = {"compression.type": "producer", "cleanup.policy": "compact", "segment.bytes": str(segment_bytes)}
    elif name == GROUP_EVENTS_TOPIC:
        # as many as the offsets topic really has, whatever the setting says meanwhile
        partitions = offsets_partitions or settings.offsets_topic_num_partitions
        configs = {
            "compression.type": "producer",
            "cleanup.policy": "delete",
            "retention.ms": str(settings.muster_group_events_retention_ms),
            "retention.bytes": str(settings.muster_group_events_retention_bytes),
            "segment.bytes": str(EVENTS_SEGMENT_BYTES),
            "flush.ms": str(EVENTS_FLUSH_MS),
        }
    elif name == TRANSACTION_STATE_TOPIC:
        partitions = settings.transaction_state_log_num_partitions
        configs = {
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "segment.bytes": str(settings.transaction_state_log_segment_bytes),
            "min.insync.replicas": "1",
            "unclean.leader.election.enable": "false",
        }
    else:
        return None
    return NewTopic(name, topic_id, partitions, 1, configs=configs)
