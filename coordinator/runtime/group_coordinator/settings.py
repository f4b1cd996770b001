"""Settings of the group coordinator's shards."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """Two properties of Kafka, in ms."""

    group_coordinator_append_linger_ms: int = -1
    """How long records are gathered before they are appended.

    0: records are appended at once. -1 (Kafka: adaptively): they are appended at the end of the loop's iteration.
    """
    transaction_max_timeout_ms: int = 900_000
    """The longest time that a transaction may be open. Each cluster aborts older transactions."""
