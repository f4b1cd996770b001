"""Settings of the group coordinator's shards."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """Two of Kafka's properties, in ms."""

    group_coordinator_append_linger_ms: int = -1
    """How long records are gathered before they are appended.

    0: not at all. -1 (Kafka: adaptively): until all requests of the same iteration of the event loop are handled.
    """
    transaction_max_timeout_ms: int = 900_000
    """The longest time that a transaction may be open. The cluster of a longer one has aborted it, or will abort it."""
