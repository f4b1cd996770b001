"""Uniform, the server's default under KIP-848, balances over all topics, and keeps much of the last target assignment.

With equal subscriptions, it guarantees that members' numbers of partitions differ by one at most. A member keeps its
partitions up to its share. If subscriptions are equal or disjoint, the numbers of one topic's subscribers differ by one
at most. With overlapping subscriptions, the result is close to that (after at most 16 passes over the topics). Racks
are ignored, as in Kafka 4.4.

A member's `owned` is its target assignment, not its current one, in the order of the last record. Topics and
partitions of a new target have the order of Kafka's hash tables, as in the next record. Hash tables also decide which
partitions a member gives up. Kafka: org.apache.kafka.coordinator.group.assignor.UniformAssignor.

`TargetGroup` is a group as the server's strategies see it: members with target assignments, topics by UUID. (Kafka:
GroupSpecImpl, SubscribedTopicDescriber, TargetAssignmentBuilder.) `equal_shares` serves equal subscriptions.

`GeneralShares` serves differing subscriptions (Kafka: UniformHeterogeneousAssignmentBuilder). Free partitions go, topic
by topic, to the subscribers with fewest partitions. Then, topic by topic, partitions move from the subscribers with
most to those with fewest. This ends when a pass over all topics moves no partition, or after 16 passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.assignors.assignor import (
    Assignment,
    Member,
    RebalanceProtocol,
    Topic,
    distinct_subscriptions,
    in_hash_order,
    no_user_data,
    require_distinct,
)
from muster.assignors.changing_target import ChangingTarget
from muster.assignors.equal_shares import changed_shares, order_of_topics
from muster.assignors.java_order import (
    capacity_for,
    grown_for,
    int_order,
    sort_strings,
    spread,
    uuid_hash,
    uuid_key,
    uuid_order,
)

Share = Mapping[int, Sequence[int]]
"""A member's partitions, by the index of their topic."""


