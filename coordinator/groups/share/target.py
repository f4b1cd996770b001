"""The target assignment of a share group in a new epoch, by Kafka's "simple" assignor. This module changes nothing.

Only partitions whose state exists are assigned. Heartbeats cause the computation of a target; time alone never does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from muster.assignors.assignor import Member, Topic
from muster.assignors.java_order import capacity_for, capacity_of_copy, spread, string_order, uuid_hash
from muster.assignors.simple import SimpleAssignor
from muster.coordinator.groups.common import kafka_order
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.kafka_order import Tables
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.share import records
from muster.coordinator.groups.share.group import ShareGroup
from muster.coordinator.groups.share.member import NOTHING, Assigned, assigned
from muster.coordinator.state_machine.interface import Record

ASSIGNOR: Final = SimpleAssignor()

FEW_NAMES: Final = 500
"""The assignor gets all names of a subscription of at most this many names."""

Subscriptions = Mapping[str, tuple[str, ...]]
"""The topics of each member, in the order in which Kafka iterates over the members."""


class Turns(NamedTuple):
    """The order in which Kafka's assignor gives partitions to members, which decides the order of topics in records."""

    capacity: int
    """The capacity of Kafka's table of all partitions; of the table of topics, if subscriptions differ."""
    is_equal: bool
    """Whether all members have the same subscription."""

    def bucket(self, partition: tuple[bytes, int]) -> int:
        """The bucket of a partition in that table."""
        topic_hash = uuid_hash(partition[0])
        return spread(31 * topic_hash + partition[1] if self.is_equal else topic_hash) & self.capacity - 1


class ComputedTarget(NamedTuple):
    """New targets, and the records for them."""

    targets: Mapping[str, Assigned]
    changes: Sequence[tuple[str, Assigned, Assigned]]
    """Member id, target before and new target of each member whose target changes."""
    records: Sequence[Record]
    turns: Turns


def is_due(step: Step, group: ShareGroup, epoch: int) -> bool:
    """Whether targets of this epoch are to be computed now: older targets are in force, and the interval is over."""
    if group.assignment_epoch >= epoch:
        return False
    interval_ms = step.state.configs.of_share(group.group_id).assignment_interval_ms
    return not group.assignment_ms or not interval_ms or step.now.wall_ms >= group.assignment_ms + interval_ms


def compute(step: Step, group: ShareGroup, epoch: int, subscriptions: Subscriptions) -> ComputedTarget:
    """Compute the targets of this epoch for members with these subscriptions."""
    image, had, group_id = step.state.image, group.targets, group.group_id
    names = _Names(image)
    wanted = {topics: _few(topics, image) for topics in subscriptions.values()}
    members = [
        Member(member_id, wanted[topics], {names.of(topic_id): its for topic_id, its in had.get(member_id, NOTHING)})
        for member_id, topics in subscriptions.items()
    ]
    topics = {
        name: Topic(topic.partitions, (), topic.topic_id)
        for name in dict.fromkeys([name for its in wanted.values() for name in its])
        if (topic := image.by_name.get(name)) is not None
    }
    assignable = _assignable(group, image)
    given = ASSIGNOR.assign(members, {**names.owned_topics(), **topics}, assignable)
    turns = _turns(subscriptions, topics, assignable)
    targets, changes, made = {}, [], []
    for member_id in string_order(subscriptions):
        before = had.get(member_id)
        its = assigned({names.id_of(name): partitions for name, partitions in given.get(member_id, {}).items()})
        targets[member_id] = its
        if its != before:
            changes.append((member_id, before or NOTHING, its))
            made.append(records.target(group_id, member_id, its, tables_of(before or NOTHING, its, turns)))
    made.append(records.target_epoch(group_id, epoch, step.now.wall_ms))
    return ComputedTarget(targets, changes, made, turns)


def _turns(
    subscriptions: Subscriptions, topics: Mapping[str, Topic], assignable: Mapping[str, Collection[int]]
) -> Turns:
    is_equal = len(set(subscriptions.values())) == 1
    count = sum([len(assignable.get(name, ())) for name in topics]) if is_equal else len(topics)
    return Turns(capacity_for(int((count + 1) / 0.75 + 1)), is_equal)


def _few(topics: tuple[str, ...], image: TopicsImage) -> tuple[str, ...]:
    """A subscription for the assignor. Of very many names those of topics that do not exist become one name."""
    if len(topics) <= FEW_NAMES:
        return topics
    missing = tuple([name for name in topics if name not in image.by_name])
    return (*[name for name in topics if name in image.by_name], f"/{hash(missing)}") if missing else topics


def tables_of(before: Assigned, its: Assigned, turns: Turns) -> Tables:
    """The tables in which Kafka's assignor makes the target `its` from the target `before`."""
    kept, has = dict(its), dict(before)
    put = [topic_id for topic_id, _ in kafka_order.read(before) if topic_id in kept]
    given = [(topic_id, one) for topic_id, numbers in its for one in numbers if one not in has.get(topic_id, ())]
    given.sort(key=turns.bucket)
    sizes = {topic_id: capacity_of_copy(len(partitions)) for topic_id, partitions in before}
    return Tables(capacity_for(len(before)), sizes, were_put=put, computed=[topic_id for topic_id, _ in given])


def loaded_tables(its: Assigned) -> Tables:
    """The tables in which Kafka has a target that it has read from its record."""
    return Tables(of_partitions={topic_id: capacity_of_copy(len(partitions)) for topic_id, partitions in its})


def _assignable(group: ShareGroup, image: TopicsImage) -> dict[str, frozenset[int]]:
    states = group.states
    if states is None:
        return {}
    return {
        image.by_id[topic_id].name: frozenset(its.partitions)
        for topic_id, its in states.initialized.items()
        if topic_id in image.by_id
    }


class _Names:
    """The names of topics for the assignor. A deleted topic of a target gets a name that no topic has."""

    def __init__(self, image: TopicsImage) -> None:
        self._image = image
        self._ids: dict[str, bytes] = {}

    def of(self, topic_id: bytes) -> str:
        """The name of a topic that is in a target."""
        topic = self._image.by_id.get(topic_id)
        name = f"/{topic_id.hex()}" if topic is None else topic.name
        self._ids[name] = topic_id
        return name

    def owned_topics(self) -> dict[str, Topic]:
        """The topics of the targets."""
        by_id = self._image.by_id
        return {
            name: Topic(by_id[topic_id].partitions if topic_id in by_id else 0, (), topic_id)
            for name, topic_id in self._ids.items()
        }

    def id_of(self, name: str) -> bytes:
        """The id of a topic in the assignor's result."""
        return self._ids.get(name) or self._image.by_name[name].topic_id
