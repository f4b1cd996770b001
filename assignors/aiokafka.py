"""Makes Muster's strategies usable by aiokafka's consumers: `partition_assignment_strategy=[strategy("sticky")]`.

Only this module of `assignors` may import a client library. No other module of `assignors` imports this one. Consumers
of aiokafka give up everything before they join, so cooperative strategies are refused. A strategy gets only topics and
user data from aiokafka. It does not get the owned partitions, generation, rack or instance id that other clients send.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

from muster.assignors import builtin, custom
from muster.assignors.assignor import NO_GENERATION, Assignor, Member, RebalanceProtocol, Topic

_VERSION = 0
"""The version of subscription and assignment that aiokafka reads and writes."""


class ClientAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # aiokafka is not typed
    """A strategy for one consumer. Each consumer needs its own, since a strategy may remember what the consumer had."""

    name: str = ""

    def __init__(self, assignor: Assignor) -> None:
        """Raises ValueError for a cooperative strategy."""
        if assignor.protocols[0] is not RebalanceProtocol.EAGER:
            eager = ", ".join(name for name, one in builtin.CLIENT_ASSIGNORS.items() if _eager(one))
            raise ValueError(
                f"{assignor.name} cannot be used in aiokafka, whose consumers give up all partitions before they join; "
                f"use one of {eager}, or a client that rebalances cooperatively: Java, confluent-kafka, kafka-python 3"
            )
        self.name = assignor.name
        self._assignor = assignor
        self._consumer: Any = None
        self._owned: dict[str, list[int]] | None = None
        self._generation = NO_GENERATION

    def follow(self, consumer: Any) -> None:
        """Let the strategy read the group's generation from `consumer`, for the user data of sticky.

        aiokafka does not pass the generation to strategies. Without this call a member sends -1, as under aiokafka's
        own sticky. In most cases -1 does no harm. But a member may return and claim partitions that other members got
        meanwhile. Then the last owner is unknown, and those partitions may move.
        """
        self._consumer = consumer

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """The consumer's subscription for JoinGroup."""
        data = self._assignor.user_data(self._owned, self._generation)
        return ConsumerProtocolMemberMetadata(_VERSION, sorted(topics), data)

    def assign(
        self, cluster: Any, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """The leader's assignments for SyncGroup. `cluster` is aiokafka's ClusterMetadata.

        Raises AssignmentError when a custom strategy fails. The call that the application waits for then raises a
        KafkaError that has the AssignmentError.
        """
        group = [
            Member(member_id, tuple(metadata.subscription), user_data=metadata.user_data or None)
            for member_id, metadata in members.items()
        ]
        wanted = dict.fromkeys(topic for member in group for topic in member.topics)
        sizes = {topic: cluster.partitions_for_topic(topic) for topic in wanted}
        topics = {topic: Topic(len(partitions)) for topic, partitions in sizes.items() if partitions is not None}
        assignment = self._assignor.assign(group, topics)
        return {
            member_id: ConsumerProtocolMemberAssignment(_VERSION, list(rows.items()), None)
            for member_id, rows in assignment.items()
        }

    def on_assignment(self, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Remember the consumer's assignment."""
        owned: dict[str, list[int]] = {}
        for topic, partitions in assignment.assignment:
            owned.setdefault(topic, []).extend(partitions)
        coordinator = getattr(self._consumer, "_coordinator", None)
        self._owned, self._generation = owned, getattr(coordinator, "generation", NO_GENERATION)


def strategy(name: str | Assignor) -> ClientAssignor:
    """A strategy for one consumer: "range", "roundrobin", "sticky", "module:Class", or an `Assignor`. Raises
    ValueError.
    """
    if not isinstance(name, str):
        return ClientAssignor(name)
    if ":" in name:
        return ClientAssignor(custom.load(name))
    found = builtin.CLIENT_ASSIGNORS.get(name)
    if found is None:
        names = ", ".join(known for known, one in builtin.CLIENT_ASSIGNORS.items() if _eager(one))
        raise ValueError(f'{name!r} is no strategy: {names} or "module:Class" was expected')
    return ClientAssignor(found)


def _eager(assignor: Assignor) -> bool:
    return assignor.protocols[0] is RebalanceProtocol.EAGER
