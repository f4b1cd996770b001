"""The broker properties that nodes of a cluster use, with Kafka 4.4's defaults."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The settings, with Kafka's names and "_" for "."."""

    broker_session_timeout_ms: int = 9_000
    """How long the lease of a registration is. A node that has been silent for this time counts as dead."""
    auto_leader_rebalance_enable: bool = True
    """Whether leadership returns to the preferred replicas, and new nodes get their share."""
    metadata_log_max_record_bytes_between_snapshots: int = 20 * 1024 * 1024
    metadata_log_max_snapshot_interval_ms: int = 3_600_000
    """The metadata log gets a snapshot after `metadata_log_max_record_bytes_between_snapshots`, or this long after the
    last snapshot. 0: the time alone causes no snapshot.
    """
    muster_cluster_cache_bytes: int = 1024 * 1024 * 1024
    """The most bytes that older segments of topics may take on the disk of a node. Beyond this limit, segments are
    removed, and fetched again for their readers.
    """
    muster_cluster_segment_bytes: int = 32 * 1024 * 1024
    """The most bytes of a segment of a topic, if segment.bytes is not less. A new leader reads the newest segment, and
    an older segment is fetched as a whole.
    """
