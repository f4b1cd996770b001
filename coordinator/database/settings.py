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
