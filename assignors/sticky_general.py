"""Sticky for differing subscriptions: keep what can be kept, assign the rest, then move partitions for balance.

Members keep partitions of topics that they are still subscribed to (with racks: partitions with a replica in their
rack). Each other partition goes to the subscriber with fewest partitions; topics with fewest subscribers come first.
Then partitions move from members with more to subscribers that would have less. If the moves, all together, do not
improve the balance, they are undone.

Kafka: AbstractStickyAssignor's GeneralAssignmentBuilder. A member that has all partitions that it could have takes no
part in balancing. If Kafka tries to give a partition back to such a member, it fails with a NullPointerException. Here
such a step is skipped.

`Loads` has the members' numbers of partitions ("sizes") during balancing, with fast access to the smallest and the
largest. Members with the same subscription and rack form a class. Each class keeps a heap of its members by size, then
id. Outdated entries of a heap are dropped when they come to the top. Each topic keeps a heap of its owners, largest
first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain

from muster.assignors.assignor import NO_GENERATION
from muster.assignors.java_order import JavaTable, spread, utf16
from muster.assignors.sticky_group import Group
from muster.protocol.hashing import java_string_hash


def most_of(group: Group, topics: Sequence[int]) -> int:
    """How many partitions these topics have.

    If the list is as long as that of all topics, all partitions count, as in Kafka.
    """
    return group.total if len(topics) == group.count else sum(group.sizes[topic] for topic in topics)


class _Class:
    """Members with the same subscription and rack."""

    __slots__ = ("heap", "members", "most", "rack", "topics")

    def __init__(self, topics: list[int], rack: str | None, most: int) -> None:
        self.topics = topics
        self.rack = rack
        self.most = most
        """The most partitions that a member can have, as Kafka counts (wrongly, if a member lists a topic twice)."""
        self.members: list[int] = []
        self.heap: list[tuple[int, int, int]] = []
        """Entries (size, rank of the id, member)."""


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
        """For each topic, a heap of (-size, owner)."""
        self._sizes: dict[int, int] = {}
        """For each size, how many members that take part have it."""
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
        """Leave a member out: from now on the member gets no partitions and does not count."""
        self._out.add(member)

    def takes_part(self, member: int) -> bool:
        """Whether a member takes part: it was not left out."""
        return member not in self._out

    def give(self, member: int, code: int) -> None:
        """Give a partition to a member."""
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
        """The subscriber with the fewest partitions; of several, the one with the smallest id.

        With `racks`, only subscribers in one of these racks or without a rack count.
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
        """Whether no partition could go to a subscriber that would then have less than its owner has now."""
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


def general_shares(group: Group) -> list[list[int]]:
    """The codes of each member's partitions."""
    if not group.count:
        return [[] for _ in group.ids]
    return _Balancing(group).shares()