class TargetGroup:
    """Members in Kafka's order, and topics with an index by name. Raises ValueError when two members have one id."""

    def __init__(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> None:
        require_distinct(members)
        self.topics = topics
        self.members = in_hash_order(members)
        subscribed = {name for names in distinct_subscriptions(members) for name in names}
        self.names = sort_strings(name for name in subscribed if name in topics)
        self.index = {name: topic for topic, name in enumerate(self.names)}
        found = [topics[name] for name in self.names]
        self.sizes = [topic.partitions for topic in found]
        self.uuids = [topic.topic_id for topic in found]
        known: dict[int, list[int]] = {}
        for member in self.members:
            if id(member.topics) not in known:  # members of a large group often share one list of names
                known[id(member.topics)] = sorted({self.index[name] for name in member.topics if name in self.index})
        self.subscribed = [known[id(member.topics)] for member in self.members]
        self.free = [set(range(size)) for size in self.sizes]
        """The partitions of each topic that nobody owns."""
        self.shares = self._shares()
        """Each member's partitions of its subscribed topics, in the order of the subscription."""

    def _shares(self) -> list[Share]:
        index = self.index
        sets = {id(topics): frozenset(topics) for topics in self.subscribed}
        shares: list[Share] = []
        for member, topics in zip(self.members, self.subscribed, strict=True):
            subscribed, share = sets[id(topics)], dict[int, Sequence[int]]()
            for name, partitions in member.owned.items():
                topic = index.get(name)
                if topic in subscribed and topic is not None and partitions:
                    free = self.free[topic]
                    # In a target assignment no partition has two owners. If two members claim one, the first has it.
                    if not free.issuperset(partitions):
                        partitions = [one for one in partitions if one in free]
                    if partitions:
                        free.difference_update(partitions)
                        share[topic] = partitions
            shares.append(share)
        return shares

    def all_subscribed_alike(self) -> bool:
        """Whether all members name the same topics. Topics that do not exist count, too."""
        subscriptions = distinct_subscriptions(self.members)
        return all(set(names) == set(subscriptions[0]) for names in subscriptions)

    def copy_of(self, member: int) -> ChangingTarget[int]:
        """The copy of a member's target that gets changed, without topics that the member does not subscribe to."""
        share, owned = self.shares[member], self.members[member].owned
        names = [name for name in owned if name in self.topics]
        # Topics that are gone take room in Java's table, too.
        order = uuid_order([self.topics[name].topic_id for name in names], grown_for(len(owned)))
        topics = [topic for place in order if (topic := self.index.get(names[place], -1)) in share]
        return ChangingTarget({topic: int_order(share[topic]) for topic in topics}, len(owned), self.hash_of)

    def hash_of(self, topic: int) -> int:
        """The spread hash of a topic's UUID."""
        return spread(uuid_hash(self.uuids[topic]))

    def by_name(self, shares: Sequence[Share]) -> Assignment:
        """The assignment that gives these shares to the members, in the order of the shares."""
        names, made = self.names, {}
        for number, (member, share) in enumerate(zip(self.members, shares, strict=True)):
            if share is self.shares[number] and len(share) < len(member.owned):  # the member lost whole topics
                share = self.copy_of(number).in_order()
            made[member.member_id] = {names[topic]: list(partitions) for topic, partitions in share.items()}
        return made


def equal_shares(group: TargetGroup) -> list[Share]:
    """Each member's new target: its old partitions up to its quota, then free partitions, in the order of members."""
    names = order_of_topics(group.members[0].topics, group.topics)
    free = [(topic, one) for topic in map(group.index.__getitem__, names) for one in sorted(group.free[topic])]
    shares = list(group.shares)
    counts = [sum(map(len, share.values())) for share in shares]
    for member, share in changed_shares(counts, free, group.copy_of).items():
        shares[member] = share
    return shares


PASSES = 16


class GeneralShares:
    """One assignment while it is computed."""

    def __init__(self, group: TargetGroup) -> None:
        self._group = group
        self._owners = [[-1] * size for size in group.sizes]
        """The owner of each partition of each topic, -1 for none."""
        for member, share in enumerate(group.shares):
            for topic, partitions in share.items():
                for partition in partitions:
                    self._owners[topic][partition] = member
        self._loads = [sum(map(len, share.values())) for share in group.shares]
        self._subscribers: list[list[int]] = [[] for _ in group.names]
        for member, topics in enumerate(group.subscribed):
            for topic in topics:
                self._subscribers[topic].append(member)
        self._targets: dict[int, ChangingTarget[int]] = {}
        """The targets of members whose partitions change."""

    def shares(self) -> list[Share]:
        """Each member's new target."""
        order = sorted(range(len(self._group.names)), key=self._rank)
        for topic in order:
            self._hand_out(topic)
        self._balance([topic for topic in order if len(self._subscribers[topic]) >= 2])
        shares = list(self._group.shares)
        for member, target in self._targets.items():
            shares[member] = target.in_order()
        return shares

    def _target(self, member: int) -> ChangingTarget[int]:
        found = self._targets.get(member)
        if found is None:
            found = self._targets[member] = self._group.copy_of(member)
        return found

    def _capacity(self, topic: int) -> int:
        """The size of the array of a new set of a topic's partitions."""
        estimated = -(-self._group.sizes[topic] // len(self._subscribers[topic]))
        return capacity_for(int(estimated / 0.75 + 1))

    def _rank(self, topic: int) -> tuple[float, int, tuple[int, int]]:
        """The sort key of a topic: most partitions per subscriber first, then fewest subscribers, then the UUID."""
        count = len(self._subscribers[topic])
        return -self._group.sizes[topic] / count, count, uuid_key(self._group.uuids[topic])

    def _hand_out(self, topic: int) -> None:
        owners = self._owners[topic]
        levels, capacity = Levels(self._loads, self._subscribers[topic]), self._capacity(topic)
        for partition, owner in enumerate(owners):
            if owner < 0:
                owners[partition] = taker = levels.next_least()
                self._loads[taker] += 1
                self._target(taker).add(topic, partition, capacity)

    def _balance(self, topics: list[int]) -> None:
        last = -1
        """The topic of the last move. When the loop reaches it again without another move, the balance is done."""
        for _ in range(PASSES):
            for place, topic in enumerate(topics):
                if place == last:
                    return
                if self._balance_topic(topic) or last < 0:
                    last = place

    def _balance_topic(self, topic: int) -> bool:
        """Move partitions of a topic from members with most to members with fewest. Returns whether one moved."""
        levels = Levels(self._loads, self._subscribers[topic])
        if levels.imbalance <= 1:
            return False
        owners, capacity = self._owners[topic], self._capacity(topic)
        held: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            held.setdefault(owner, []).append(partition)
        moved = False
        while (giver := self._next_giver(levels, held)) is not None:
            partition = held[giver].pop()
            taker = levels.next_least()
            if levels.balanced():
                break
            owners[partition] = taker
            self._target(giver).remove(topic, partition)
            self._target(taker).add(topic, partition, capacity)
            self._loads[giver] -= 1
            self._loads[taker] += 1
            moved = True
        return moved

    def _next_giver(self, levels: Levels, held: dict[int, list[int]]) -> int | None:
        """The member with most partitions that can give away one of the topic; None if no member can."""
        while not levels.balanced() and (giver := levels.next_most()) is not None:
            if held.get(giver):
                return giver
            levels.exclude_most()
        return None


class Levels:
    """The subscribers of a topic, sorted by load, with two runs that grow towards each other.

    Kafka's MemberAssignmentBalancer does the same. One run has the members with fewest partitions, the other the
    members with most. All members of a run have the same load. A pass over a run raises (or lowers) the load of each
    member by one. Then the neighbours with the new load join the run. The caller changes `loads` after each `next_…`.
    """

    def __init__(self, loads: Sequence[int], members: Sequence[int]) -> None:
        self._loads = loads
        self._row = sorted(members, key=lambda member: (loads[member], member))
        least, most = loads[self._row[0]], loads[self._row[-1]]
        self.imbalance = most - least
        self._low_end = 0
        self._low_load = least - 1
        self._low_turn = 0
        self._high_start = self._high_end = len(self._row)
        self._high_load = most + 1
        self._high_turn = len(self._row) - 1

    def next_least(self) -> int:
        """The member that gets a partition."""
        if self._low_turn >= self._low_end:
            self._low_load += 1
            while self._low_end < len(self._row) and self._loads[self._row[self._low_end]] == self._low_load:
                self._low_end += 1
            self._low_turn = 0
        self._low_turn += 1
        return self._row[self._low_turn - 1]

    def next_most(self) -> int | None:
        """The member that gives a partition away; None when no member is left that could."""
        if self._high_turn < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                # the members with the most partitions are all excluded: a run begins at the highest load of the others
                self._high_load = self._loads[self._row[self._high_start - 1]]
            else:
                self._high_load -= 1
            while self._high_start > 0 and self._loads[self._row[self._high_start - 1]] == self._high_load:
                self._high_start -= 1
            self._high_turn = self._high_end - 1
        if self._high_turn < 0:
            return None
        self._high_turn -= 1
        return self._row[self._high_turn + 1]

    def exclude_most(self) -> None:
        """Exclude the member that `next_most` returned last from its run: that member has no partition to give."""
        place, last = self._high_turn + 1, self._high_end - 1
        self._row[place], self._row[last] = self._row[last], self._row[place]
        self._high_end = last

    def balanced(self) -> bool:
        """Whether the two runs differ by one at most."""
        return self._high_load - self._low_load <= 1


class UniformAssignor:
    """The strategy "uniform" of the server."""

    name = "uniform"
    protocols = (RebalanceProtocol.COOPERATIVE,)
    user_data = no_user_data

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        """See Assignor.assign. The result is the target assignment. Raises ValueError when two members have one id."""
        if not members:
            return {}
        group = TargetGroup(members, topics)
        equal = group.all_subscribed_alike()
        return group.by_name(equal_shares(group) if equal else GeneralShares(group).shares())

    def assign_generally(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        """Compute the target assignment by the algorithm for differing subscriptions, which serves equal ones, too.

        Kafka uses this algorithm for most groups with regular expressions.
        """
        if not members:
            return {}
        group = TargetGroup(members, topics)
        return group.by_name(GeneralShares(group).shares())
