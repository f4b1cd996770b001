"""Equal shares: which members' partitions change when all members subscribe to the same topics.

The decision needs each member's number of partitions, and the partitions of few members. So a caller that keeps these
numbers pays only for the members whose shares change. Kafka: UniformHomogeneousAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from muster.assignors.assignor import Topic
from muster.assignors.java_order import capacity_of_copy, int_order, string_order, uuid_order

K = TypeVar("K", bound=Hashable)
"""What stands for a topic: its index, or its UUID."""


def order_of_topics(subscription: Sequence[str], topics: Mapping[str, Topic]) -> list[str]:
    """The existing topics in the order in which free partitions are assigned. `subscription`: the first member's names.

    This is the order of a Java HashSet by UUID that is copied from the member's set of names.
    """
    names = string_order(subscription, capacity_of_copy(len(subscription)))
    known = [name for name in names if name in topics]
    order = uuid_order([topics[name].topic_id for name in known], capacity_of_copy(len(names)))
    return [known[place] for place in order]


def changed_shares(
    counts: Sequence[int],
    free: Sequence[tuple[K, int]],
    share_of: Callable[[int], Mapping[K, Sequence[int]]],
    in_hash_order: Callable[[int], Sequence[K]],
) -> dict[int, dict[K, Sequence[int]]]:
    """The new shares of the members whose shares change, by the member's index.

    `counts`: each member's number of partitions, in Kafka's order of members. `free`: the partitions without owner, in
    the order in which they are assigned. `share_of` gives a member's partitions by topic. `in_hash_order` gives the
    topics of a member in the order of Java's HashMap of its target.
    """
    least, larger = divmod(sum(counts) + len(free), len(counts))
    to_assign = list(free)
    changed: dict[int, dict[K, Sequence[int]]] = {}
    lacking: list[tuple[int, int]] = []
    last = len(counts)
    for member, had in enumerate(counts):
        room = least + (larger > 0)
        if had > room:
            changed[member], given_up = _cut(share_of(member), in_hash_order(member), room)
            to_assign += given_up
        # While enough later members can have the larger share, this one need not have it.
        if had < room and larger and last - member > larger:
            room -= 1
        else:
            larger -= larger > 0
        if had < room:
            lacking.append((member, room - had))
    left = iter(to_assign)
    for member, room in lacking:
        new = {topic: list(partitions) for topic, partitions in share_of(member).items()}
        for topic, partition in islice(left, room):
            new.setdefault(topic, []).append(partition)
        changed[member] = {**new}
    return changed


def _cut(
    share: Mapping[K, Sequence[int]], order: Sequence[K], room: int
) -> tuple[dict[K, Sequence[int]], list[tuple[K, int]]]:
    """The partitions that a member keeps, and those that it gives up, in the order of Java's iteration."""
    kept: dict[K, Sequence[int]] = {}
    given_up: list[tuple[K, int]] = []
    for topic in order:
        partitions = int_order(share[topic])
        if room:
            kept[topic] = partitions[:room]
        given_up += [(topic, partition) for partition in partitions[room:]]
        room -= min(room, len(partitions))
    return kept, given_up
