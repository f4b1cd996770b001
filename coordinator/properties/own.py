"""Muster's own properties, which Kafka does not have. Their names start with `muster.`; rows are those of `table`."""

from __future__ import annotations

from muster.coordinator.properties.table import Row

OWN: tuple[Row, ...] = (
    # the id of the cluster this node says it is; without it, the one kept in the data directory, else a fresh one
    ("muster.group.events.enable", "BOOLEAN", "true", None, "LOW", "read-only", False),
    ("muster.group.events.retention.bytes", "LONG", "134217728", "[-1,...]", "LOW", "read-only", False),
    ("muster.group.events.retention.ms", "LONG", "604800000", "[-1,...]", "LOW", "read-only", False),
    # "commit": an offset is on the disk before it is acknowledged; "os": Kafka's promise, it is in the page cache
    ("muster.offsets.durability", "STRING", "commit", "one of commit|os", "MEDIUM", "read-only", False),
    ("muster.cluster.id", "STRING", None, "non-empty string", "LOW", "read-only", False),
)
