"""Uniform when subscriptions differ.

Free partitions go, topic by topic, to the subscribers with fewest partitions. Then, topic by topic, partitions move
from the subscribers with most to those with fewest, until a pass over all topics changes nothing, at most 16 passes.

Kafka: UniformHeterogeneousAssignmentBuilder.
"""

from __future__ import annotations

from muster.assignors.java_order import uuid_key
from muster.assignors.target_group import Share, TargetGroup
from muster.assignors.uniform_levels import Levels

PASSES = 16


class GeneralShares:
    """One assignment in the making."""

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
        """Most partitions for each subscriber first; of several, the one with fewest subscribers, then by UUID."""
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
        """The topic in which something moved last: having come round to it without another move, we are done."""
        for _ in range(PASSES):
            for place, topic in enumerate(topics):
                if place == last:
                    return
                if self._balance_topic(topic) or last < 0:
                    last = place

    def _balance_topic(self, topic: int) -> bool:
        """Move partitions of a topic from those with most to those with fewest; whether any moved."""
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
