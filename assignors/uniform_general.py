"""Uniform when subscriptions differ.

Free partitions go, topic by topic, to the subscribers with fewest partitions. Then, topic by topic, partitions move
from the subscribers with most to those with fewest. That ends when a pass over all topics changes nothing, or after 16
passes.

Kafka: UniformHeterogeneousAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster.assignors.java_order import uuid_key
from muster.assignors.target_group import Share, TargetGroup

PASSES = 16


class GeneralShares:
    """One assignment while it is computed."""

    def __init__(self, group: TargetGroup) -> None:
        self._group = group
        self._owners = group.owners
        self._loads = [sum(map(len, share.values())) for share in group.shares]
        self._subscribers: list[list[int]] = [[] for _ in group.names]
        for member, topics in enumerate(group.subscribed):
            for topic in topics:
                self._subscribers[topic].append(member)

    def shares(self) -> list[Share]:
        """Each member's new target."""
        order = sorted(range(len(self._group.names)), key=self._rank)
        for topic in order:
            self._hand_out(topic)
        self._balance([topic for topic in order if len(self._subscribers[topic]) >= 2])
        shares: list[Share] = [{} for _ in self._group.members]
        for topic, owners in enumerate(self._owners):
            for partition, member in enumerate(owners):
                shares[member].setdefault(topic, []).append(partition)
        return shares

    def _rank(self, topic: int) -> tuple[float, int, tuple[int, int]]:
        """Sort key of a topic: most partitions for each subscriber first. Then fewest subscribers, then the UUID."""
        count = len(self._subscribers[topic])
        return -self._group.sizes[topic] / count, count, uuid_key(self._group.uuids[topic])

    def _hand_out(self, topic: int) -> None:
        owners = self._owners[topic]
        levels = Levels(self._loads, self._subscribers[topic])
        for partition, owner in enumerate(owners):
            if owner < 0:
                owners[partition] = taker = levels.next_least()
                self._loads[taker] += 1

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
        """Move partitions of a topic from members with most to those with fewest. Returns whether any moved."""
        levels = Levels(self._loads, self._subscribers[topic])
        if levels.imbalance <= 1:
            return False
        owners = self._owners[topic]
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
            self._loads[giver] -= 1
            self._loads[taker] += 1
            moved = True
        return moved

    def _next_giver(self, levels: Levels, held: dict[int, list[int]]) -> int | None:
        """The member with most that has a partition of the topic to give."""
        while not levels.balanced() and (giver := levels.next_most()) is not None:
            if held.get(giver):
                return giver
            levels.exclude_most()
        return None


class Levels:
    """The members of one topic by load, as two runs that grow towards each other (Kafka's MemberAssignmentBalancer).

    One run has the members with fewest partitions, the other those with most. All members of a run have one load. A
    pass over a run raises (or lowers) their load by one. Then the run includes its neighbours of that load. The caller
    changes `loads` after each `next_…`.
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
        """The member that gives a partition away. None when no such member is left."""
        if self._high_turn < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                # all members of the run were excluded
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
        """Exclude the member that next_most returned last from the run: it has nothing to give."""
        place, last = self._high_turn + 1, self._high_end - 1
        self._row[place], self._row[last] = self._row[last], self._row[place]
        self._high_end = last

    def balanced(self) -> bool:
        """Whether the two runs differ by one at most."""
        return self._high_load - self._low_load <= 1
