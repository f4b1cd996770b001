"""The input and output of every strategy: members, topics, assignments.

A strategy is a pure function of its arguments. Kafka's counterpart is `ConsumerPartitionAssignor` (on the server
`ConsumerGroupPartitionAssignor`). The last part of this module orders members, and reads their subscriptions, for all
strategies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol, TypeAlias, runtime_checkable

from muster.assignors.java_order import sort_strings, string_order

NO_GENERATION: Final = -1
"""The generation of a member that had no assignment, or does not send a generation (Kafka's DEFAULT_GENERATION)."""

Partitions: TypeAlias = Mapping[str, Sequence[int]]
"""Partitions by topic."""

Assignment: TypeAlias = dict[str, dict[str, list[int]]]
"""The assignment of each member: member id -> topic -> partitions.

Every member is a key, also a member without partitions. A member's topics without partitions are left out. Topics and
partitions have the order in which Kafka would write them to the wire, which is not always ascending.
"""


class RebalanceProtocol(Enum):
    """How a member rebalances (KIP-429): it gives up all its partitions before it joins, or only those that it must."""

    EAGER = 0
    COOPERATIVE = 1


@dataclass(slots=True)
class Member:
    """A member's subscription, and the partitions that the member claims, as a JoinGroup response has them.

    No strategy changes a member. (Frozen objects take four times as long to make, and a target assignment needs
    thousands of them.)
    """

    member_id: str
    topics: Sequence[str] = ()
    """The subscribed topics. Topics that do not exist are ignored."""
    owned: Partitions = field(default_factory=dict)
    """The partitions that the member has when it joins (KIP-429). For strategies of the server: the target."""
    generation: int = NO_GENERATION
    """The generation of `owned` (KIP-792, subscription version 2)."""
    instance_id: str | None = None
    """The `group.instance.id` of a static member."""
    rack: str | None = None
    """The `client.rack` of the member (KIP-881, subscription version 3)."""
    user_data: bytes | None = None
    """The strategy's own data in the subscription (Assignor.user_data). Only sticky strategies use this data."""


@dataclass(frozen=True, slots=True)
class Topic:
    """An existing topic. Partitions are numbered from 0."""

    partitions: int
    racks: Sequence[Collection[str]] = ()
    """For each partition, the racks of its replicas. Empty when racks are not known."""
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

    A strategy has no state: one object serves any number of groups. The order of members matters only if Kafka's result
    depends on the order in the JoinGroup response.
    """

    @property
    def name(self) -> str:
        """The name by which members agree on this strategy in JoinGroup, such as "range"."""

    @property
    def protocols(self) -> tuple[RebalanceProtocol, ...]:
        """The ways in which members may rebalance under this strategy. The preferred way is first."""

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        """Share the partitions of the subscribed topics among the members.

        Topics without subscribers, and subscribed topics that are missing or have no partitions, are ignored. Member
        ids must differ. The result belongs to the caller.
        """

    def user_data(self, owned: Partitions | None, generation: int) -> bytes | None:
        """The user data of a subscription. `owned`: the member's assignment (None at first) in this `generation`."""


def no_user_data(_: object, owned: Partitions | None, generation: int) -> bytes | None:  # noqa: ARG001  # a parameter of Assignor.user_data
    """`Assignor.user_data` of a strategy whose members need no user data."""
    return None


def require_distinct(members: Sequence[Member]) -> None:
    """Raise ValueError, with the id, when two members have one id."""
    if len({member.member_id for member in members}) < len(members):
        seen = set()
        for member in members:
            if member.member_id in seen:
                raise ValueError(f"member {member.member_id!r} occurs twice among the members; ids must differ")
            seen.add(member.member_id)


def in_hash_order(members: Sequence[Member]) -> list[Member]:
    """The members in the order of Java's HashMap of subscriptions by member id, which a leader fills."""
    by_id = {member.member_id: member for member in members}
    return [by_id[member_id] for member_id in string_order(by_id)]


def by_identity(members: Sequence[Member]) -> list[Member]:
    """Sort static members by instance id, then dynamic members by member id (Kafka's MemberInfo)."""
    dynamic = {member.member_id: member for member in members if member.instance_id is None}
    ordered = [dynamic[member_id] for member_id in sort_strings(dynamic)]
    if len(ordered) == len(members):
        return ordered
    static: dict[str, list[Member]] = {}
    for member in members:
        if member.instance_id is not None:
            static.setdefault(member.instance_id, []).append(member)
    first = []
    for instance_id in sort_strings(static):
        # A group cannot have two members with one instance id. If the input has two, Java keeps its order of iteration.
        same = static[instance_id]
        first += same if len(same) == 1 else [member for member in in_hash_order(members) if member in same]
    return first + ordered


def distinct_subscriptions(members: Iterable[Member]) -> list[Sequence[str]]:
    """The different subscriptions (lists of topics as members sent them), in the order of members."""
    lists = {id(member.topics): member.topics for member in members}  # many members may have the same subscription
    return list(dict.fromkeys(map(tuple, lists.values())))


def existing(topics: Iterable[str], known: Mapping[str, Topic]) -> list[str]:
    """The topics of a subscription that exist and have partitions."""
    return [name for name in topics if (topic := known.get(name)) is not None and topic.partitions]


def topics_in_hash_order(members: Sequence[Member], known: Mapping[str, Topic]) -> list[str]:
    """Subscribed topics with partitions, in the order of the HashMap that AbstractPartitionAssignor fills."""
    subscriptions = distinct_subscriptions(members)
    if len(subscriptions) > 1:
        subscriptions = distinct_subscriptions(in_hash_order(members))
    subscribed = string_order(name for topics in subscriptions for name in topics)
    return string_order(existing(subscribed, known))


def subscribers(members: Iterable[Member], names: Iterable[str]) -> dict[str, list[Member]]:
    """The subscribers of each of these topics, each member once, in the order of members."""
    found: dict[str, list[Member]] = {name: [] for name in names}
    for member in members:
        for name in dict.fromkeys(member.topics):
            if (its := found.get(name)) is not None:
                its.append(member)
    return found
