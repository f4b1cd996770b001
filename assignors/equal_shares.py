"""Equal shares: which members' partitions change when all members subscribe to the same topics.

The decision needs each member's number of partitions, and the partitions of few members. So a caller that keeps these
numbers pays only for the members whose shares change. Kafka: UniformHomogeneousAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from muster.assignors.assignor import Topic
from muster.assignors.changing_target import ChangingTarget
from muster.assignors.java_order import capacity_of_copy, string_order, uuid_order

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
    copy_of: Callable[[int], ChangingTarget[K]],
) -> dict[int, dict[K, list[int]]]:
    """The new shares of the members whose shares change, by the member's index, in the order of a record.

    `counts`: each member's number of partitions, in Kafka's order of members. `free`: the partitions without owner, in
    the order in which they are assigned. `copy_of` copies the target of a member.
    """
    least, larger = divmod(sum(counts) + len(free), len(counts))
    to_assign = list(free)
    changed: dict[int, ChangingTarget[K]] = {}
    lacking: list[tuple[int, int]] = []
    last = len(counts)
    room = least + (larger > 0)
    for member, had in enumerate(counts):
        if had == room:  # most members keep what they have
            if larger:
                larger -= 1
                if not larger:
                    room = least
            continue
        if had > room:
            changed[member] = copy_of(member)
            to_assign += changed[member].cut(room)
        elif larger and last - member > larger:
            # While enough later members can have the larger share, this one need not have it.
            if had < least:
                lacking.append((member, least - had))
            continue
        else:
            lacking.append((member, room - had))
        if larger:
            larger -= 1
            if not larger:
                room = least
    left = iter(to_assign)
    for member, room in lacking:
        target = changed[member] = copy_of(member)
        target.add_each(islice(left, room))
    return {member: target.in_order() for member, target in changed.items()}
