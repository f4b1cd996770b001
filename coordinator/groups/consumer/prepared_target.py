"""The part of a large target that a thread prepares, together with the assignor's work.

It has the order of the members, each member's target by topic id, and its record. For 1,000 members that is most of the
work to put a target in force.
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
    """It is valid while the group has the same members, and the topics are the same."""

    image_version: int
    order: Sequence[str]
    """Member ids in the order of the records."""
    shares: Mapping[str, TargetAssignment]
    records: Mapping[str, tuple[TargetAssignment | None, Description, Record]]
    """For each member with a new target: the old target, the description, and the record of the new target."""

    def holds(self, group: ConsumerGroup, image: TopicsImage) -> bool:
        """Whether nothing has changed since it was made."""
        members = group.members
        return (
            image.version == self.image_version
            and len(members) == len(self.order)
            and all(map(members.__contains__, self.order))
        )


class Ranges:
    """The tables in which Kafka's "range" makes a member's new target. They depend on the member's topics."""

    __slots__ = ("_known", "_resolved", "_wanted")

    def __init__(self, wanted: AssignmentWanted, resolved: Mapping[str, Resolved]) -> None:
        """`resolved`: the topics of patterns."""
        self._wanted = wanted
        self._resolved = resolved
        self._known: dict[tuple[int, str | None], Tables] = {}

    def of(self, said: Description) -> Tables:
        """The tables of a member with this description. The description must stay alive meanwhile."""
        key = id(said.topics), said.pattern
        found = self._known.get(key)
        if found is None:
            topics = self._wanted.topics
            count = sum([name in topics for name in topics_of(said, self._resolved)])
            found = self._known[key] = kafka_order.ranges(count)
        return found


def prepare_target(wanted: AssignmentWanted, assignment: Assignment) -> AssignmentComputed:
    """Prepare the target. Call it in a thread."""
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
            share = before  # it stays the same object: that makes comparisons fast
        else:
            tables = ranges.of(said) if wanted.assignor == RANGE else kafka_order.changed(before or NOTHING)
            made[member_id] = before, said, records.target(wanted.group_id, member_id, share, tables)
        shares[member_id] = share
    order = string_order(shares)
    return AssignmentComputed(wanted, assignment, PreparedTarget(wanted.image.version, order, shares, made))
