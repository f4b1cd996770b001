"""Cooperative sticky (KIP-429): the assignment of sticky, reached in two phases without stopping the world.

It guarantees the same as sticky. In addition, a partition that another member may still hold is left out of the
assignment. Its owner sees that, gives the partition up and rejoins. The next round assigns the partition. With equal
subscriptions and without racks two rounds are enough. A member never stops consuming a partition that it keeps. In
other cases a round may prefer another assignment, and more rounds are needed. With racks and differing subscriptions
some groups never become stable, as on Kafka.

A member's partitions are `owned` and `generation` of its subscription. Older members write the generation into their
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

        Partitions that have to be given up first are in no assignment. The next round assigns them, when members own
        what they were assigned.
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
        """The generation of the member's last assignment."""
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
