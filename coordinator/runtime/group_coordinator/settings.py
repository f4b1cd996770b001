"""Settings of the group coordinator's shards."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """Two of Kafka's properties, in ms."""

    group_coordinator_append_linger_ms: int = -1
    """How long records are gathered before they are appended. 0: not at all; -1 (Kafka: adaptively): until all requests
    are looked at that have come in the same turn of the loop.
    """
    transaction_max_timeout_ms: int = 900_000
    """A transaction that has been open for longer was aborted by the cluster that it is of, or will be."""
