"""A group for the strategies of the server (KIP-848): members with target assignments, topics by UUID.

Kafka: GroupSpecImpl, SubscribedTopicDescriber, TargetAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.assignors.assignor import Assignment, Member, Topic
from muster.assignors.java_order import (
    DEFAULT_CAPACITY,
    capacity_of_copy,
    sort_strings,
    spread,
    string_order,
    uuid_hash,
    walked,
)
from muster.assignors.members import distinct_subscriptions, in_hash_order, require_distinct

Share = dict[int, list[int]]
"""Partitions by index of topic."""


class TargetGroup:
    """Members in Kafka's order; topics indexed by name. Raises ValueError when two members have one id."""

    def __init__(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> None:
        require_distinct(members)
        self._topics = topics
        self.members = in_hash_order(members)
        subscribed = {name for names in distinct_subscriptions(members) for name in names}
        self.names = sort_strings(name for name in subscribed if name in topics)
        self.index = {name: topic for topic, name in enumerate(self.names)}
        self.sizes = [topics[name].partitions for name in self.names]
        self.uuids = [topics[name].topic_id for name in self.names]
        known: dict[int, list[int]] = {}
        for member in self.members:
            if id(member.topics) not in known:  # members of a large group often share one list of names
                known[id(member.topics)] = sorted({self.index[name] for name in member.topics if name in self.index})
        self.subscribed = [known[id(member.topics)] for member in self.members]
        self.owners: list[list[int]] = [[-1] * size for size in self.sizes]
        """The owner of each partition of each topic, -1 for none."""
        self.shares = [self._share(number, member) for number, member in enumerate(self.members)]
        """The partitions of each member in the topics that it is subscribed to, in the order of the subscription."""

    def _share(self, number: int, member: Member) -> Share:
        subscribed = set(self.subscribed[number])
        share: Share = {}
        for name, partitions in member.owned.items():
            topic = self.index.get(name)
            if topic in subscribed and topic is not None:
                owners, size = self.owners[topic], self.sizes[topic]
                # In a target assignment no partition has two owners. Of two that claim one, the first has it.
                mine = [p for p in partitions if 0 <= p < size and owners[p] < 0]
                for partition in mine:
                    owners[partition] = number
                if mine:
                    share[topic] = mine
        return share

    def all_subscribed_alike(self) -> bool:
        """Whether all members name the same topics, whether these exist or not."""
        subscriptions = distinct_subscriptions(self.members)
        return all(set(names) == set(subscriptions[0]) for names in subscriptions)

    def owned_in_hash_order(self, member: int) -> list[int]:
        """The topics of a member's share, in the order of Java's HashMap of its target assignment."""
        names = self._in_hash_order([name for name in self.members[member].owned if name in self._topics])
        return [topic for name in names if (topic := self.index.get(name, -1)) in self.shares[member]]

    def subscription_of_first(self) -> list[int]:
        """The topics of the first member, in the order of a Java HashSet copied from the member's set of names."""
        names = string_order(self.members[0].topics, capacity_of_copy(len(self.members[0].topics)))
        known = [name for name in names if name in self.index]
        return [self.index[name] for name in self._in_hash_order(known, capacity_of_copy(len(names)))]

    def _in_hash_order(self, names: Sequence[str], capacity: int = DEFAULT_CAPACITY) -> list[str]:
        """Topics in the order of a Java table by UUID, after their insertion in this order. The table has this initial
        size.
        """
        return [names[i] for i in walked([spread(uuid_hash(self._topics[name].topic_id)) for name in names], capacity)]

    def by_name(self, shares: Sequence[Share]) -> Assignment:
        """The assignment with these shares, topics and partitions ascending."""
        names = self.names
        return {
            member.member_id: {names[topic]: sorted(share[topic]) for topic in sorted(share) if share[topic]}
            for member, share in zip(self.members, shares, strict=True)
        }
