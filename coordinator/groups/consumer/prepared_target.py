"""What of a large target is worked out apart from the event loop, beside the assignor's work: who comes in which order,
each member's share by topic id, and the record of it. For 1,000 members that is most of what it takes to put a target
in force.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from muster.assignors.assignor import Assignment
from muster.assignors.java_order import string_order
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.consumer import kafka_order, records
from muster.coordinator.groups.consumer.assignments import NOTHING, TargetAssignment, target_assignment
from muster.coordinator.groups.consumer.commands import AssignmentComputed, AssignmentWanted
from muster.coordinator.groups.consumer.group import ConsumerGroup, Resolved, topics_of
from muster.coordinator.groups.consumer.kafka_order import Tables
from muster.coordinator.groups.consumer.member import Description
from muster.coordinator.state_machine.interface import Record

RANGE: Final = "range"


class PreparedTarget(NamedTuple):
    """It holds while the group has the members that were asked about, and the topics are the same."""

    image_version: int
    order: Sequence[str]
    """Member ids in the order of the records."""
    shares: Mapping[str, TargetAssignment]
    records: Mapping[str, tuple[TargetAssignment | None, Description, Record]]
    """Of the members whose target is another: the one that was in force then, what they said, and the record of the
    new one.
    """

    def holds(self, group: ConsumerGroup, image: TopicsImage) -> bool:
        """Whether nothing has changed since."""
        members = group.members
        return (
            image.version == self.image_version
            and len(members) == len(self.order)
            and all(map(members.__contains__, self.order))
        )


class Ranges:
    """In what Kafka's "range" makes a member's new target: it depends on the topics that the member subscribes to."""

    __slots__ = ("_known", "_resolved", "_wanted")

    def __init__(self, wanted: AssignmentWanted, resolved: Mapping[str, Resolved]) -> None:
        """`resolved`: the topics of patterns."""
        self._wanted = wanted
        self._resolved = resolved
        self._known: dict[tuple[int, str | None], Tables] = {}

    def of(self, said: Description) -> Tables:
        """The tables of a member with this description, which must stay meanwhile."""
        key = id(said.topics), said.pattern
        found = self._known.get(key)
        if found is None:
            topics = self._wanted.topics
            count = sum([name in topics for name in topics_of(said, self._resolved)])
            found = self._known[key] = kafka_order.ranges(count)
        return found


def prepare_target(wanted: AssignmentWanted, assignment: Assignment) -> AssignmentComputed:
    """To be called in a thread."""
    topics, targets = wanted.topics, wanted.targets
    nothing: dict[str, list[int]] = {}
    shares: dict[str, TargetAssignment] = {}
    made: dict[str, tuple[TargetAssignment | None, Description, Record]] = {}
    ranges = Ranges(wanted, wanted.resolved)
    for member_id, said in wanted.said:
        share = target_assignment(
            {topics[name].topic_id: its for name, its in assignment.get(member_id, nothing).items()}
        )
        before = targets.get(member_id)
        if before is not None and share == before:
            share = before  # it stays the same object: that is soon seen
        else:
            tables = ranges.of(said) if wanted.assignor == RANGE else kafka_order.changed(before or NOTHING)
            made[member_id] = before, said, records.target(wanted.group_id, member_id, share, tables)
        shares[member_id] = share
    order = string_order(shares)
    return AssignmentComputed(wanted, assignment, PreparedTarget(wanted.image.version, order, shares, made))
