"""The partitions of a share group for which a state is being created, exists, or is being deleted. Pure values.

Kafka: ShareGroupStatePartitionMetadataInfo, and the methods of GroupMetadataManager that make the next one. The states
themselves are kept by the persister of share partitions; only partitions with a state are assigned to members.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from muster.coordinator.groups.common.image import TopicsImage

UNKNOWN_NAME: Final = "<UNKNOWN>"
"""The name of a deleted topic in the record of the states."""
Partitions = Mapping[bytes, Collection[int]]
"""Partitions by topic id."""


class NamedPartitions(NamedTuple):
    """Partitions of a topic, ascending, with the name of the topic."""

    name: str
    partitions: tuple[int, ...]


Named = Mapping[bytes, NamedPartitions]
"""Partitions by topic id, with the names of the topics."""
NONE: Final[Named] = MappingProxyType({})


class States(NamedTuple):
    """For which partitions the state is set up: the fields of ShareGroupStatePartitionMetadataValue."""

    initializing: Named = NONE
    """The partitions whose state is being created."""
    initialized: Named = NONE
    """The partitions with a state: these may be assigned."""
    deleting: Collection[bytes] = ()
    """The topics whose states are being deleted."""


def united(one: Named, other: Named) -> dict[bytes, NamedPartitions]:
    """The partitions of both. The name is that in `other`, if `other` has the topic."""
    made = dict(one)
    for topic_id, (name, partitions) in other.items():
        had = one[topic_id].partitions if topic_id in one else ()
        made[topic_id] = NamedPartitions(name, tuple(sorted({*had, *partitions})))
    return made


def without(one: Named, gone: Partitions) -> dict[bytes, NamedPartitions]:
    """`one` without these partitions. Topics that lose their last partition are left out."""
    made = {}
    for topic_id, (name, partitions) in one.items():
        left = tuple([number for number in partitions if number not in gone.get(topic_id, ())])
        if left or topic_id not in gone:
            made[topic_id] = NamedPartitions(name, left)
    return made


def missing(states: States, names: Iterable[str], image: TopicsImage, *, retries: bool) -> dict[bytes, NamedPartitions]:
    """The partitions of these topics that have no state. `retries`: also those whose state should exist by now."""
    known = states.initialized if retries else united(states.initialized, states.initializing)
    made = {}
    for name in names:
        topic = image.by_name.get(name)
        if topic is None:
            continue
        has = known[topic.topic_id].partitions if topic.topic_id in known else ()
        if len(has) < topic.partitions:
            there = frozenset(has)
            lacking = tuple([number for number in range(topic.partitions) if number not in there])
            made[topic.topic_id] = NamedPartitions(name, lacking)
    return made


def initializing(states: States | None, new: Named) -> States:
    """The next states when the states of `new` are about to be created."""
    if states is None:
        return States(new)
    both = united(states.initializing, new)
    return States(both, states.initialized, frozenset(states.deleting) - both.keys())


def initialized(states: States | None, done: Partitions, image: TopicsImage) -> States:
    """The next states when the states of these partitions exist."""
    made = {topic_id: NamedPartitions(name_of(topic_id, image), tuple(sorted(done[topic_id]))) for topic_id in done}
    if states is None:
        return States(initialized=made)
    return States(without(states.initializing, done), united(states.initialized, made), states.deleting)


def name_of(topic_id: bytes, image: TopicsImage) -> str:
    """The name of a topic for the record of the states."""
    topic = image.by_id.get(topic_id)
    return UNKNOWN_NAME if topic is None else topic.name


def doomed(states: States, image: TopicsImage) -> dict[bytes, NamedPartitions]:
    """The partitions whose states have to be deleted with the group.

    A deletion that was begun before may have failed: then all partitions of the topic are deleted again.
    """
    again = {
        topic_id: NamedPartitions(topic.name, tuple(range(topic.partitions)))
        for topic_id in states.deleting
        if (topic := image.by_id.get(topic_id)) is not None
    }
    return united(united(states.initialized, states.initializing), again)
