"""Who leads which partition: which records a stop, a death, a return or a choice of a leader makes. Pure.

All brokers of the cluster share the logs, so that any of them can lead a partition at once. One of the partition's
replicas is taken before others, as on Kafka; when none of them lives, another broker takes its place until one does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import NamedTuple

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
    """A partition of a topic that there is."""

    topic: TopicState
    partition: int

    @property
    def state(self) -> PartitionState:
        """Its place in the cluster now."""
        return self.topic.partitions[self.partition]


def all_places(state: MetadataState) -> Iterator[Place]:
    """Every partition that there is."""
    for topic in state.topics.values():
        for index in range(len(topic.partitions)):
            yield Place(topic, index)


def places(state: MetadataState, records: Iterable[Message]) -> list[Place]:
    """The partitions that records of brokers and partitions are about: those that are named, and those that a broker
    leads which is registered.
    """
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
    """The brokers that may lead partitions, in order."""
    return [one for one in sorted(state.brokers) if not state.brokers[one].fenced and one not in without]


def in_sync(replicas: Sequence[int], leader: int, live: Collection[int]) -> tuple[int, ...]:
    """The replicas that live; without any, the leader. (Replicas are names for one log: whoever lives is in sync.)"""
    found = tuple(one for one in replicas if one in live)
    return found or (() if leader == NO_LEADER else (leader,))


def change(place: Place, leader: int, live: Collection[int]) -> PartitionChangeRecord | None:
    """The record after which that broker leads the partition, and those of its replicas that live are in sync; None:
    it is so already.
    """
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


def successor(place: Place, live: Sequence[int], turn: int) -> int:
    """Who leads the partition when its leader does no more: the first of its replicas that lives; without any, one of
    the others, whose turn it is.
    """
    for replica in place.state.replicas:
        if replica in live:
            return replica
    return live[turn % len(live)] if live else NO_LEADER


def settled(place: Place, live: Sequence[int], turn: int) -> PartitionChangeRecord | None:
    """The record that gives a partition a leader that lives, and keeps one that does; None: nothing is to be done.
    `turn`: see `successor`.
    """
    leader = place.state.leader
    return change(place, leader if leader in live else successor(place, live, turn), live)


def reassigned(
    place: Place, replicas: Sequence[int], live: Sequence[int], directory_id: bytes
) -> PartitionChangeRecord | None:
    """The record that gives a partition other replicas. Its leader stays if it is one of them and lives; else the first
    one that lives leads it, or as before when none does.
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
    """The broker that is to lead the partition, if it lives and another one does; None: all is well, or as well as it
    can be.
    """
    first = place.state.replicas[0] if place.state.replicas else NO_LEADER
    return first if first in live and place.state.leader != first else None


def of_strangers(state: MetadataState, racks: Mapping[int, str | None]) -> list[Message]:
    """At a start: brokers of which the log tells, and which this process does not have, lead nothing from now on."""
    strangers = [one for one in state.brokers if one not in racks and not state.brokers[one].fenced]
    live = living(state, without=strangers)
    records: list[Message] = [fenced(state, one) for one in strangers]
    for topic in state.topics.values():
        for index, partition in enumerate(topic.partitions):
            if partition.leader not in live or len(partition.isr) != len(partition.replicas):
                record = settled(Place(topic, index), live, len(records))
                if record is not None:
                    records.append(record)
    return records


def fenced(state: MetadataState, broker_id: int) -> Message:
    """The record that a broker leads nothing any more."""
    return _changed(state, broker_id, fenced=1)


def unfenced(state: MetadataState, broker_id: int) -> Message:
    """The record that a broker may lead again."""
    return _changed(state, broker_id, fenced=-1)


def leaving(state: MetadataState, broker_id: int) -> Message:
    """The record that a broker is about to stop in order."""
    return _changed(state, broker_id, in_controlled_shutdown=1)


def _changed(state: MetadataState, broker_id: int, **what: int) -> Message:
    # imported here: most clusters have one broker
    room = import_module("muster.protocol.messages.metadata_records.broker_registration_change_record")
    record: Message = room.BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=state.brokers[broker_id].epoch, **what
    )
    return record
