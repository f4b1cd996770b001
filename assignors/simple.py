"""Simple, the server's strategy for share groups (KIP-932), in which several members may read one partition.

With equal subscriptions, all partitions get the same number of readers, as few as give each member a partition. Members
keep partitions of the last target up to their share. With differing subscriptions, the same holds for each topic and
its subscribers. Racks are ignored. Kafka: org.apache.kafka.coordinator.group.assignor.SimpleAssignor.

A member's `owned` is its target assignment. Topics and partitions of the result ascend, because they are sets on the
server. If a member loses all partitions of a topic, the topic stays without partitions, as in Kafka's record. Hash
tables decide which partitions a member gives up, as in a Kafka server that has just loaded the group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Final

from muster.assignors.assignor import Assignment, Member, Topic, distinct_subscriptions, in_hash_order, require_distinct
from muster.assignors.java_order import (
    JavaTable,
    capacity_for,
    capacity_of_copy,
    int_order,
    spread,
    string_order,
    uuid_hash,
    uuid_order,
    walked,
)

Partition = tuple[str, int]
"""A topic, and a partition of it."""
Assignable = Mapping[str, Collection[int]]
"""The partitions that may be assigned, by topic."""


class Readers:
    """The readers of some partitions while an assignment is computed. Members are numbers, in Kafka's order."""

    def __init__(self, wanted: Sequence[Partition], members: Sequence[int], hashes: Mapping[str, int]) -> None:
        """`wanted`: the partitions to assign. `members`: their possible readers. `hashes`: for each topic, the hash
        code of its partition 0 in Kafka's tables.
        """
        self._wanted = wanted
        self._members = members
        self._hashes = hashes
        self._sharing = ceil(len(members) / len(wanted)) if wanted else 0
        each = self._sharing * len(wanted) / len(members)
        self._room = {one: ceil(each * (place + 1)) - ceil(each * place) for place, one in enumerate(members)}
        """The number of partitions that each member is to have."""
        self._table: JavaTable[Partition] = JavaTable(_capacity(len(wanted)))
        self._of_partition: dict[Partition, dict[int, None]] = {}
        self._of_member: dict[int, dict[Partition, None]] = {}
        self._kept: dict[Partition, list[int]] = {}

    def keep(self, member: int, partitions: Iterable[Partition]) -> None:
        """Note that a member had these partitions, in the order of Java's iteration. Members are noted in order."""
        for one in partitions:
            self._put(one)[member] = None
            self._kept.setdefault(one, []).append(member)
            self._of_member.setdefault(member, {})[one] = None

    def of_members(self) -> Mapping[int, Collection[Partition]]:
        """Compute the partitions of each member. Call it once, after all calls of `keep`."""
        lacking = {one for one in self._members if len(self._of_member.get(one, ())) < self._room[one]}
        for member in self._of_member:
            self._give_up(member)
        lacking |= self._share_less()
        for one in self._wanted:
            self._put(one)
        self._fill(sorted(lacking))
        return self._of_member

    def _put(self, partition: Partition) -> dict[int, None]:
        self._table.compute(partition, spread(self._hash(partition)))
        return self._of_partition.setdefault(partition, {})

    def _hash(self, partition: Partition) -> int:
        topic, number = partition
        return self._hashes[topic] + number

    def _give_up(self, member: int) -> None:
        """Take the partitions beyond its number from a member, in the order of Java's iteration."""
        had = self._of_member[member]
        excess = len(had) - self._room.get(member, 0)
        if excess > 0:
            partitions = list(had)
            for place in walked([spread(self._hash(one)) for one in partitions])[:excess]:
                del had[partitions[place]]
                del self._of_partition[partitions[place]][member]

    def _share_less(self) -> set[int]:
        """Take partitions with too many readers from some of them. Returns these members."""
        losers = set()
        for one in self._table.in_order():
            readers = self._of_partition[one]
            excess = len(readers) - self._sharing
            if excess > 0:
                kept = self._kept[one]
                order = [kept[place] for place in walked([spread(member) for member in kept])]
                for member in [member for member in order if member in readers][:excess]:
                    del readers[member]
                    del self._of_member[member][one]
                    losers.add(member)
        return losers

    def _fill(self, lacking: list[int]) -> None:
        """Give partitions with too few readers to the members that lack some, in turn.

        As on Kafka, a member may get one partition in two turns, which counts as two readers.
        """
        turns = _Turns(lacking)
        for one in self._table.in_order():
            readers = self._of_partition[one]
            missing = self._sharing - len(readers)
            while missing > 0 and (member := turns.next()) is not None:
                if member not in readers:
                    missing -= 1
                    had = self._of_member.setdefault(member, {})
                    had[one] = None
                    turns.served(is_full=len(had) >= self._room[member])
            if turns.is_over:
                return


