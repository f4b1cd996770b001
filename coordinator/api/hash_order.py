"""The order of names in Kafka's answers where it gathers what was asked in tables of hashes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from muster.assignors.java_order import DEFAULT_CAPACITY, spread, string_order, walked
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.protocol.hashing import java_string_hash

MOST_NAMES: Final = 500
"""More names stay as they came: no client asks for so many and looks at their order."""
MOST_CHARACTERS: Final = 50_000
"""Of all names together: to hash them takes some 5 ms."""


def in_hash_order(names: Iterable[str], capacity: int = DEFAULT_CAPACITY) -> list[str]:
    """Distinct names as a Java HashSet is walked into which they were put one after the other."""
    distinct = list(dict.fromkeys(names))
    if len(distinct) > MOST_NAMES or sum(map(len, distinct)) > MOST_CHARACTERS:
        return distinct
    return string_order(distinct, capacity)


def by_coordinator(
    group_ids: Iterable[str], partition_of: Callable[[str], int], *, is_set: bool = False
) -> Job[list[str]]:
    """Groups as Kafka asks their coordinators: those of one partition of `__consumer_offsets` together.

    They stand as they came or, with `is_set`, as a HashSet has them. The partitions stand as in a table of the hashes
    of TopicPartition. Of two in one bucket the later one is first.
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
