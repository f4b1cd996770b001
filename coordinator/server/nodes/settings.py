"""The settings of leadership. Names are Kafka's with "." as "_"; values are Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """What this room takes from the broker's properties."""

    broker_session_timeout_ms: int = 9_000
    """After so long a broker that died is taken for dead, and others lead what it led."""
    auto_leader_rebalance_enable: bool = True
    """Bring leadership back to the preferred replicas from time to time."""
    leader_imbalance_check_interval_seconds: int = 300
    """How often."""
