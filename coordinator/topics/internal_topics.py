"""The coordinator's own topics: with how many partitions and which configs they are made. Pure."""

from __future__ import annotations

from muster.coordinator.topics.creation import NewTopic
from muster.coordinator.topics.names import (
    GROUP_EVENTS_TOPIC,
    GROUP_OFFSETS_TOPIC,
    TRANSACTION_EVENTS_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from muster.coordinator.topics.settings import TopicSettings

EVENTS_SEGMENT_BYTES = 16 * 1024 * 1024
"""Of __group_events and __transaction_events: small, so that `retention.bytes` is kept to within an eighth."""
EVENTS_FLUSH_MS = 1_000
"""How much of them a power cut may cost."""


def internal_topic(name: str, topic_id: bytes, settings: TopicSettings, told_partitions: int | None) -> NewTopic | None:
    """What is to be made under that name; None for the topics of users. `told_partitions`: for a history, how many
    partitions the topic has that it tells of (`names.EVENTS_OF`), when it is there.
    """
    if name == GROUP_OFFSETS_TOPIC:
        partitions, segment_bytes = settings.offsets_topic_num_partitions, settings.offsets_topic_segment_bytes
        configs = {"compression.type": "producer", "cleanup.policy": "compact", "segment.bytes": str(segment_bytes)}
    elif name == GROUP_EVENTS_TOPIC:
        # as many as the offsets topic really has, whatever the setting says meanwhile
        partitions = told_partitions or settings.offsets_topic_num_partitions
        configs = _history(settings.muster_group_events_retention_ms, settings.muster_group_events_retention_bytes)
    elif name == TRANSACTION_EVENTS_TOPIC:
        partitions = told_partitions or settings.transaction_state_log_num_partitions
        configs = _history(
            settings.muster_transaction_events_retention_ms, settings.muster_transaction_events_retention_bytes
        )
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


def _history(retention_ms: int, retention_bytes: int) -> dict[str, str]:
    return {
        "compression.type": "producer",
        "cleanup.policy": "delete",
        "retention.ms": str(retention_ms),
        "retention.bytes": str(retention_bytes),
        "segment.bytes": str(EVENTS_SEGMENT_BYTES),
        "flush.ms": str(EVENTS_FLUSH_MS),
    }
