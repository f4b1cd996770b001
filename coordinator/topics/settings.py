"""The settings of topics and partitions. Names are Kafka's with "." as "_"; values are Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The broker's properties that this package uses. A topic's configs have what a topic may override."""

    auto_create_topics_enable: bool = True
    """Create a topic when a client asks for its metadata."""
    num_partitions: int = 1
    """Partitions of a new topic, unless the request says how many."""
    default_replication_factor: int = 1
    """With one node, any value but 1 refuses such topics."""
    delete_topic_enable: bool = True
    """When it is off, DeleteTopics is refused with TOPIC_DELETION_DISABLED."""
    offsets_topic_num_partitions: int = 50
    """Partitions of __consumer_offsets when it is created."""
    offsets_topic_segment_bytes: int = 104_857_600
    """Segment size of __consumer_offsets."""
    muster_offsets_durability: str = "commit"
    """When records of __consumer_offsets and __transaction_state count.

    * "commit": once they are synced.
    * "os": once they are written, as on Kafka.
    """
    muster_group_events_retention_ms: int = 604_800_000
    """How long __group_events keeps events; used when the topic is created."""
    muster_group_events_retention_bytes: int = 134_217_728
    """How many bytes each partition of __group_events keeps; used when the topic is created."""
    muster_transaction_events_retention_ms: int = 604_800_000
    """How long __transaction_events keeps events; used when the topic is created."""
    muster_transaction_events_retention_bytes: int = 33_554_432
    """How many bytes each partition of __transaction_events keeps; used when the topic is created."""
    transaction_state_log_num_partitions: int = 50
    """Partitions of __transaction_state, when a client's metadata request creates it."""
    transaction_state_log_segment_bytes: int = 104_857_600
    """Segment size of __transaction_state."""
    transaction_partition_verification_enable: bool = True
    """When it is off, nobody verifies that batches of older clients are part of their transaction."""
    add_partitions_to_txn_retry_backoff_ms: int = 20
    """The pause before a coordinator whose transaction is ending is asked again, on behalf of the client."""
    add_partitions_to_txn_retry_backoff_max_ms: int = 100
    """The longest time for which the coordinator is asked again."""
    producer_id_expiration_ms: int = 86_400_000
    """A producer that wrote nothing for so long is forgotten."""
    producer_id_expiration_check_interval_ms: int = 600_000
    """How often silent producers are searched for."""
    max_incremental_fetch_session_cache_slots: int = 1_000
    """Fetch sessions kept at once (KIP-227)."""
    fetch_max_bytes: int = 57_671_680
    """Most bytes of records in one Fetch answer, whatever the request says."""
    max_request_partition_size_limit: int = 2_000
    """Most partitions in one DescribeTopicPartitions answer, whatever the request says."""
