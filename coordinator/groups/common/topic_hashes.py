"""The hash of topics that consumer and share groups keep in the record of their epoch.

Kafka: Utils.computeTopicHash, computeGroupHash. A changed topic has another hash, so the group gets a new epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from struct import Struct, pack
from typing import Final

from xxhash import xxh3_64, xxh3_64_intdigest

from muster.coordinator.groups.common.image import TopicImage, TopicsImage

NO_HASH: Final = 0
MAX_WITH_RACKS: Final = 100_000
"""The racks of a topic with more partitions than this are not hashed. At this limit, the hash takes some 12 ms."""
_VERSION: Final = b"\0"
_SIGN: Final = 1 << 63
_TWO: Final = Struct("<ii")
FEW_PARTITIONS: Final = 64
"""The encoded numbers of at most this many partitions are cached for all topics."""
TOPICS_KEPT: Final = 4_096
"""The hash of a group with at most this many topics is cached, for 64 groups."""


def hash_of_topics(names: Iterable[str], image: TopicsImage, rack: str | None = None) -> int:
    """The hash of the existing topics among `names`. `rack`: the rack of this node, which is that of all replicas."""
    by_name = image.by_name
    there = sorted([name for name in names if name in by_name])  # as in Java, because names of topics are ASCII
    if not there:
        return NO_HASH
    known = [by_name[name].metadata_hash for name in there]
    if None in known:
        known = [hash_of_topic(by_name[name], rack) for name in there]
    hashes = pack(f"<{len(there)}q", *known)
    return _of_hashes(hashes) if len(there) <= TOPICS_KEPT else _signed(xxh3_64_intdigest(hashes))


@lru_cache(64)
def _of_hashes(hashes: bytes) -> int:
    # The hash is cached, because all members that join a group need the same hash.
    return _signed(xxh3_64_intdigest(hashes))


def hash_of_topic(topic: TopicImage, rack: str | None) -> int:
    """The hash of one topic, which is cached in the topic."""
    # A changed topic is a new object, and the rack never changes. So the hash is computed once for all groups.
    if topic.metadata_hash is None:
        topic.metadata_hash = topic_hash(topic, rack)
    return topic.metadata_hash


def topic_hash(topic: TopicImage, rack: str | None = None) -> int:
    """The hash of one topic."""
    topic_id, name, count = topic.topic_id, topic.name, topic.partitions
    units = name.encode("utf-16-le", "surrogatepass")
    # The bytes of each half of the id are reversed.
    head = _VERSION + topic_id[7::-1] + topic_id[:7:-1] + units + _TWO.pack(len(units) // 2, count)
    if rack is None or count > MAX_WITH_RACKS:
        numbers = _numbers(count) if count <= FEW_PARTITIONS else pack(f"<{count}i", *range(count))
        return _signed(xxh3_64_intdigest(head + numbers))
    # The rack's length is written before the text, and again after the text.
    behind = pack("<i", len(rack.encode("utf-16-le", "surrogatepass")) // 2) + _text(rack)
    hasher = xxh3_64(head)
    for one in range(count):
        hasher.update(pack("<i", one) + behind)
    return _signed(hasher.intdigest())


def has_same_hash(one: TopicImage | None, other: TopicImage | None) -> bool:
    """Whether two topics have the same hash, or neither topic exists."""
    if one is None or other is None:
        return one is other
    return (one.topic_id, one.partitions, one.name) == (other.topic_id, other.partitions, other.name)


@lru_cache(FEW_PARTITIONS + 1)
def _numbers(count: int) -> bytes:
    # The result is cached, because many topics of a group have the same number of partitions.
    return pack(f"<{count}i", *range(count))


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + pack("<i", len(units) // 2)


def _signed(value: int) -> int:
    return value - 2 * _SIGN if value & _SIGN else value


def existing_names(names: Collection[str], by_name: Mapping[str, TopicImage]) -> list[str]:
    """The names of existing topics, found by a loop over the smaller collection."""
    if len(names) <= len(by_name):
        return [name for name in names if name in by_name]
    return [name for name in by_name if name in names]
