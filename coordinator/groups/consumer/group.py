"""A consumer group: members, epochs, targets and owners of partitions, kept consistent. This module decides nothing.

The functions of `replay` set all persistent fields by the group's methods. These methods keep the counts correct
(subscribed topics, patterns, assignors, reconciled members).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from muster.coordinator.groups.common.epoch_group import CommittingGroup
from muster.coordinator.groups.common.group import Partitions
from muster.coordinator.groups.common.kafka_order import TargetRows
from muster.coordinator.groups.common.state import State
from muster.coordinator.groups.consumer.member import (
    NOTHING,
    STABLE,
    ConsumerMember,
    Description,
    Position,
    Resolved,
    TargetAssignment,
    epochs_of,
    state_of,
)
from muster.coordinator.groups.consumer.records import record_keys
from muster.coordinator.state_machine.interface import Command
from muster.protocol.message import Message

CONSUMER: Final = "consumer"
NO_ASSIGNMENT: Final = 0
"""The value instead of an epoch when no targets are being computed."""
NOT_THERE: Final[Mapping[int, int]] = MappingProxyType({})


class ConsumerGroup(CommittingGroup[ConsumerMember, TargetAssignment]):
    """One consumer group.

    `names`: for each topic, the number of different lists of names and of resolved patterns that contain the topic.
    `subscriptions` counts the members with each list of names; `named` is the sum of the lists' lengths. `patterns` and
    `assignors` count the members with each pattern or assignor. `owners`: the member that has a partition, or has not
    given it up yet.

    Not persisted: `is_searching`, whether patterns are being resolved. `computing_epoch` and `failed_epoch`: the epochs
    whose targets are being computed, or could not be computed. `waiting`: the heartbeats that wait for targets.
    `reconciliation`: the facts for the history. `is_alike`: the result of `counts_alike` when a member was last
    described or removed. `existing`: the group's existing topics, as last found. `equal_targets`: the last targets, if
    all members have equal shares. `names_version` grows with each change of `names`. `orders`: targets as
    `kafka_order.order_of` gives them.
    """

    __slots__ = (
        "_stable", "assignors", "classic_count", "computing_epoch", "equal_targets", "existing", "failed_epoch",
        "has_partition_metadata", "is_alike", "is_searching", "named", "names", "names_version", "orders", "owners",
        "patterns", "reconciliation", "resolved", "subscriptions", "waiting",
    )  # fmt: skip

    kind = CONSUMER
    protocol_type = CONSUMER

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.orders: dict[str, TargetRows] = {}
        self.resolved: dict[str, Resolved] = {}
        self.names: Counter[str] = Counter()
        self.names_version = 0
        self.subscriptions: dict[tuple[str, ...], tuple[tuple[str, ...], int]] = {}
        self.named = 0
        self.existing: Any = None
        self.equal_targets: Any = None
        self.patterns: dict[str, int] = {}
        self.assignors: dict[str, int] = {}
        self.owners: dict[bytes, dict[int, str]] = {}
        self.classic_count = 0
        self.has_partition_metadata = False
        self.is_searching = False
        self.is_alike = True
        self.computing_epoch = NO_ASSIGNMENT
        self.failed_epoch = NO_ASSIGNMENT
        self.waiting: list[Command] = []
        self.reconciliation: Any = None
        self._stable: dict[int, int] = {}
        """How many members are STABLE in each epoch."""

    @property
    def _reconciled(self) -> int:
        """The number of members that own all of their targets in force."""
        return self._stable.get(self.assignment_epoch, 0)

    def _count_stable(self, member: ConsumerMember, one: int) -> None:
        """Add `one` (1 or -1) to the count of the member's epoch, if the member is STABLE."""
        position, counts = member.position, self._stable
        if position.state == STABLE:
            count = counts.get(position.epoch, 0) + one
            if count:
                counts[position.epoch] = count
            else:
                del counts[position.epoch]

    @property
    def state(self) -> str:
        """The state, as in ListGroups."""
        return state_of(len(self.members), self.epoch, self.assignment_epoch, self._reconciled)

    def state_before(self, newcomers: int) -> str:
        """The state of the group without `newcomers` members that have no epoch yet."""
        return state_of(len(self.members) - newcomers, self.epoch, self.assignment_epoch, self._reconciled)

    # ---- changes, for the functions of `replay`

    def describe_member(self, member: ConsumerMember, description: Description) -> None:
        """Set the description of a member."""
        self._count_out(member.description)
        before = member.description.instance_id
        if before is not None and before != description.instance_id and self.static_ids.get(before) == member.member_id:
            del self.static_ids[before]
        member.description = description
        member.is_persisted = True
        self._count_in(description)
        if description.instance_id is not None:
            self.static_ids[description.instance_id] = member.member_id
        self.is_alike = self.counts_alike()

    def add_member(self, member_id: str) -> ConsumerMember:
        """Add a member without a description."""
        member = self.members[member_id] = ConsumerMember(self.group_id, member_id)
        self._count_stable(member, 1)
        return member

    def remove_member(self, member_id: str) -> ConsumerMember | None:
        """Remove a member, if it exists. The member's partitions are free then."""
        member = self.members.get(member_id)
        if member is None:
            return None
        self.update_position(member, Position(0, 0, STABLE, NOTHING, NOTHING))
        del self.members[member_id]
        if not self.members:
            self.hashed_topics = None  # the next heartbeat compares the hash again
        self._count_stable(member, -1)
        self._count_out(member.description)
        self.is_alike = self.counts_alike()
        instance_id = member.description.instance_id
        # Kafka's records may add the new member of an instance id before they remove the old member.
        if instance_id is not None and self.static_ids.get(instance_id) == member_id:
            del self.static_ids[instance_id]
        return member

    def update_position(self, member: ConsumerMember, position: Position) -> None:
        """Set the position of a member, which then owns its assigned partitions and those of its pending revocation."""
        member_id, owners = member.member_id, self.owners
        self._count_stable(member, -1)
        if position.assigned != member.position.assigned or position.revoking != member.position.revoking:
            before, after = (
                (*member.position.assigned, *member.position.revoking),
                (*position.assigned, *position.revoking),
            )
            # Topics without changes keep their row objects in a live step.
            known = set(map(id, before))
            stays = known.intersection(map(id, after)) if known else known
            gone = [row for row in before if id(row) not in stays] if stays else before
            new = [row for row in after if id(row) not in stays] if stays else after
            for topic_id, partitions, _ in gone:
                of_topic = owners.get(topic_id)
                if of_topic is not None and len(partitions) == len(of_topic) == 1 and partitions[0] in of_topic:
                    # Most members with thousands of topics have one partition of each topic.
                    if of_topic[partitions[0]] == member_id:
                        del owners[topic_id]
                else:
                    self._remove_owner(member_id, topic_id, partitions)
            for topic_id, partitions, _ in new:
                of_topic = owners.get(topic_id)
                if of_topic is None:
                    owners[topic_id] = dict.fromkeys(partitions, member_id)
                else:
                    of_topic.update(dict.fromkeys(partitions, member_id))
        member.position = position
        self._count_stable(member, 1)

    def _remove_owner(self, member_id: str, topic_id: bytes, partitions: Iterable[int]) -> None:
        of_topic = self.owners.get(topic_id, {})
        for partition in partitions:
            # In a compacted log the record of a partition's new owner may precede the record of the old owner's loss.
            if of_topic.get(partition) == member_id:
                del of_topic[partition]
        if not of_topic:
            self.owners.pop(topic_id, None)

    def resolve(self, pattern: str, resolved: Resolved | None) -> None:
        """Set the topics that a pattern matched. None if the pattern has no members any more."""
        before = self.resolved.pop(pattern, None)
        topics, topics_before = () if resolved is None else resolved.topics, () if before is None else before.topics
        if resolved is not None:
            self.resolved[pattern] = resolved
        if topics != topics_before:
            self.names_version += 1
            self.names.update(topics)
            _subtract(self.names, topics_before)

    def shared_topics(self, topics: tuple[str, ...]) -> tuple[str, ...]:
        """The same names in the tuple that other members with these names have."""
        known = self.subscriptions.get(topics)
        return topics if known is None else known[0]

    def _count_in(self, description: Description) -> None:
        if description.topics:
            topics, count = self.subscriptions.get(description.topics, (description.topics, 0))
            self.subscriptions[topics] = topics, count + 1
            if not count:
                self.named += len(topics)
                self.names_version += 1
                self.names.update(topics)
        _add(self.patterns, (description.pattern,) if description.pattern else ())
        _add(self.assignors, (description.assignor,) if description.assignor is not None else ())
        self.classic_count += description.classic is not None

    def _count_out(self, description: Description) -> None:
        if description.topics:
            topics, count = self.subscriptions[description.topics]
            if count > 1:
                self.subscriptions[topics] = topics, count - 1
            else:
                del self.subscriptions[topics]
                self.named -= len(topics)
                self.names_version += 1
                _subtract(self.names, topics)
        _subtract(self.patterns, (description.pattern,) if description.pattern else ())
        _subtract(self.assignors, (description.assignor,) if description.assignor is not None else ())
        self.classic_count -= description.classic is not None

    # ---- questions of other modules

    def counts_alike(self) -> bool:
        """Whether Kafka treats the subscriptions as equal, if the group has patterns. Kafka treats subscriptions so
        when all members have the same pattern, and no member names a topic.
        """
        patterns, names = self.patterns, self.names
        if not patterns:
            return True
        if len(patterns) > 1 or next(iter(patterns.values())) != len(self.members):
            return False
        resolved = sum([len(one.topics) for one in self.resolved.values()])
        return not self.named and len(names) == resolved

    def target_rows(self, member_id: str) -> TargetRows:
        """A member's target, in the order of iteration if the group keeps that order."""
        return self.orders.get(member_id) or self.targets.get(member_id, NOTHING)

    def lacks_targets(self) -> bool:
        """Whether the group has never had targets."""
        return self.epoch > self.assignment_epoch and not self.assignment_ms

    def record_keys(self, members: Iterable[str] | None = None) -> list[Message]:
        """See `Group`. The keys are in the order in which Kafka deletes them. `members`: the ids in another order."""
        ids = list(self.member_ids() if members is None else members)
        return record_keys(self.group_id, ids, self.resolved)

    def is_classic(self, member: ConsumerMember) -> bool:
        """See `CommittingGroup`. A member of the classic protocol stays so during an online migration."""
        return member.description.classic is not None

    def has_since(self, member: ConsumerMember, epoch: int, partitions: Partitions) -> bool:
        """See `CommittingGroup`."""
        asked = [(topic_id, partition) for _, topic_id, partition in partitions()]
        topics = {topic_id for topic_id, _ in asked}
        assigned = epochs_of([row for row in member.position.assigned if row[0] in topics])
        revoking = epochs_of([row for row in member.position.revoking if row[0] in topics])
        for topic_id, partition in asked:
            since = assigned.get(topic_id, NOT_THERE).get(partition)
            if since is None:
                since = revoking.get(topic_id, NOT_THERE).get(partition)
            if since is None or epoch < since:
                return False
        return True

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic by name, or by a resolved pattern."""
        return topic in self.names


def _add(counts: dict[str, int], names: Iterable[str]) -> None:
    for name in names:
        counts[name] = counts.get(name, 0) + 1


def _subtract(counts: dict[str, int], names: Iterable[str]) -> None:
    for name in names:
        left = counts[name] - 1
        if left:
            counts[name] = left
        else:
            del counts[name]


def consumer_group(state: State, group_id: str) -> ConsumerGroup | None:
    """The consumer group of that id. None when no such group exists."""
    group = state.groups.get(group_id)
    return group if isinstance(group, ConsumerGroup) else None


def topics_of(description: Description, resolved: Mapping[str, Resolved]) -> Iterable[str]:
    """The names of all topics that a member with this description subscribes to. `resolved`: the topics of patterns."""
    its = resolved.get(description.pattern) if description.pattern else None
    return description.topics if its is None else {*description.topics, *its.topics}


def free_partitions(group: ConsumerGroup, topic_id: bytes, partitions: Sequence[int], member_id: str) -> Sequence[int]:
    """Those of `partitions` that no other member has or is still giving up."""
    of_topic = group.owners.get(topic_id)
    if of_topic is None:
        return partitions
    return [one for one in partitions if of_topic.get(one, member_id) == member_id]


def is_free(group: ConsumerGroup, topic_id: bytes, partition: int, member_id: str) -> bool:
    """Whether the partition is free: no other member has it or is still giving it up."""
    of_topic = group.owners.get(topic_id)
    return of_topic is None or of_topic.get(partition, member_id) == member_id