def _capacity(count: int) -> int:
    """The size of the array of AssignorHelpers.newHashMap(count)."""
    return capacity_for(int((count + 1) / 0.75 + 1))


class _Turns:
    """The members that lack partitions, in turn. A round in which nobody could take a partition is the last one."""

    def __init__(self, members: list[int]) -> None:
        self._members = members
        self._place = 0
        self._was_served = False

    @property
    def is_over(self) -> bool:
        """Whether no member lacks a partition any more."""
        return not self._members

    def next(self) -> int | None:
        """The next member; None when the last round is over."""
        if self._place >= len(self._members):
            if not self._was_served or not self._members:
                return None
            self._place, self._was_served = 0, False
        self._place += 1
        return self._members[self._place - 1]

    def served(self, *, is_full: bool) -> None:
        """Note that the last member took a partition. `is_full`: the member lacks no further one."""
        self._was_served = True
        if is_full:
            self._place -= 1
            del self._members[self._place]


class SimpleAssignor:
    """The strategy "simple" of share groups."""

    name: Final = "simple"

    def assign(
        self, members: Sequence[Member], topics: Mapping[str, Topic], assignable: Assignable | None = None
    ) -> Assignment:
        """Compute the target assignment. Several members may get one partition.

        `topics`: the topics that exist. `assignable`: the partitions whose state is initialized; None: all partitions.
        Raises ValueError when two members have one id.
        """
        if not members:
            return {}
        require_distinct(members)
        ordered = in_hash_order(members)
        subscriptions = distinct_subscriptions(members)
        is_equal = all(set(names) == set(subscriptions[0]) for names in subscriptions)
        made = _equal(ordered, topics, assignable) if is_equal else _by_topic(ordered, topics, assignable)
        return {
            member.member_id: {topic: sorted(share[topic]) for topic in sorted(share)}
            for member, share in zip(ordered, made, strict=True)
        }


def _partitions(topic: str, topics: Mapping[str, Topic], assignable: Assignable | None) -> Iterator[Partition]:
    allowed = None if assignable is None else assignable.get(topic, ())
    for number in range(topics[topic].partitions):
        if allowed is None or number in allowed:
            yield topic, number


def _owned_in_hash_order(member: Member, topics: Mapping[str, Topic]) -> list[str]:
    """The topics of a member's target, in the order of Java's table by UUID."""
    names = [name for name in member.owned if name in topics]
    return [names[place] for place in uuid_order([topics[name].topic_id for name in names])]


def _share(owned: Iterable[str], partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """A member's partitions by topic. A topic that the member had (`owned`) may have none."""
    share: dict[str, list[int]] = {topic: [] for topic in owned}
    for topic, number in partitions:
        share.setdefault(topic, []).append(number)
    return share


def _equal(
    members: Sequence[Member], topics: Mapping[str, Topic], assignable: Assignable | None
) -> Iterator[dict[str, list[int]]]:
    """The shares of members with equal subscriptions. (Kafka: SimpleHomogeneousAssignmentBuilder.)"""
    first = members[0].topics
    names = [name for name in string_order(first, capacity_of_copy(len(first))) if name in topics]
    wanted = [one for name in names for one in _partitions(name, topics, assignable)]
    numbers = range(len(members))
    readers = Readers(wanted, numbers, {name: 31 * uuid_hash(topics[name].topic_id) for name in names})
    owned = [[name for name in _owned_in_hash_order(member, topics) if name in names] for member in members]
    for number, member in enumerate(members):
        readers.keep(number, [(name, p) for name in owned[number] for p in int_order(member.owned[name])])
    found = readers.of_members()
    return (_share(owned[number], found.get(number, ())) for number in numbers)


def _by_topic(
    members: Sequence[Member], topics: Mapping[str, Topic], assignable: Assignable | None
) -> list[dict[str, list[int]]]:
    """The shares of members with differing subscriptions. (Kafka: SimpleHeterogeneousAssignmentBuilder.)

    As on Kafka, members keep partitions of a topic to which no member is subscribed any more. If no member has any
    topic, nobody has partitions.
    """
    subscribers: dict[str, list[int]] = {}
    for number, member in enumerate(members):
        for name in dict.fromkeys(member.topics):
            if name in topics:
                subscribers.setdefault(name, []).append(number)
    if not subscribers:
        return [{} for _ in members]
    shares = [{name: list(member.owned[name]) for name in member.owned if name in topics} for member in members]
    for name, its in subscribers.items():
        readers = Readers(list(_partitions(name, topics, assignable)), its, {name: 0})
        for number, share in enumerate(shares):
            if name in share:
                readers.keep(number, [(name, one) for one in int_order(share[name])])
        found = readers.of_members()
        for number, share in enumerate(shares):
            if name in share or number in found:
                share[name] = [one for _, one in found.get(number, ())]
    return shares
