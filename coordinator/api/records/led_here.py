"""The partitions that this node leads. Clients produce to a partition, fetch from it and ask about it at its leader."""

from __future__ import annotations

from muster.coordinator.api.node import Node
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.open_topics import Topic
from muster.coordinator.topics.partition import Partition
from muster.protocol.errors import ErrorCode


def led_here(node: Node, topic: Topic, index: int) -> Partition:
    """A partition of a topic, if this node leads it. Raises `ApiError`: UNKNOWN_TOPIC_OR_PARTITION,
    NOT_LEADER_OR_FOLLOWER (another broker leads it), KAFKA_STORAGE_ERROR (its log cannot be opened).
    """
    if node.cluster.is_led_elsewhere(topic.name, index):
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return topic.existing(index)


def named_here(node: Node, name: str, index: int) -> Partition:
    """`led_here` by the topic's name. UNKNOWN_TOPIC_OR_PARTITION also means that no such topic exists."""
    topic = node.topics.by_name.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return led_here(node, topic, index)
