"""What nodes of a cluster take from the broker's properties, with Kafka 4.3's defaults."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Names are Kafka's with "." as "_"."""

    broker_session_timeout_ms: int = 9_000
    """How long the lease of a seat is: after so long a node that says nothing is taken for dead."""
    auto_leader_rebalance_enable: bool = True
    """Bring leadership back to the preferred replicas, and give new nodes their share."""
    metadata_log_max_record_bytes_between_snapshots: int = 20 * 1024 * 1024
    metadata_log_max_snapshot_interval_ms: int = 3_600_000
    """When the metadata log gets a snapshot: after so many bytes of it, or so long after the last one; 0: never for the
    time alone."""
    muster_cluster_cache_bytes: int = 1024 * 1024 * 1024
    """What older segments of topics may take on the disk of a node: more of them are removed, and brought again when
    they are read."""
    muster_cluster_segment_bytes: int = 32 * 1024 * 1024
    """How large a segment of a topic becomes at most, if segment.bytes does not say less: who comes to lead it reads
    the newest one, and an older one is brought as a whole."""
