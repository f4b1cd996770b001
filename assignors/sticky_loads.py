"""The numbers of partitions of members during balancing, with fast access to the fewest and the most.

Members with the same subscription and rack form a class. Each class keeps a heap of its members by size, then id.
Outdated entries are dropped when they are reached. Each topic keeps such a heap of its owners, largest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

from muster.assignors.java_order import utf16
from muster.assignors.sticky_group import Group


def most_of(group: Group, topics: Sequence[int]) -> int:
    """How many partitions these topics have. If as many topics are listed as exist, it is the
    number of all partitions.
    """
    return group.total if len(topics) == group.count else sum(group.sizes[topic] for topic in topics)


class _Class:
    """Members with the same subscription and rack."""

    __slots__ = ("heap", "members", "most", "rack", "topics")

    def __init__(self, topics: list[int], rack: str | None, most: int) -> None:
        self.topics = topics
        self.rack = rack
        self.most = most
        """Kafka's value for the most that a member can have. It is wrong for a member that lists a topic twice."""
        self.members: list[int] = []
        self.heap: list[tuple[int, int, int]] = []
        """(size, rank of the id, member)."""


class Loads:
    """The owners of partitions, `shares` by member. Only `give` and `take` change them."""

    def __init__(self, group: Group, subscribed: list[list[int]], shares: list[dict[int, None]]) -> None:
        self.shares = shares
        self._topics = group.count
        self._rank = [0] * len(shares)
        for rank, member in enumerate(sorted(range(len(shares)), key=lambda member: utf16(group.ids[member]))):
            self._rank[member] = rank
        self._out: set[int] = set()
        self._class_of = self._classify(group, subscribed)
        self._classes_of_topic: list[list[_Class]] = [[] for _ in range(group.count)]
        for each in dict.fromkeys(self._class_of):
            heapify(each.heap)
            for topic in each.topics:
                self._classes_of_topic[topic].append(each)
        self._held: list[dict[int, int]] = [{} for _ in shares]
        """How many partitions of each topic each member has."""
        self._owners: list[list[tuple[int, int]]] = [[] for _ in range(group.count)]
        """Heaps of (-size, owner)."""
        self._sizes: dict[int, int] = {}
        """How many of the members that take part have each size."""
        self._watching = False
        self._witness: tuple[int, int, int] | None = None

    def _classify(self, group: Group, subscribed: list[list[int]]) -> list[_Class]:
        racks: list[str | None] = group.racks.of_member if group.racks.used else [None] * len(subscribed)
        classes: dict[tuple[tuple[int, ...], str | None], _Class] = {}
        found = []
        for member, topics in enumerate(subscribed):
            key = (tuple(sorted(topics)), racks[member])
            its = classes.get(key)
            if its is None:
                its = classes[key] = _Class(sorted(set(topics)), racks[member], most_of(group, topics))
            its.members.append(member)
            its.heap.append((len(self.shares[member]), self._rank[member], member))
            found.append(its)
        return found

    def leave_out(self, member: int) -> None:
        """Leave a member out: from now on it gets nothing and does not count."""
        self._out.add(member)

    def takes_part(self, member: int) -> bool:
        """Whether a member was not left out."""
        return member not in self._out

    def give(self, member: int, code: int) -> None:
        """Let a member have a partition."""
        self.shares[member][code] = None
        self._changed(member)
        if self._watching:
            self._watch(member, code % self._topics, 1)

    def take(self, member: int, code: int) -> None:
        """Take a partition from a member."""
        del self.shares[member][code]
        self._changed(member)
        if self._watching:
            self._watch(member, code % self._topics, -1)

    def _changed(self, member: int) -> None:
        heappush(self._class_of[member].heap, (len(self.shares[member]), self._rank[member], member))

    def least(self, topic: int, racks: frozenset[str] | None = None) -> int | None:
        """The subscriber with fewest partitions; of several, that with the least id.

        With racks, only subscribers in one of them or without a rack count.
        """
        best: tuple[int, int, int] | None = None
        for each in self._classes_of_topic[topic]:
            if racks is not None and each.rack is not None and each.rack not in racks:
                continue
            head = self._head(each)
            if head is not None and (best is None or head < best):
                best = head
        return None if best is None else best[2]

    def _head(self, each: _Class) -> tuple[int, int, int] | None:
        heap = each.heap
        while heap:
            size, _, member = heap[0]
            if size == len(self.shares[member]) and member not in self._out:
                return heap[0]
            heappop(heap)
        return None

    def watch_balance(self) -> None:
        """Start to keep the data that `balanced` needs."""
        self._watching = True
        for member, codes in enumerate(self.shares):
            if member not in self._out:
                size = len(codes)
                self._sizes[size] = self._sizes.get(size, 0) + 1
                held = self._held[member]
                for code in codes:
                    topic = code % self._topics
                    held[topic] = held.get(topic, 0) + 1
                for topic in held:
                    self._owners[topic].append((-size, member))
        for owners in self._owners:
            heapify(owners)

    def _watch(self, member: int, topic: int, change: int) -> None:
        size = len(self.shares[member])
        sizes = self._sizes
        sizes[size - change] -= 1
        if not sizes[size - change]:
            del sizes[size - change]
        sizes[size] = sizes.get(size, 0) + 1
        held = self._held[member]
        held[topic] = held.get(topic, 0) + change
        if not held[topic]:
            del held[topic]
        for each in held:
            heappush(self._owners[each], (-size, member))

    def balanced(self) -> bool:
        """Whether no partition can go to a subscriber that would still have less than its owner had."""
        if not self._sizes or min(self._sizes) >= max(self._sizes) - 1:
            return True
        if self._witness is not None and self._improves(*self._witness):
            return False
        self._witness = next(self._improvements(), None)
        return self._witness is None

    def _improves(self, owner: int, topic: int, taker: int) -> bool:
        size = len(self.shares[taker])
        return topic in self._held[owner] and size + 1 < len(self.shares[owner]) and size != self._class_of[taker].most

    def _improvements(self) -> Iterator[tuple[int, int, int]]:
        for topic in range(self._topics):
            owner = self._largest_owner(topic)
            if owner is not None:
                for each in self._classes_of_topic[topic]:
                    head = self._head(each)
                    takers = [] if head is None else [head[2]] if head[0] != each.most else each.members
                    yield from (
                        (owner, topic, taker)
                        for taker in takers
                        if self.takes_part(taker) and self._improves(owner, topic, taker)
                    )

    def _largest_owner(self, topic: int) -> int | None:
        heap = self._owners[topic]
        while heap:
            size, member = heap[0]
            if -size == len(self.shares[member]) and topic in self._held[member]:
                return member
            heappop(heap)
        return None
