"""The hash of the topics of a group, as Kafka 4 keeps it in the record of the group's epoch: when it is another one,
the topics have changed. Kafka: Utils.computeTopicHash, computeGroupHash.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import pack
from typing import Final

from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.groups.consumer.xxh3 import xxh3_64

NO_TOPICS: Final = 0
_VERSION: Final = b"\0"
_SIGN: Final = 1 << 63


def hash_of(names: Iterable[str], image: TopicsImage) -> int:
    """The hash of those of these topics that exist."""
    by_name = image.by_name
    there = sorted([name for name in names if name in by_name], key=_java_order)
    if not there:
        return NO_TOPICS
    return _signed(xxh3_64(b"".join([pack("<q", _of_topic(by_name[name])) for name in there])))


def _of_topic(topic: TopicImage) -> int:
    # a topic that changes is another object: this is computed once for all groups
    if topic.metadata_hash is None:
        topic.metadata_hash = topic_hash(topic)
    return topic.metadata_hash


def topic_hash(topic: TopicImage) -> int:
    """The hash of one topic. Its replicas have no racks here."""
    high, low = topic.topic_id[:8], topic.topic_id[8:]
    name = topic.name.encode("utf-16-le", "surrogatepass")
    data = (
        _VERSION + high[::-1] + low[::-1] + name + pack("<i", len(name) // 2) + pack("<i", topic.partitions)
        + pack(f"<{topic.partitions}i", *range(topic.partitions))
    )  # fmt: skip
    return _signed(xxh3_64(data))


def _signed(value: int) -> int:
    return value - 2 * _SIGN if value & _SIGN else value


def _java_order(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")
