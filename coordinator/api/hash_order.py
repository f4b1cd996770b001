"""The order of names in Kafka's answers where Kafka collects the requested names in hash tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from muster.assignors.java_order import DEFAULT_CAPACITY, spread, string_order, walked
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.protocol.hashing import java_string_hash

MOST_NAMES: Final = 500
"""More names than this keep their order: no client has so many names and depends on their order."""
MOST_CHARACTERS: Final = 50_000
"""The limit of all names together: hashing so many characters takes some 5 ms."""


def in_hash_order(names: Iterable[str], capacity: int = DEFAULT_CAPACITY) -> list[str]:
    """Distinct names, in the iteration order of a Java HashSet to which they were added one after the other."""
    distinct = list(dict.fromkeys(names))
    if len(distinct) > MOST_NAMES or sum(map(len, distinct)) > MOST_CHARACTERS:
        return distinct
    return string_order(distinct, capacity)


def by_coordinator(
    group_ids: Iterable[str], partition_of: Callable[[str], int], *, is_set: bool = False
) -> Job[list[str]]:
    """Groups in the order in which Kafka asks their coordinators. Groups of one partition of `__consumer_offsets` stand
    together.

    Within a partition, groups keep their order, or have that of a HashSet with `is_set`. The partitions have the order
    of a hash table of TopicPartition. Of two in one bucket, the later one is first.
    """
    of_partition: dict[int, list[str]] = {}
    for group_id in group_ids:
        of_partition.setdefault(partition_of(group_id), []).append(group_id)
        yield None
    partitions = [*reversed(of_partition)]
    in_order = walked([spread(31 * (31 + partition) + _TOPIC_HASH) for partition in partitions])
    found: list[str] = []
    for index in in_order:
        together = of_partition[partitions[index]]
        found += in_hash_order(together) if is_set else together
        yield None
    return found


_TOPIC_HASH: Final = java_string_hash(GROUP_OFFSETS_TOPIC)
