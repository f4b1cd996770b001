"""Returns the records that change leaders: for a broker that stops, dies or returns, or for a chosen leader. Pure.

A live replica leads, as on Kafka. If no replica is live, another broker leads: all brokers share the logs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from muster.coordinator.topics.metadata_state import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    MetadataState,
    PartitionState,
    TopicState,
)
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.partition_change_record import PartitionChangeRecord
from muster.protocol.messages.metadata_records.register_broker_record import RegisterBrokerRecord


class Place(NamedTuple):
    """A partition of an existing topic."""

    topic: TopicState
    partition: int

    @property
    def state(self) -> PartitionState:
        """The state of the partition now."""
        return self.topic.partitions[self.partition]


def all_places(state: MetadataState) -> Iterator[Place]:
    """Yield every partition of every topic."""
    for topic in state.topics.values():
        for index in range(len(topic.partitions)):
            yield Place(topic, index)


def places(state: MetadataState, records: Iterable[Message]) -> list[Place]:
    """Return the partitions that the records name, and those that a registered broker leads."""
    found: dict[Place, None] = {}
    for record in records:
        if isinstance(record, PartitionChangeRecord):
            topic = state.topics_by_id.get(record.topic_id)
            if topic is not None and record.partition_id < len(topic.partitions):
                found[Place(topic, record.partition_id)] = None
        elif isinstance(record, RegisterBrokerRecord):
            broker_id = record.broker_id
            for topic in state.topics.values():
                for index, one in enumerate(topic.partitions):
                    if one.leader == broker_id:
                        found[Place(topic, index)] = None
    return list(found)


def living(state: MetadataState, *, without: Collection[int] = ()) -> list[int]:
    """Return the ids of the brokers that may lead partitions, in order."""
    return [one for one in sorted(state.brokers) if not state.brokers[one].fenced and one not in without]


def in_sync(replicas: Sequence[int], leader: int, live: Collection[int]) -> tuple[int, ...]:
    """Return the live replicas; if none is live, the leader. (Replicas share one log: a live replica is in sync.)"""
    found = tuple(one for one in replicas if one in live)
    return found or (() if leader == NO_LEADER else (leader,))


def change(place: Place, leader: int, live: Collection[int]) -> PartitionChangeRecord | None:
    """Return the record that makes `leader` the leader, with the live replicas in sync; None when nothing changes."""
    now = place.state
    isr = in_sync(now.replicas, leader, live)
    if (leader, isr) == (now.leader, now.isr):
        return None
    return PartitionChangeRecord(
        partition_id=place.partition,
        topic_id=place.topic.topic_id,
        isr=None if isr == now.isr else isr,
        leader=NO_LEADER_CHANGE if leader == now.leader else leader,
    )


def successor(place: Place, live: Sequence[int], number: int) -> int:
    """Return the next leader: the first live replica, or else a live broker that is chosen by `number`."""
    for replica in place.state.replicas:
        if replica in live:
            return replica
    return live[number % len(live)] if live else NO_LEADER


def settled(place: Place, live: Sequence[int], number: int) -> PartitionChangeRecord | None:
    """Return the record that gives a partition a live leader, unless it has one; None when nothing changes."""
    leader = place.state.leader
    return change(place, leader if leader in live else successor(place, live, number), live)


def reassigned(
    place: Place, replicas: Sequence[int], live: Sequence[int], directory_id: bytes
) -> PartitionChangeRecord | None:
    """Return the record that gives a partition other replicas; None when nothing changes.

    A leader outside of the live replicas is replaced by the first live replica, if there is one.
    """
    now = place.state
    leader = now.leader
    if leader not in replicas or leader not in live:
        leader = next((one for one in replicas if one in live), leader)
    isr = in_sync(replicas, leader, live)
    if (tuple(replicas), isr, leader) == (now.replicas, now.isr, now.leader):
        return None
    return PartitionChangeRecord(
        partition_id=place.partition,
        topic_id=place.topic.topic_id,
        isr=isr,
        leader=NO_LEADER_CHANGE if leader == now.leader else leader,
        replicas=list(replicas),
        directories=[directory_id] * len(replicas),
    )


def preferred(place: Place, live: Collection[int]) -> int | None:
    """Return the preferred leader, if it is alive and another broker leads; else None."""
    first = place.state.replicas[0] if place.state.replicas else NO_LEADER
    return first if first in live and place.state.leader != first else None


def fence_missing_brokers(state: MetadataState, racks: Mapping[int, str | None]) -> list[Message]:
    """Return the records that fence brokers which this process does not have, and move their partitions."""
    missing = [one for one in state.brokers if one not in racks and not state.brokers[one].fenced]
    live = living(state, without=missing)
    records: list[Message] = [fenced(state, one) for one in missing]
    for topic in state.topics.values():
        for index, partition in enumerate(topic.partitions):
            if partition.leader not in live or len(partition.isr) != len(partition.replicas):
                record = settled(Place(topic, index), live, len(records))
                if record is not None:
                    records.append(record)
    return records


def fenced(state: MetadataState, broker_id: int) -> Message:
    """Return the record that fences a broker: from then on it leads nothing."""
    return _changed(state, broker_id, fenced=1)


def unfenced(state: MetadataState, broker_id: int) -> Message:
    """Return the record that ends the fencing of a broker: it may lead again."""
    return _changed(state, broker_id, fenced=-1)


def leaving(state: MetadataState, broker_id: int) -> Message:
    """Return the record of a broker that begins a controlled shutdown."""
    return _changed(state, broker_id, in_controlled_shutdown=1)


def _changed(state: MetadataState, broker_id: int, **what: Any) -> Message:
    # imported here: most clusters have one broker
    from muster.protocol.messages.metadata_records.broker_registration_change_record import (
        BrokerRegistrationChangeRecord,
    )

    return BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=state.brokers[broker_id].epoch, **what)
