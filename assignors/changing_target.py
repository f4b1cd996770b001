"""A member's target while Kafka's "uniform" changes it, in the hash tables whose order of iteration a record has.

Kafka copies the last target (AssignorHelpers.deepCopyAssignment): a HashMap by topic of HashSets of partitions. Kafka
then removes partitions, or adds partitions by HashMap.computeIfAbsent.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from muster.assignors.java_order import (
    DEFAULT_CAPACITY,
    JavaTable,
    capacity_for,
    capacity_of_copy,
    grown,
    grown_for,
    int_order,
    int_spreads,
    spread,
)

K = TypeVar("K", bound=Hashable)
"""What stands for a topic: its index, or its UUID."""


class ChangingTarget(Generic[K]):
    """The copy of a member's last target."""

    __slots__ = ("_capacities", "_hash_of", "_is_new", "_sets", "_topics")

    def __init__(self, last: Mapping[K, Sequence[int]], size: int, hash_of: Callable[[K], int]) -> None:
        """`last`: the last target without dropped topics, in the order of iteration; its partitions, too. `size`: the
        number of topics with dropped ones. `hash_of`: the spread hash of a topic's UUID.
        """
        self._hash_of = hash_of
        self._topics: JavaTable[K] = JavaTable(grown_for(size, capacity_for(size)))
        self._sets: dict[K, JavaTable[int] | list[int]] = {topic: list(its) for topic, its in last.items()}
        """Partitions in the order in which they were put; a table since the first removal."""
        self._capacities = {topic: capacity_of_copy(len(its)) for topic, its in last.items()}
        """The array of each set before partitions were put into it."""
        self._is_new = False
        """Whether the last call of computeIfAbsent inserted a topic: the next call may grow the table."""
        for topic in last:
            self._topics.put(topic, hash_of(topic))

    def remove(self, topic: K, partition: int) -> None:
        """Remove a partition that the target has."""
        partitions = self._sets[topic]
        if isinstance(partitions, list):
            table = JavaTable[int](self._capacities[topic])
            for one in partitions:
                table.put(one, spread(one))
            partitions = self._sets[topic] = table
        partitions.remove(partition)
        if not len(partitions):
            self._topics.remove(topic)
            del self._sets[topic]

    def add(self, topic: K, partition: int, capacity: int = DEFAULT_CAPACITY) -> None:
        """Add a partition. `capacity`: that of the set of partitions of a new topic."""
        partitions = self._sets.get(topic)
        if partitions is None:
            self._topics.compute(topic, self._hash_of(topic))
            self._sets[topic], self._capacities[topic] = [partition], capacity
            self._is_new = True
            return
        if self._is_new:
            self._is_new = False
            self._topics.found()
        if isinstance(partitions, list):
            partitions.append(partition)
        else:
            partitions.put(partition, spread(partition))

    def add_each(self, rows: Iterable[tuple[K, int]]) -> None:
        """Add partitions. Most of them follow a partition of the same topic."""
        last: list[int] | None = None
        last_topic: K | None = None
        for topic, partition in rows:
            if last is not None and topic == last_topic and not self._is_new:
                last.append(partition)
                continue
            self.add(topic, partition)
            partitions, last_topic = self._sets[topic], topic
            last = partitions if isinstance(partitions, list) else None

    def cut(self, room: int) -> list[tuple[K, int]]:
        """Remove partitions until the target has `room` partitions. Returns the removed ones in their order."""
        removed = []
        for topic in list(self._sets):
            its = self._in_order(topic)
            if len(its) > room:
                removed += [(topic, one) for one in its[room:]]
                self._keep(topic, its, room)
            room -= min(room, len(its))
        return removed

    def _keep(self, topic: K, its: list[int], room: int) -> None:
        """Remove all but the first partitions of a topic. `its`: all partitions in the order of iteration."""
        partitions = self._sets[topic]
        if room and isinstance(partitions, list):
            capacity = grown_for(len(its), self._capacities[topic])
            if grown(int_spreads(partitions), self._capacities[topic]) == capacity:
                # No bucket has made the array grow, so the rest has the same order in an array of this size.
                self._sets[topic], self._capacities[topic] = its[:room], capacity
                return
        for one in its[room:]:
            self.remove(topic, one)

    def in_order(self) -> dict[K, list[int]]:
        """The topics with their partitions, in the order of iteration."""
        return {topic: self._in_order(topic) for topic in self._topics.in_order()}

    def _in_order(self, topic: K) -> list[int]:
        partitions = self._sets[topic]
        if isinstance(partitions, list):
            return int_order(partitions, self._capacities[topic])
        return partitions.in_order()
