"""Round robin gives all partitions of all topics to the members in turn.

If all subscriptions are equal, members' numbers of partitions, over all topics, are guaranteed to differ by one at
most. With differing subscriptions, members that are not subscribed to a topic are skipped, and the balance can be poor.
Topics are ordered by name. Members are ordered as under range: static members by instance id, then the others by member
id. Round robin is not sticky.

Kafka: org.apache.kafka.clients.consumer.RoundRobinAssignor.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from muster.assignors.assignor import (
    Assignment,
    Member,
    RebalanceProtocol,
    Topic,
    by_identity,
    distinct_subscriptions,
    existing,
    no_user_data,
    require_distinct,
)
from muster.assignors.java_order import sort_strings


class RoundRobinAssignor:
    """The strategy "roundrobin"."""

    name = "roundrobin"
    protocols = (RebalanceProtocol.EAGER,)
    user_data = no_user_data

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        """See Assignor.assign. Raises ValueError when two members have one id."""
        require_distinct(members)
        assignment: Assignment = {member.member_id: {} for member in members}
        subscribed = {name for subscription in distinct_subscriptions(members) for name in subscription}
        seats: dict[str, list[int]] = {name: [] for name in sort_strings(existing(subscribed, topics))}
        circle = by_identity(members)
        for seat, member in enumerate(circle):
            for name in dict.fromkeys(member.topics):
                if name in seats:
                    seats[name].append(seat)
        shares = [assignment[member.member_id] for member in circle]
        turn = 0
        for name, takers in seats.items():
            turn = _deal(name, topics[name].partitions, takers, bisect_left(takers, turn), shares) + 1
        return assignment


def _deal(name: str, partitions: int, takers: Sequence[int], first: int, shares: Sequence[dict[str, list[int]]]) -> int:
    """Distribute a topic's partitions in turn, from taker `first` on. Returns the member with the last partition."""
    count = len(takers)
    for index in range(min(count, partitions)):
        shares[takers[(first + index) % count]][name] = list(range(index, partitions, count))
    return takers[(first + partitions - 1) % count]
