"""Sticky (KIP-54) chooses, among balanced assignments, one that moves few partitions.

With equal subscriptions, it guarantees that members' numbers of partitions differ by one at most. It moves no more
partitions than this needs. With differing subscriptions, no single move would improve the balance, and no partition
moves without need. Balance has priority over stickiness, and so have racks (KIP-881). A partition leaves a member whose
rack has no replica of the partition, if another member fits better. Sticky is eager: members give up everything before
they join. Their user data names their former partitions.

Kafka: org.apache.kafka.clients.consumer.StickyAssignor. Claims of partitions that do not exist are ignored. Kafka keeps
such claims, and then fails or gives a partition to two members. Kafka's object remembers the newest generation ever
seen; this object does not.

`CooperativeStickyAssignor` (KIP-429) reaches the assignment of sticky in two rounds. No member stops consuming a
partition that it keeps.

Cooperative sticky guarantees the same as sticky. A partition that is to move, but whose owner may still have it, is
left out of the assignment. The owner sees that, gives the partition up and rejoins. The next round assigns the
partition. With equal subscriptions and without racks two rounds are enough. In other cases, a round may compute another
assignment than the round before, so more rounds follow. With racks and differing subscriptions some groups never become
stable, as on Kafka.

A member's partitions and generation are `owned` and `generation` in its subscription. Older members write the
generation into their user data. Kafka: org.apache.kafka.clients.consumer.CooperativeStickyAssignor.

The user data of these strategies has a member's partitions and their generation (KIP-54, KIP-341). Kafka:
StickyAssignor's STICKY_ASSIGNOR_USER_DATA_V0 and _V1, CooperativeStickyAssignor's _V0.
"""

from __future__ import annotations

from collections.abc import ItemsView, Mapping, Sequence
from struct import Struct, error, pack, unpack_from
from typing import TypeAlias

from muster.assignors.assignor import NO_GENERATION, Assignment, Member, Partitions, RebalanceProtocol, Topic
from muster.assignors.sticky_general import general_shares
from muster.assignors.sticky_group import EqualShares, Group

Claims: TypeAlias = list[tuple[bytes, Sequence[int]]]
"""A member's claims: names of topics in UTF-8, each with partitions."""

_count = Struct(">i")
_length = Struct(">h")


def encode_owned(owned: Partitions, generation: int) -> bytes:
    """Encode the user data of sticky in version 1: partitions by topic, then the generation."""
    parts = [_count.pack(len(owned))]
    for topic, partitions in owned.items():
        name = topic.encode()
        parts.append(_length.pack(len(name)) + name + pack(f">i{len(partitions)}i", len(partitions), *partitions))
    return b"".join([*parts, _count.pack(generation)])


def decode_owned(data: bytes | None) -> tuple[Claims, int | None]:
    """Decode the former partitions of a member, and their generation, which is None in version 0.

    Bytes that cannot be decoded give no partitions and generation -1.
    """
    if not data:
        return [], None
    try:
        claims, end = _read_claims(data)
    except (error, ValueError):
        return [], NO_GENERATION
    return claims, _count.unpack_from(data, end)[0] if len(data) - end >= 4 else None


def _read_claims(data: bytes) -> tuple[Claims, int]:
    claims: Claims = []
    left, at = _count.unpack_from(data)[0], 4
    if not 0 <= left <= len(data):
        raise ValueError(left)
    while left:
        start = at + 2
        at = start + _length.unpack_from(data, at)[0]
        if at < start:
            raise ValueError(at)
        count = _count.unpack_from(data, at)[0]
        if count == 1:
            partitions: Sequence[int] = _count.unpack_from(data, at + 4)
        else:
            if not 0 <= count <= len(data):
                raise ValueError(count)
            partitions = unpack_from(f">{count}i", data, at + 4)
        claims.append((data[start:at], partitions))
        at += 4 + 4 * count
        left -= 1
    return claims, at


def encode_generation(generation: int) -> bytes:
    """The user data of a member under cooperative-sticky."""
    return _count.pack(generation)


def decode_generation(data: bytes | None) -> int | None:
    """The generation that encode_generation wrote. None without user data, -1 when it cannot be decoded."""
    if data is None:
        return None
    return _count.unpack_from(data)[0] if len(data) >= 4 else NO_GENERATION


class StickyAssignor:
    """The strategy "sticky"."""

    name = "sticky"
    protocols = (RebalanceProtocol.EAGER,)

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        """See Assignor.assign. Raises ValueError when two members have one id.

        A member's former partitions are read from its user data; `Member.owned` is not used.
        """
        if not members:
            return {}
        group = Group(members, topics, lambda member: decode_owned(member.user_data))
        equal = group.all_subscribed_alike()
        return group.by_name(EqualShares(group).shares if equal else general_shares(group))

    def user_data(self, owned: Partitions | None, generation: int) -> bytes | None:
        """The member's last assignment, and its generation."""
        return None if owned is None else encode_owned(owned, generation)


class CooperativeStickyAssignor:
    """The strategy "cooperative-sticky"."""

    name = "cooperative-sticky"
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        """See Assignor.assign. Raises ValueError when two members have one id.

        Partitions that a member must first give up are in no assignment. The next round assigns them, when each member
        has what it was assigned.
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

    def user_data(self, owned: Partitions | None, generation: int) -> bytes | None:  # noqa: ARG002  # a parameter of Assignor.user_data
        """The generation of the member's last assignment."""
        return encode_generation(generation)


def _claims(member: Member) -> tuple[ItemsView[str, Sequence[int]], int | None]:
    generation = member.generation if member.generation >= 0 else decode_generation(member.user_data)
    return member.owned.items(), generation


def _moving(claimed: Sequence[Sequence[int]], shares: Sequence[Sequence[int]]) -> dict[int, int]:
    """The new owner of each partition that one member gains and another loses."""
    gained: dict[int, int] = {}
    lost: set[int] = set()
    for member, (before, after) in enumerate(zip(claimed, shares, strict=True)):
        had, has = set(before), set(after)
        gained.update((code, member) for code in after if code not in had)
        lost.update(had - has)
    return {code: member for code, member in gained.items() if code in lost}
