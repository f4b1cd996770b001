"""The settings of leadership. Names are Kafka's with "." as "_"; values are Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The broker properties that this package uses."""

    broker_session_timeout_ms: int = 9_000
    """After so long a broker that died is treated as dead, and others lead its partitions."""
    auto_leader_rebalance_enable: bool = True
    """Whether leadership periodically moves back to the preferred replicas."""
    leader_imbalance_check_interval_seconds: int = 300
    """How often that is checked."""
