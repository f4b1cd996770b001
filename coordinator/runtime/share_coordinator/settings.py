"""Settings of the share coordinator's shards."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShareShardSettings:
    """A property of Kafka, in ms."""

    share_coordinator_append_linger_ms: int = -1
    """See `group_coordinator.settings.ShardSettings`."""
