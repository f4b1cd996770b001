"""What clients and servers do unless they were told otherwise, and what no log tells: Kafka's defaults."""

from __future__ import annotations

from typing import Final

HEARTBEAT_MS: Final = 3_000
"""heartbeat.interval.ms: members hear of a rebalance with their next heartbeat."""
INITIAL_DELAY_MS: Final = 3_000
"""group.initial.rebalance.delay.ms."""