class _Balancing:
    """One assignment while it is computed."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._subscribed = [[group.index[name] for name in m.topics if name in group.index] for m in group.members]
        """The topics of each member. A topic that a member lists twice counts twice, as in Kafka."""
        self._wanted = [0] * group.count
        for topic in chain.from_iterable(self._subscribed):
            self._wanted[topic] += 1
        by_demand = sorted(range(group.count), key=lambda topic: (self._wanted[topic], topic))
        self._all = [code for topic in by_demand for code in group.codes_of(topic)]
        """Every partition; topics with fewest subscribers come first."""
        self._previous = _previous_owners(group)
        self._revoked = False
        kept = self._keep(group.owned()[0])
        self._owner = {code: member for member, codes in enumerate(kept) for code in codes}
        self._loads = Loads(group, self._subscribed, kept)
        hashes = [java_string_hash(name) for name in group.names]
        self._moves = Moves(group.count, lambda code: 31 * (31 + code // group.count) + hashes[code % group.count])

    def _keep(self, owned: Sequence[Sequence[int]]) -> list[dict[int, None]]:
        kept = []
        for member, codes in enumerate(owned):
            topics = set(self._subscribed[member])
            stays = [
                code
                for code in codes
                if code % self._group.count in topics and not self._group.racks.mismatch(member, code)
            ]
            self._revoked |= len(stays) < len(codes)
            kept.append(dict.fromkeys(stays))
        return kept

    def shares(self) -> list[list[int]]:
        shares = self._loads.shares
        fresh = not any(shares)
        unassigned = [code for code in self._all if code not in self._owner]
        self._hand_out(unassigned)
        unassigned, reassignable = self._contested(unassigned), self._contested(self._all)
        for member in range(len(shares)):
            if not self._takes_part(member):
                self._loads.leave_out(member)
        before = [list(codes) for codes in shares]
        self._loads.watch_balance()
        if not self._revoked:
            self._balance(unassigned)
        if self._balance(reassignable) and not fresh and self._imbalance(shares) >= self._imbalance(before):
            return before
        return [list(codes) for codes in shares]

    def _contested(self, codes: Sequence[int]) -> list[int]:
        """The partitions among `codes` that more than one member could have."""
        return [code for code in codes if self._wanted[code % self._group.count] >= 2]

    def _takes_part(self, member: int) -> bool:
        """Whether a member could get more partitions, or has a partition that another member could have."""
        mine = self._loads.shares[member]
        return len(mine) < most_of(self._group, self._subscribed[member]) or bool(self._contested(list(mine)))

    def _hand_out(self, unassigned: Sequence[int]) -> None:
        if self._group.racks.used:
            unassigned = [code for code in unassigned if not self._hand(code, self._group.racks.of(code))]
        for code in unassigned:
            self._hand(code, None)

    def _hand(self, code: int, racks: frozenset[str] | None) -> bool:
        taker = self._loads.least(code % self._group.count, racks)
        if taker is None:
            return False
        self._loads.give(taker, code)
        self._owner[code] = taker
        return True

    def _balance(self, codes: Sequence[int]) -> bool:
        """Try to move partitions until the group is balanced or none moves. Returns whether a partition moved."""
        any_moved = False
        moved = True
        while moved:
            moved = False
            for code in codes:
                if self._loads.balanced():
                    break
                if (taker := self._better_owner(code)) is not None:
                    self._move(self._moves.instead(code, self._owner[code], taker), taker)
                    moved = any_moved = True
        return any_moved

    def _better_owner(self, code: int) -> int | None:
        """The partition's owner in an earlier generation, else the subscriber with fewest.

        None unless that member has at least two partitions fewer than the present owner.
        """
        size = len(self._loads.shares[self._owner[code]])
        previous = self._previous.get(code)
        if previous is not None and self._loads.takes_part(previous) and size > len(self._loads.shares[previous]) + 1:
            return previous
        taker = self._loads.least(code % self._group.count)
        return taker if taker is not None and size > len(self._loads.shares[taker]) + 1 else None

    def _move(self, code: int, taker: int) -> None:
        owner = self._owner[code]
        self._moves.add(code, owner, taker)
        self._loads.take(owner, code)
        self._loads.give(taker, code)
        self._owner[code] = taker

    def _imbalance(self, shares: Sequence[Sequence[int] | dict[int, None]]) -> int:
        """The sum of the differences in size between any two members that take part."""
        sizes = sorted(len(codes) for member, codes in enumerate(shares) if self._loads.takes_part(member))
        return sum(size * (2 * place - len(sizes) + 1) for place, size in enumerate(sizes))


def _previous_owners(group: Group) -> dict[int, int]:
    """The owner of each partition in the newest of the older generations."""
    newest = group.newest()
    owners: dict[int, tuple[int, int]] = {}
    for member, generation in enumerate(group.generations):
        age = NO_GENERATION if generation is None else generation
        if age < newest:
            for code in group.claimed[member]:
                if code not in owners or age > owners[code][0]:
                    owners[code] = (age, member)
    return {code: member for code, (_, member) in owners.items()}


Pair = tuple[int, int]
"""The member that loses a partition, and the member that gets it."""


class Moves:
    """The moves during balancing. Finds a better move in the place of a wanted move (Kafka's PartitionMovements).

    A partition of a topic may have moved from A to B before another should move back. Then it is better to move the
    first partition back. Partitions are codes (sticky_group); `hash_code` returns the Java hash code of a code.
    """

    def __init__(self, topics: int, hash_code: Callable[[int], int]) -> None:
        self._hash_code = hash_code
        self._topics = topics
        self._of_partition: dict[int, Pair] = {}
        """The first and the present owner of each partition that has moved."""
        self._of_topic: dict[int, dict[Pair, JavaTable[int]]] = {}

    def instead(self, code: int, old: int, new: int) -> int:
        """The partition of the same topic that should move when `code` is to move from `old` to `new`."""
        pairs = self._of_topic.get(code % self._topics)
        if not pairs:
            return code
        source = self._of_partition[code][0] if code in self._of_partition else old
        back = pairs.get((new, source))
        return code if back is None else back.first()

    def add(self, code: int, old: int, new: int) -> None:
        """Record that a partition moved from one member to another."""
        source = self._forget(code)
        if source is None:
            source = old
        elif source == new:
            return
        pair = (source, new)
        self._of_partition[code] = pair
        of_pairs = self._of_topic.setdefault(code % self._topics, {})
        of_pairs.setdefault(pair, JavaTable()).put(code, spread(self._hash_code(code)))

    def _forget(self, code: int) -> int | None:
        """Forget the moves of a partition. Returns its first owner."""
        pair = self._of_partition.pop(code, None)
        if pair is None:
            return None
        pairs = self._of_topic[code % self._topics]
        pairs[pair].remove(code)
        if not pairs[pair]:
            del pairs[pair]
        return pair[0]
