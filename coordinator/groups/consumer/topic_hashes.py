"""The hash of the topics of a group, as Kafka 4 keeps it in the record of the group's epoch: when it is another one,
the topics have changed. Kafka: Utils.computeTopicHash, computeGroupHash.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import pack
from typing import Final

from xxhash import xxh3_64, xxh3_64_intdigest

from muster.coordinator.groups.common.image import TopicImage, TopicsImage

NO_TOPICS: Final = 0
MOST_WITH_RACKS: Final = 100_000
"""Partitions of a topic whose racks are hashed: some 12 ms."""
_VERSION: Final = b"\0"
_SIGN: Final = 1 << 63
MOST_KEPT: Final = 4_096
"""Topics of a group whose hash is kept, for 64 groups."""


def hash_of(names: Iterable[str], image: TopicsImage, rack: str | None = None) -> int:
    """The hash of those of these topics that exist. `rack`: where this node stands, and so all replicas."""
    by_name = image.by_name
    there = sorted([name for name in names if name in by_name], key=_java_order)
    if not there:
        return NO_TOPICS
    hashes = b"".join([pack("<q", _of_topic(by_name[name], rack)) for name in there])
    return _of_hashes(hashes) if len(there) <= MOST_KEPT else _signed(xxh3_64_intdigest(hashes))


@lru_cache(64)
def _of_hashes(hashes: bytes) -> int:
    # members that join a group one after the other have it asked each time
    return _signed(xxh3_64_intdigest(hashes))


def _of_topic(topic: TopicImage, rack: str | None) -> int:
    # a topic that changes is another object, and the rack stays: this is computed once for all groups
    if topic.metadata_hash is None:
        topic.metadata_hash = topic_hash(topic, rack)
    return topic.metadata_hash


def topic_hash(topic: TopicImage, rack: str | None = None) -> int:
    """The hash of one topic."""
    high, low = topic.topic_id[:8], topic.topic_id[8:]
    head = _VERSION + high[::-1] + low[::-1] + _text(topic.name) + pack("<i", topic.partitions)
    if rack is None or topic.partitions > MOST_WITH_RACKS:
        return _signed(xxh3_64_intdigest(head + pack(f"<{topic.partitions}i", *range(topic.partitions))))
    # the length before it is written apart from the one that a text has behind it
    behind = pack("<i", len(rack.encode("utf-16-le", "surrogatepass")) // 2) + _text(rack)
    hasher = xxh3_64(head)
    for one in range(topic.partitions):
        hasher.update(pack("<i", one) + behind)
    return _signed(hasher.intdigest())


def is_same(one: TopicImage | None, other: TopicImage | None) -> bool:
    """Whether both have the same hash, or neither is there."""
    if one is None or other is None:
        return one is other
    return (one.topic_id, one.partitions, one.name) == (other.topic_id, other.partitions, other.name)


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + pack("<i", len(units) // 2)


def _signed(value: int) -> int:
    return value - 2 * _SIGN if value & _SIGN else value


def _java_order(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")
