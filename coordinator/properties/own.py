"""Muster's own properties, which Kafka does not have. Their names start with `muster.`; rows are as in `lookup`."""

from __future__ import annotations

ABOUT = {
    "muster.cluster.id": "The id of the cluster that this node belongs to; without it the one in the data directory, "
    "else a new one.",
    "muster.cluster.cache.bytes": "With --cluster: how many bytes of older segments of topics a node keeps on disk: "
    "others are read from the database. Those of compacted topics and of the coordinators are kept beside these.",
    "muster.cluster.segment.bytes": "With --cluster: how large a segment of a topic becomes at most, if segment.bytes "
    "does not say less. Whoever comes to lead a partition reads its newest segment; an older one is read as a whole.",
    "muster.group.events.enable": "Write what happens in groups to the topic __group_events.",
    "muster.group.events.retention.bytes": "How much of each partition of __group_events is kept; read when the topic "
    "is created.",
    "muster.group.events.retention.ms": "How long __group_events keeps events; read when the topic is created.",
    "muster.transaction.events.enable": "Write what happens to transactional ids to the topic __transaction_events.",
    "muster.transaction.events.retention.bytes": "How much of each partition of __transaction_events is kept; read "
    "when the topic is created.",
    "muster.transaction.events.retention.ms": "How long __transaction_events keeps events; read when the topic is "
    "created.",
    "muster.queued.max.response.bytes": "How many bytes of answers that clients have not read yet may be in memory: "
    "a Fetch takes at most a quarter of what is left. -1: no limit.",
    "muster.nodes": "How many brokers the process is, each with its own ports and id, on the same logs.",
    "muster.nodes.racks": "The racks of these brokers, in order, if they do not all stand in that of broker.rack.",
    "muster.offsets.durability": 'With "commit" an offset is on the disk before it is acknowledged; with "os" it is in '
    "the page cache, as on Kafka.",
    "muster.sasl.jaas.file": "A file in the syntax of Java's login configuration, with the section KafkaServer or, for "
    "one listener, name.KafkaServer: the users of PLAIN and what other mechanisms have there. What is given by "
    "sasl.jaas.config comes before it. It is read anew when it changes.",
}
"""The purpose of each property, for DescribeConfigs."""

OWN = (
    ("muster.sasl.jaas.file", "STRING", None, "non-empty string", "MEDIUM", "read-only", False),
    ("muster.group.events.enable", "BOOLEAN", "true", None, "LOW", "read-only", False),
    ("muster.group.events.retention.bytes", "LONG", "134217728", "[-1,...]", "LOW", "read-only", False),
    ("muster.group.events.retention.ms", "LONG", "604800000", "[-1,...]", "LOW", "read-only", False),
    ("muster.transaction.events.enable", "BOOLEAN", "true", None, "LOW", "read-only", False),
    ("muster.transaction.events.retention.bytes", "LONG", "33554432", "[-1,...]", "LOW", "read-only", False),
    ("muster.transaction.events.retention.ms", "LONG", "604800000", "[-1,...]", "LOW", "read-only", False),
    ("muster.queued.max.response.bytes", "LONG", "134217728", "[-1,...]", "MEDIUM", "read-only", False),
    ("muster.offsets.durability", "STRING", "commit", "one of commit|os", "MEDIUM", "read-only", False),
    ("muster.nodes", "INT", "1", "[1,...,100]", "MEDIUM", "read-only", False),
    ("muster.nodes.racks", "LIST", "", None, "LOW", "read-only", False),
    ("muster.cluster.cache.bytes", "LONG", "1073741824", "[0,...]", "MEDIUM", "read-only", False),
    ("muster.cluster.segment.bytes", "INT", "33554432", "[1024,...]", "MEDIUM", "read-only", False),
    ("muster.cluster.id", "STRING", None, "non-empty string", "LOW", "read-only", False),
)
