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
"""The generation of a member that never had an assignment, or does not tell (Kafka's DEFAULT_GENERATION)."""

Partitions: TypeAlias = Mapping[str, Sequence[int]]
"""Partitions by topic."""

Assignment: TypeAlias = dict[str, dict[str, list[int]]]
"""What each member gets: member id -> topic -> partitions.

Every member is a key, those that get nothing too; a topic of which a member gets nothing is not. Topics and partitions
stand in the order in which Kafka would write them to the wire, which is not always ascending.
"""


class RebalanceProtocol(Enum):
    """How a member rebalances (KIP-429): it gives up everything before it joins, or only what it is told to."""

    EAGER = 0
    COOPERATIVE = 1


@dataclass(frozen=True, slots=True)
class Member:
    """A member's subscription and the partitions that it claims: what a JoinGroup response has of it."""

    member_id: str
    topics: Sequence[str] = ()
    """Its subscribed topics; those that do not exist are ignored."""
    owned: Partitions = field(default_factory=dict)
    """What it holds while it joins (KIP-429); under uniform its present target assignment."""
    generation: int = NO_GENERATION
    """The generation `owned` is from (KIP-792, subscription version 2)."""
    instance_id: str | None = None
    """`group.instance.id` of a static member."""
    rack: str | None = None
    """`client.rack` (KIP-881, subscription version 3)."""
    user_data: bytes | None = None
    """What the strategy itself put into the subscription, as sticky does (Assignor.user_data)."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that exists. Partitions are numbered from 0."""

    partitions: int
    racks: Sequence[Collection[str]] = ()
    """For each partition the racks of its replicas; empty when racks are not known."""
    topic_id: bytes = bytes(16)
    """The topic's UUID; only the strategies of the server (KIP-848) look at it."""

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
        """The name by which members agree on it in JoinGroup, as "range"."""

    @property
    def protocols(self) -> tuple[RebalanceProtocol, ...]:
        """How members may rebalance under it; the one it prefers first."""

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        """Share the partitions of the subscribed topics among the members.

        Topics without subscribers, and subscribed topics that are missing or have no partitions, are ignored. Member
        ids must differ. The result belongs to the caller.
        """

    def user_data(self, owned: Partitions | None, generation: int) -> bytes | None:
        """What a member puts into the user data of its subscription, to be read by `assign` of the leader.

        `owned` is its last assignment and `generation` the generation of that; None before the first.
        """
