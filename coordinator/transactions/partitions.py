"""The partitions of a transaction in its record: their order, which is that of Java's hash sets, and their size.

Kafka keeps them in a HashSet<TopicPartition>, and groups them in a HashMap by topic. Both iterate over their buckets in
order; the number of buckets grows with the set. In a set with more than `MOST` partitions, new partitions follow the
others. This module decides nothing else.

The record of a transaction is in one batch with those of the same command. The batch may not be larger than
`max.message.bytes` of `__transaction_state`. Each request of the transaction reads all of its partitions.

"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sized
from functools import lru_cache
from typing import Final

from muster.protocol.hashing import java_string_hash

MAX_ORDERED: Final = 1_000
"""Partitions that are put in Kafka's order: some 2 ms."""
_MASK: Final = 0xFFFFFFFF
_LEAST_BUCKETS: Final = 16

_hash_of_topic = lru_cache(maxsize=1_000)(java_string_hash)


def with_more(
    present: Mapping[str, Collection[int]], more: Iterable[tuple[str, Iterable[int]]]
) -> dict[str, dict[int, None]]:
    """The partitions of both, by topic, in the order of the record that adds `more`."""
    added: dict[str, dict[int, None]] = {}
    for topic, partitions in more:
        added.setdefault(topic, {}).update(dict.fromkeys(partitions))
    return _merged(present, added)


def _count(partitions: Mapping[str, Collection[int]]) -> int:
    return sum(map(len, partitions.values()))


def _merged(
    present: Mapping[str, Collection[int]], added: Mapping[str, Mapping[int, None]]
) -> dict[str, dict[int, None]]:
    merged = {topic: dict.fromkeys(partitions) for topic, partitions in present.items()}
    before, count = _count(merged), _count(added)
    if before + count > MAX_ORDERED:
        for topic, ids in added.items():
            merged.setdefault(topic, {}).update(ids)
        return merged
    for topic, partition in _in_set(_each(added), _buckets_for(count)):
        merged.setdefault(topic, {})[partition] = None
    count = _count(merged)
    if count == 1:
        return merged
    # The first partition of a topic inserts the topic into the map, by computeIfAbsent: at the head of its bucket.
    ordered: dict[str, dict[int, None]] = {}
    for topic, partition in _in_set(_each(merged), max(_buckets_of_copy(before), _buckets_for(count))):
        ordered.setdefault(topic, {})[partition] = None
    if len(ordered) == 1:
        return ordered
    mask = _buckets_for(len(ordered)) - 1
    topics = list(reversed(ordered))
    topics.sort(key=lambda topic: _spread(_hash_of_topic(topic)) & mask)
    return {topic: ordered[topic] for topic in topics}


def _in_set(partitions: Iterable[tuple[str, int]], buckets: int) -> list[tuple[str, int]]:
    mask = buckets - 1
    return sorted(partitions, key=lambda one: _spread(_hash_of_topic(one[0]) + 31 * (31 + one[1])) & mask)


def _each(partitions: Mapping[str, Collection[int]]) -> Iterable[tuple[str, int]]:
    return ((topic, partition) for topic, ids in partitions.items() for partition in ids)


def _spread(value: int) -> int:
    """HashMap.hash of an object with this hashCode."""
    value &= _MASK
    return value ^ value >> 16


def _buckets_for(count: int) -> int:
    """The buckets of a HashMap that has grown to so many entries."""
    buckets = _LEAST_BUCKETS
    while count * 4 > buckets * 3:
        buckets *= 2
    return buckets


def _buckets_of_copy(count: int) -> int:
    """The buckets of a HashSet that was copied from a set with so many entries."""
    return 1 << (max(count * 4 // 3 + 1, _LEAST_BUCKETS) - 1).bit_length()


HEADER: Final = 61
"""Bytes of a batch before its records."""
MAX_PARTITIONS: Final = 50_000
"""Most partitions of one transaction: to add them takes some 30 ms."""
_A_RECORD: Final = 160
"""More bytes than a record has without its names and partitions."""
_A_TOPIC: Final = 12
_A_PARTITION: Final = 4


def of_record(transactional_id: str, partitions_size: int) -> int:
    """An upper bound for the bytes of the record of a transaction with partitions of that size."""
    return _A_RECORD + 4 * len(transactional_id) + partitions_size


def of_partitions(partitions: Mapping[str, Sized]) -> int:
    """An upper bound for the bytes of the partitions in a record."""
    return sum([_A_TOPIC + 4 * len(topic) + _A_PARTITION * len(ids) for topic, ids in partitions.items()])
