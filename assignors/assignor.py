"""Input and output of every strategy: members, topics, assignments.

A strategy is a pure function of its arguments. Kafka's counterpart is `ConsumerPartitionAssignor` (on the server
`ConsumerGroupPartitionAssignor`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol, TypeAlias, runtime_checkable

NO_GENERATION: Final = -1
"""The generation of a member that never had an assignment, or does not send it (Kafka's DEFAULT_GENERATION)."""

Partitions: TypeAlias = Mapping[str, Sequence[int]]
"""Partitions by topic."""

Assignment: TypeAlias = dict[str, dict[str, list[int]]]
"""The assignment of each member: member id -> topic -> partitions.

Every member is a key, also a member without partitions. A member's topics without partitions are left out. Topics and
partitions have the order in which Kafka would write them to the wire, which is not always ascending.
"""


class RebalanceProtocol(Enum):
    """How a member rebalances (KIP-429): it gives up everything before it joins, or only the
    partitions that it must.
    """

    EAGER = 0
    COOPERATIVE = 1


@dataclass(frozen=True, slots=True)
class Member:
    """A member's subscription and the partitions that it claims: the data of a JoinGroup response."""

    member_id: str
    topics: Sequence[str] = ()
    """Its subscribed topics. Topics that do not exist are ignored."""
    owned: Partitions = field(default_factory=dict)
    """The partitions that it holds while it joins (KIP-429). Under uniform: its present target assignment."""
    generation: int = NO_GENERATION
    """The generation of `owned` (KIP-792, subscription version 2)."""
    instance_id: str | None = None
    """`group.instance.id` of a static member."""
    rack: str | None = None
    """`client.rack` (KIP-881, subscription version 3)."""
    user_data: bytes | None = None
    """The strategy's own data in the subscription, which sticky uses (Assignor.user_data)."""


@dataclass(frozen=True, slots=True)
class Topic:
    """An existing topic. Partitions are numbered from 0."""

    partitions: int
    racks: Sequence[Collection[str]] = ()
    """For each partition the racks of its replicas. Empty when racks are not known."""
    topic_id: bytes = bytes(16)
    """The topic's UUID. Only the strategies of the server (KIP-848) use it."""

    def __post_init__(self) -> None:
        if self.partitions < 0:
            raise ValueError(f"a topic of {self.partitions} partitions: none or more were expected")
        if self.racks and len(self.racks) != self.partitions:
            raise ValueError(f"{len(self.racks)} sets of racks for {self.partitions} partitions: one for each, or none")


@runtime_checkable
class Assignor(Protocol):
    """A strategy: which member gets which partitions.

    Stateless: one object serves any number of groups. The order of the members matters only where Kafka's result
    depends on their order in the JoinGroup response.
    """

    @property
    def name(self) -> str:
        """The name by which members agree on it in JoinGroup, such as "range"."""

    @property
    def protocols(self) -> tuple[RebalanceProtocol, ...]:
        """How members may rebalance under it. The preferred way is first."""

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        """Share the partitions of the subscribed topics among the members.

        Topics without subscribers, and subscribed topics that are missing or have no partitions, are ignored. Member
        ids must differ. The result belongs to the caller.
        """

    def user_data(self, owned: Partitions | None, generation: int) -> bytes | None:
        """The user data of a member's subscription, which the leader's `assign` reads.

        `owned` is its last assignment; None before the first. `generation` is the generation of that assignment.
        """
