"""Cooperative sticky (KIP-429): the assignment of sticky, reached in two phases without stopping the world.

Guarantees: as sticky; and a partition that another member may still hold is not assigned until that member has given it
up. It is left out of the assignment; its owner sees that, gives it up and rejoins, and the next round assigns it. With
equal subscriptions and without racks two rounds are enough, and a member never stops consuming a partition that it
keeps. Otherwise a round may prefer another assignment, and more rounds are needed; with racks and differing
subscriptions some groups never come to rest, as on Kafka.

A member's partitions are `owned` and `generation` of its subscription; older members write the generation into their
user data. Kafka: org.apache.kafka.clients.consumer.CooperativeStickyAssignor.
"""

from __future__ import annotations

from collections.abc import ItemsView, Mapping, Sequence

from muster.assignors.assignor import Assignment, Member, Partitions, RebalanceProtocol, Topic
from muster.assignors.sticky_data import decode_generation, encode_generation
from muster.assignors.sticky_equal import EqualShares
from muster.assignors.sticky_general import general_shares
from muster.assignors.sticky_group import Group


class CooperativeStickyAssignor:
    """The strategy "cooperative-sticky"."""

    name = "cooperative-sticky"
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        """See Assignor.assign. Raises ValueError when two members have one id.

        Partitions that have to be given up first are in nobody's assignment. They are given out in the next round, in
        which members own what they were assigned.
        """
        if not members:
            return {}
        group = Group(members, topics, _claims)
        if group.all_subscribed_alike():
            equal = EqualShares(group)
            shares, moving = equal.shares, equal.moving
        else:
            shares = general_shares(group)
            moving = _moving(group.claimed, shares)
        for code, member in moving.items():
            shares[member].remove(code)
        return group.by_name(shares)

    def user_data(self, owned: Partitions | None, generation: int) -> bytes | None:  # noqa: ARG002 - of the protocol
        """The generation of its last assignment."""
        return encode_generation(generation)


def _claims(member: Member) -> tuple[ItemsView[str, Sequence[int]], int | None]:
    told = member.generation if member.generation >= 0 else decode_generation(member.user_data)
    return member.owned.items(), told


def _moving(claimed: Sequence[Sequence[int]], shares: Sequence[Sequence[int]]) -> dict[int, int]:
    """New owner of each partition that one member gains and another loses."""
    gained: dict[int, int] = {}
    lost: set[int] = set()
    for member, (before, after) in enumerate(zip(claimed, shares, strict=True)):
        had, has = set(before), set(after)
        gained.update((code, member) for code in after if code not in had)
        lost.update(had - has)
    return {code: member for code, member in gained.items() if code in lost}
