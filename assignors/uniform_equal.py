"""Uniform when all members have the same subscription.

Kafka: UniformHomogeneousAssignmentBuilder.
"""

from __future__ import annotations

from muster.assignors.java_order import int_order
from muster.assignors.target_group import Share, TargetGroup

Partition = tuple[int, int]
"""(topic, partition)."""


def equal_shares(group: TargetGroup) -> list[Share]:
    """Each member's new target: its old partitions up to its quota, then free partitions, in the order of members."""
    topics = group.subscription_of_first()
    free = [(t, p) for t in topics for p, owner in enumerate(group.owners[t]) if owner < 0]
    least, larger = divmod(sum(group.sizes), len(group.members))
    shares: list[Share] = []
    lacking: list[tuple[int, int]] = []
    for member, share in enumerate(group.shares):
        room = least + (larger > 0)
        had = sum(map(len, share.values()))
        if had > room:
            share, given_up = _cut(group, member, room)
            free += given_up
        room -= min(had, room)
        larger_one = larger > 0
        if room and larger_one and len(group.members) - member > larger:
            # Enough later members can have the larger share.
            room -= 1
            larger_one = False
        if room:
            lacking.append((member, room))
        larger -= larger_one
        shares.append({topic: list(partitions) for topic, partitions in share.items()})
    left = iter(free)
    for member, room in lacking:
        for _, (topic, partition) in zip(range(room), left, strict=False):
            shares[member].setdefault(topic, []).append(partition)
    return shares


def _cut(group: TargetGroup, member: int, room: int) -> tuple[Share, list[Partition]]:
    """The partitions that a member keeps of its share, and the others, in the order of Java's iteration."""
    kept: Share = {}
    given_up: list[Partition] = []
    for topic in group.owned_in_hash_order(member):
        partitions = int_order(group.shares[member][topic])
        kept[topic] = partitions[:room]
        given_up += [(topic, partition) for partition in partitions[room:]]
        room -= len(kept[topic])
    return kept, given_up
