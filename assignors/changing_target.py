"""A member's target while Kafka's "uniform" changes it, in the hash tables whose order of iteration a record has.

Kafka copies the last target (AssignorHelpers.deepCopyAssignment): a HashMap by topic of HashSets of partitions. Kafka
then removes partitions, or adds partitions by HashMap.computeIfAbsent.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

from muster.assignors.java_order import (
    DEFAULT_CAPACITY,
    JavaTable,
    capacity_for,
    capacity_of_copy,
    grown_for,
    spread,
)

K = TypeVar("K", bound=Hashable)
"""What stands for a topic: its index, or its UUID."""


class ChangingTarget(Generic[K]):
    """The copy of a member's last target."""

    __slots__ = ("_hash_of", "_sets", "_topics")

    def __init__(self, last: Mapping[K, Sequence[int]], size: int, hash_of: Callable[[K], int]) -> None:
        """`last`: the last target without dropped topics, in the order of iteration; its partitions, too. `size`: the
        number of topics with dropped ones. `hash_of`: the spread hash of a topic's UUID.
        """
        self._hash_of = hash_of
        self._topics: JavaTable[K] = JavaTable(grown_for(size, capacity_for(size)))
        self._sets: dict[K, JavaTable[int] | Sequence[int]] = {**last}
        for topic in last:
            self._topics.put(topic, hash_of(topic))

    def _set(self, topic: K) -> JavaTable[int]:
        found = self._sets[topic]
        if not isinstance(found, JavaTable):
            partitions, found = found, JavaTable(capacity_of_copy(len(found)))
            for one in partitions:
                found.put(one, spread(one))
            self._sets[topic] = found
        return found

    def remove(self, topic: K, partition: int) -> None:
        """Remove a partition that the target has."""
        partitions = self._set(topic)
        partitions.remove(partition)
        if not len(partitions):
            self._topics.remove(topic)
            del self._sets[topic]

    def add(self, topic: K, partition: int, capacity: int = DEFAULT_CAPACITY) -> None:
        """Add a partition. `capacity`: that of the set of partitions of a new topic."""
        self._topics.compute(topic, self._hash_of(topic))
        if topic not in self._sets:
            self._sets[topic] = JavaTable(capacity)
        self._set(topic).put(partition, spread(partition))

    def cut(self, room: int) -> list[tuple[K, int]]:
        """Remove partitions until the target has `room` partitions. Returns the removed ones in their order."""
        removed = []
        for topic, partitions in list(self._sets.items()):
            its = self._in_order(partitions)
            removed += [(topic, one) for one in its[room:]]
            room -= min(room, len(its))
        for topic, one in removed:
            self.remove(topic, one)
        return removed

    def in_order(self) -> dict[K, list[int]]:
        """The topics with their partitions, in the order of iteration."""
        return {topic: self._in_order(self._sets[topic]) for topic in self._topics.in_order()}

    @staticmethod
    def _in_order(partitions: JavaTable[int] | Sequence[int]) -> list[int]:
        return partitions.in_order() if isinstance(partitions, JavaTable) else list(partitions)
