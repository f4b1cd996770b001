"""Which topic names are legal, and which topics are the coordinator's own (Kafka's `Topic` class). Pure."""

from __future__ import annotations

import re

GROUP_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
PARTITIONS_PROPERTIES = {
    GROUP_OFFSETS_TOPIC: "offsets.topic.num.partitions",
    TRANSACTION_STATE_TOPIC: "transaction.state.log.num.partitions",
}
"""The coordinators' topics, whose partitions may be copied here from a Kafka, and who says how many there are to be."""
SHARE_STATE_TOPIC = "__share_group_state"
GROUP_EVENTS_TOPIC = "__group_events"
"""Muster's own: what happened in the groups; a partition for each of __consumer_offsets."""
TRANSACTION_EVENTS_TOPIC = "__transaction_events"
"""Muster's own: what happened to transactional ids; a partition for each of __transaction_state."""
EVENTS_OF = {GROUP_EVENTS_TOPIC: GROUP_OFFSETS_TOPIC, TRANSACTION_EVENTS_TOPIC: TRANSACTION_STATE_TOPIC}
"""The histories, each with the topic whose partitions it has one each for."""
METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = b"\0" * 15 + b"\1"
"""Uuid.METADATA_TOPIC_ID."""

INTERNAL_TOPICS = frozenset((GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC, *EVENTS_OF))
"""Topics that Metadata and DescribeTopicPartitions call internal: clients may read them, not write or delete them."""

MAX_NAME_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def name_fault(name: str) -> str | None:
    """Why a topic cannot be called `name`, in Kafka's words; None when it can."""
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
    """Has the name a character that Kafka's metric names cannot tell from another?"""
    return "_" in name or "." in name


def collision_key(name: str) -> str:
    """Equal for names that differ only in '.' and '_'."""
    return name.replace(".", "_")
