"""Kafka's defaults of settings that are not written in any log."""

from __future__ import annotations

from typing import Final

HEARTBEAT_MS: Final = 3_000
"""heartbeat.interval.ms: a member sees a rebalance with its next heartbeat."""
INITIAL_DELAY_MS: Final = 3_000
"""group.initial.rebalance.delay.ms."""
MAX_SESSION_TIMEOUT_MS: Final = 1_800_000
"""group.max.session.timeout.ms."""
REBALANCE_TIMEOUT_MS: Final = 300_000
"""max.poll.interval.ms, which clients send as their rebalance timeout."""

EPOCH_SESSION_MS: Final = 45_000
"""group.consumer.session.timeout.ms, of groups of KIP-848."""
EPOCH_HEARTBEAT_MS: Final = 5_000
"""group.consumer.heartbeat.interval.ms, of groups of KIP-848."""
