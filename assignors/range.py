"""Range: each subscriber of a topic gets a run of neighbouring partitions.

Range guarantees that the numbers of partitions of a topic's subscribers differ by one at most. The first subscribers
get the larger shares (static members by instance id, then the others by member id). So topics with the same number of
partitions and the same subscribers are co-partitioned. That means: one member gets partition n of all these topics. A
group with many small topics is uneven, because the first members always get more. Range is not sticky.

With racks (KIP-881) partitions first go to subscribers in the rack of one of their replicas, within the same shares.
The other partitions are assigned as without racks. Topics stay co-partitioned. Racks count only if some partition has
no replica in one of the topic's racks.

Kafka: org.apache.kafka.clients.consumer.RangeAssignor.

`ServerRangeAssignor` is the server's range (KIP-848), which ignores racks.

The server's range guarantees the same as the clients' range. In the result, topics have the order of Kafka's hash
tables, as in the record of the target.

Kafka: org.apache.kafka.coordinator.group.assignor.RangeAssignor.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from muster.assignors.assignor import (
    Assignment,
    Member,
    RebalanceProtocol,
    Topic,
    by_identity,
    distinct_subscriptions,
    no_user_data,
    require_distinct,
    subscribers,
    topics_in_hash_order,
)
from muster.assignors.java_order import capacity_for, capacity_of_copy, sort_strings, string_order, uuid_order


def matters(consumers: Sequence[Member], topic: Topic) -> bool:
    """Whether racks count: some rack has consumers and partitions, and not every partition is in all racks."""
    theirs = {member.rack for member in consumers if member.rack}
    everywhere = {rack for racks in topic.racks for rack in racks}
    return bool(theirs & everywhere) and any(set(racks) != everywhere for racks in topic.racks)


class RackMatching:
    """Distributes the partitions of topics with the same subscribers and the same number of partitions.

    All these topics get the same assignment, so they stay co-partitioned. Partition n goes to a subscriber only if
    partition n of each topic has a replica in the subscriber's rack. Subscribers without a rack match any rack.
    """

    def __init__(self, consumers: Sequence[Member], topics: Sequence[Topic]) -> None:
        self._racks = [member.rack or None for member in consumers]
        self._partitions = topics[0].partitions
        self._share, self._larger = divmod(self._partitions, len(consumers))
        self._left: list[int | None] = list(range(self._partitions))
        """The partitions in order, with None in the place of each assigned partition."""
        self._given: list[list[int]] = [[] for _ in consumers]
        if len(topics) > 1:
            if any(self._racks):
                self._match_together(topics)
        elif matters(consumers, topics[0]):
            self._match_alone(topics[0].racks)

    def shares(self) -> list[list[int]]:
        """The partitions of each subscriber, ascending."""
        rest = (partition for partition in self._left if partition is not None)
        unmatched = list(rest)
        for consumer in range(len(self._racks)):
            room = self._room(consumer)
            if room and unmatched:
                self._give(consumer, unmatched[:room])
                unmatched = unmatched[room:]
        return [sorted(partitions) for partitions in self._given]

    def _room(self, consumer: int) -> int:
        return max(0, self._share + (self._larger > 0) - len(self._given[consumer]))

    def _give(self, consumer: int, partitions: Sequence[int]) -> None:
        given = self._given[consumer]
        given.extend(partitions)
        if len(given) > self._share:
            self._larger -= 1
        for partition in partitions:
            self._left[partition] = None

    def _match_alone(self, racks: Sequence[Collection[str]]) -> None:
        """In their order, subscribers get the first free partitions with a replica in their rack."""
        here: dict[str | None, list[int]] = {rack: [] for rack in self._racks}
        for partition in range(self._partitions - 1, -1, -1):
            for rack in (None, *dict.fromkeys(racks[partition])):
                if rack in here:
                    here[rack].append(partition)
        for consumer, rack in enumerate(self._racks):
            taken: list[int] = []
            candidates, room = here[rack], self._room(consumer)
            while len(taken) < room and candidates:
                partition = candidates.pop()
                if self._left[partition] is not None:
                    taken.append(partition)
            if taken:
                self._give(consumer, taken)

    def _match_together(self, topics: Sequence[Topic]) -> None:
        """Each partition goes to the first subscriber below its share whose rack has a replica from each topic."""
        waiting: dict[str | None, list[int]] = {}
        for consumer in range(len(self._racks) - 1, -1, -1):
            waiting.setdefault(self._racks[consumer], []).append(consumer)
        first = _first_with_room(self._room)
        for partition in range(self._partitions):
            shared = set.intersection(*(set(topic.racks[partition]) if topic.racks else set() for topic in topics))
            heads = [
                head
                for rack in (None, *shared)  # only the smallest is used, so the set's order does not matter
                if rack in waiting and (head := first(waiting[rack])) is not None
            ]
            if heads:
                self._give(min(heads), [partition])


def _first_with_room(room: Callable[[int], int]) -> Callable[[list[int]], int | None]:
    """Make a function that removes full subscribers from the end of a list. A full subscriber never has room again."""

    def first(consumers: list[int]) -> int | None:
        while consumers and not room(consumers[-1]):
            consumers.pop()
        return consumers[-1] if consumers else None

    return first


class RangeAssignor:
    """The strategy "range"."""

    name = "range"
    protocols = (RebalanceProtocol.EAGER,)
    user_data = no_user_data

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        """See Assignor.assign. Raises ValueError when two members have one id."""
        require_distinct(members)
        names = topics_in_hash_order(members, topics)
        assignment: Assignment = {member.member_id: {} for member in members}
        consumers = subscribers(by_identity(members), names)
        if any(member.rack for member in members) and any(matters(consumers[t], topics[t]) for t in names):
            _assign_by_racks(sort_strings(names), consumers, topics, assignment)
        else:
            for name in names:
                _assign_topic(name, consumers[name], topics[name].partitions, assignment)
        return assignment


def _assign_topic(name: str, consumers: Sequence[Member], partitions: int, assignment: Assignment) -> None:
    share, larger = divmod(partitions, len(consumers))
    start = 0
    for index, member in enumerate(consumers):
        end = start + share + (index < larger)
        if start == end:
            break
        assignment[member.member_id][name] = list(range(start, end))
        start = end


def _assign_by_racks(
    names: Sequence[str], consumers: Mapping[str, list[Member]], topics: Mapping[str, Topic], assignment: Assignment
) -> None:
    alike: dict[tuple[frozenset[str], int], list[str]] = {}
    for name in names:
        who = frozenset(member.member_id for member in consumers[name])
        alike.setdefault((who, topics[name].partitions), []).append(name)
    shares = {}
    for together in alike.values():
        matching = RackMatching(consumers[together[0]], [topics[name] for name in together])
        shares.update(dict.fromkeys(together, matching.shares()))
    for name in names:
        for member, partitions in zip(consumers[name], shares[name], strict=True):
            if partitions:
                assignment[member.member_id][name] = list(partitions)


class ServerRangeAssignor:
    """The strategy "range" of the server."""

    name = "range"
    protocols = (RebalanceProtocol.COOPERATIVE,)
    user_data = no_user_data

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        """See Assignor.assign. The result is the target assignment. Raises ValueError when two members have one id."""
        assignment = RangeAssignor().assign([replace(member, rack=None) for member in members], topics)
        is_equal = len({frozenset(names) for names in distinct_subscriptions(members)}) == 1
        orders: dict[int, list[str]] = {}
        first = by_identity(members)[0].topics if is_equal else None
        for member in members:
            subscription = member.topics if first is None else first
            order = orders.get(id(subscription))
            if order is None:
                order = orders[id(subscription)] = _order_of_table(subscription, topics, is_equal=is_equal)
            share = assignment[member.member_id]
            assignment[member.member_id] = {name: share[name] for name in order if name in share}
        return assignment


def _order_of_table(subscription: Sequence[str], topics: Mapping[str, Topic], *, is_equal: bool) -> list[str]:
    """The topics of a member in the order of the HashMap of its target. `is_equal`: whether all members subscribe to
    the same topics. If not, the table has room for topics that do not exist, too.
    """
    names = string_order(subscription, capacity_of_copy(len(subscription)))
    known = [name for name in names if name in topics]
    capacity = capacity_for(int((len(known) if is_equal else len(names)) / 0.75 + 1))
    return [known[place] for place in uuid_order([topics[name].topic_id for name in known], capacity)]
