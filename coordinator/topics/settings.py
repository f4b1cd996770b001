"""The settings of topics and partitions. Names are Kafka's with "." as "_"; values are Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The broker's properties that this package uses, without those that a topic may override."""

    auto_create_topics_enable: bool = True
    num_partitions: int = 1
    default_replication_factor: int = 1
    """The replicas of a new topic. On one node, topics with any value but 1 are refused."""
    delete_topic_enable: bool = True
    offsets_topic_num_partitions: int = 50
    offsets_topic_segment_bytes: int = 104_857_600
    muster_offsets_durability: str = "commit"
    """Records of coordinators (`names.PARTITIONS_PROPERTIES`) count once synced ("commit") or once written ("os")."""
    muster_group_events_retention_ms: int = 604_800_000
    muster_group_events_retention_bytes: int = 134_217_728
    muster_transaction_events_retention_ms: int = 604_800_000
    muster_transaction_events_retention_bytes: int = 33_554_432
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_segment_bytes: int = 104_857_600
    share_coordinator_state_topic_num_partitions: int = 50
    share_coordinator_state_topic_segment_bytes: int = 104_857_600
    transaction_partition_verification_enable: bool = True
    add_partitions_to_txn_retry_backoff_ms: int = 20
    add_partitions_to_txn_retry_backoff_max_ms: int = 100
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000
    max_incremental_fetch_session_cache_slots: int = 1_000
    fetch_max_bytes: int = 57_671_680
    max_request_partition_size_limit: int = 2_000
