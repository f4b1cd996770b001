"""The hash of the topics of a group, as Kafka 4 keeps it in the record of the group's epoch.

A new hash means that the topics have changed. Kafka: Utils.computeTopicHash, computeGroupHash.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct, pack
from typing import Final

from xxhash import xxh3_64, xxh3_64_intdigest

from muster.coordinator.groups.common.image import TopicImage, TopicsImage

NO_TOPICS: Final = 0
MOST_WITH_RACKS: Final = 100_000
"""Partitions of a topic whose racks are hashed: some 12 ms."""
_VERSION: Final = b"\0"
_SIGN: Final = 1 << 63
_TWO: Final = Struct("<ii")
FEW_PARTITIONS: Final = 64
"""The numbers of at most this many partitions are made once for all topics."""
MOST_KEPT: Final = 4_096
"""Topics of a group whose hash is kept, for 64 groups."""


def hash_of(names: Iterable[str], image: TopicsImage, rack: str | None = None) -> int:
    """The hash of those of these topics that exist. `rack`: the rack of this node, and so of all replicas."""
    by_name = image.by_name
    there = sorted([name for name in names if name in by_name])  # Java's order too: names of topics are ASCII
    if not there:
        return NO_TOPICS
    known = [by_name[name].metadata_hash for name in there]
    if None in known:
        known = [of_topic(by_name[name], rack) for name in there]
    hashes = pack(f"<{len(there)}q", *known)
    return _of_hashes(hashes) if len(there) <= MOST_KEPT else _signed(xxh3_64_intdigest(hashes))


@lru_cache(64)
def _of_hashes(hashes: bytes) -> int:
    # Members that join a group one after the other need it each time.
    return _signed(xxh3_64_intdigest(hashes))


def of_topic(topic: TopicImage, rack: str | None) -> int:
    """The hash of one topic, which is kept with the topic."""
    # A topic that changes is another object, and the rack stays: this is computed once for all groups.
    if topic.metadata_hash is None:
        topic.metadata_hash = topic_hash(topic, rack)
    return topic.metadata_hash


def topic_hash(topic: TopicImage, rack: str | None = None) -> int:
    """The hash of one topic."""
    topic_id, name, count = topic.topic_id, topic.name, topic.partitions
    units = name.encode("utf-16-le", "surrogatepass")
    # The bytes of each half of the id are reversed.
    head = _VERSION + topic_id[7::-1] + topic_id[:7:-1] + units + _TWO.pack(len(units) // 2, count)
    if rack is None or count > MOST_WITH_RACKS:
        numbers = _numbers(count) if count <= FEW_PARTITIONS else pack(f"<{count}i", *range(count))
        return _signed(xxh3_64_intdigest(head + numbers))
    # The length before the text is written separately from the length behind the text.
    behind = pack("<i", len(rack.encode("utf-16-le", "surrogatepass")) // 2) + _text(rack)
    hasher = xxh3_64(head)
    for one in range(count):
        hasher.update(pack("<i", one) + behind)
    return _signed(hasher.intdigest())


def is_same(one: TopicImage | None, other: TopicImage | None) -> bool:
    """Whether both have the same hash, or neither exists."""
    if one is None or other is None:
        return one is other
    return (one.topic_id, one.partitions, one.name) == (other.topic_id, other.partitions, other.name)


@lru_cache(FEW_PARTITIONS + 1)
def _numbers(count: int) -> bytes:
    # The thousands of topics of one group often have the same number of partitions.
    return pack(f"<{count}i", *range(count))


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + pack("<i", len(units) // 2)


def _signed(value: int) -> int:
    return value - 2 * _SIGN if value & _SIGN else value
