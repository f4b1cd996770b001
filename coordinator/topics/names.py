"""Which topic names are legal, and which topics are the coordinator's own (Kafka's `Topic` class). Pure."""

from __future__ import annotations

import re

GROUP_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
PARTITIONS_PROPERTIES = {
    GROUP_OFFSETS_TOPIC: "offsets.topic.num.partitions",
    TRANSACTION_STATE_TOPIC: "transaction.state.log.num.partitions",
    SHARE_STATE_TOPIC: "share.coordinator.state.topic.num.partitions",
}
"""The coordinators' topics, whose partitions may be copied from a Kafka, and the properties that set their number."""
GROUP_EVENTS_TOPIC = "__group_events"
"""Muster's own topic: events of groups. The topic has a partition for each partition of __consumer_offsets."""
TRANSACTION_EVENTS_TOPIC = "__transaction_events"
"""Muster's own topic: events of transactional ids, with a partition for each partition of __transaction_state."""
EVENTS_OF = {GROUP_EVENTS_TOPIC: GROUP_OFFSETS_TOPIC, TRANSACTION_EVENTS_TOPIC: TRANSACTION_STATE_TOPIC}
"""The histories, each with the topic whose events it has. Both topics have the same number of partitions."""
METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = b"\0" * 15 + b"\1"

INTERNAL_TOPICS = frozenset((*PARTITIONS_PROPERTIES, *EVENTS_OF))
"""Topics that Metadata and DescribeTopicPartitions call internal: clients may read them, not write or delete them."""

MAX_NAME_LENGTH = 249
"""The longest name of a topic, as on Kafka."""
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def name_fault(name: str) -> str | None:
    """Return why a topic cannot have the name `name`, in Kafka's words; None when it can."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def may_collide(name: str) -> bool:
    """Whether the name has a character that Kafka's metric names replace by another character."""
    return "_" in name or "." in name


def collision_key(name: str) -> str:
    """Return a key that is equal for names that differ only in '.' and '_'."""
    return name.replace(".", "_")
