"""The moves of a balancing, and better moves in their place.

If a partition of a topic went from A to B and another one is to go from B to A, it is better to send the first one
back. Kafka: AbstractStickyAssignor's PartitionMovements.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.assignors.java_order import JavaSet

Pair = tuple[int, int]
"""From member to member."""


class Moves:
    """Moves so far. Partitions are codes (sticky_group); `hash_code` gives the Java hash code of one."""

    def __init__(self, topics: int, hash_code: Callable[[int], int]) -> None:
        self._hash_code = hash_code
        self._topics = topics
        self._of_partition: dict[int, Pair] = {}
        """From where it first came to where it is."""
        self._of_topic: dict[int, dict[Pair, JavaSet[int]]] = {}

    def instead(self, code: int, old: int, new: int) -> int:
        """The partition of the same topic to move when `code` is to go from `old` to `new`."""
        pairs = self._of_topic.get(code % self._topics)
        if not pairs:
            return code
        source = self._of_partition[code][0] if code in self._of_partition else old
        back = pairs.get((new, source))
        return code if back is None else back.first()

    def add(self, code: int, old: int, new: int) -> None:
        """Note that a partition went from one member to another."""
        source = self._forget(code)
        if source is None:
            source = old
        elif source == new:
            return
        pair = (source, new)
        self._of_partition[code] = pair
        self._of_topic.setdefault(code % self._topics, {}).setdefault(pair, JavaSet()).add(code, self._hash_code(code))

    def _forget(self, code: int) -> int | None:
        """Drop what is known of a partition; the member it first came from."""
        pair = self._of_partition.pop(code, None)
        if pair is None:
            return None
        pairs = self._of_topic[code % self._topics]
        pairs[pair].remove(code)
        if not pairs[pair]:
            del pairs[pair]
        return pair[0]
