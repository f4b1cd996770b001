"""The coordinators' own topics: the number of partitions and the configs with which they are created. Pure."""

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
"""Of __group_events and __transaction_events: small segments keep `retention.bytes` exact to within an eighth."""
EVENTS_FLUSH_MS = 1_000
"""How many milliseconds of events a power cut may lose."""


def internal_topic(name: str, topic_id: bytes, settings: TopicSettings, told_partitions: int | None) -> NewTopic | None:
    """Return the internal topic of that name; None for the topics of users.

    `told_partitions`: for a history, the number of partitions of the topic whose events it has (`names.EVENTS_OF`), if
    that topic exists.
    """
    if name == GROUP_OFFSETS_TOPIC:
        partitions, segment_bytes = settings.offsets_topic_num_partitions, settings.offsets_topic_segment_bytes
        configs = {"compression.type": "producer", "cleanup.policy": "compact", "segment.bytes": str(segment_bytes)}
    elif name == GROUP_EVENTS_TOPIC:
        # as many as the offsets topic really has, whatever the setting is now
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
