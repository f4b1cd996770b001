"""What of a large target is worked out apart from the event loop, beside the assignor's work: who comes in which order,
each member's share by topic id, and the record of it. For 1,000 members that is most of what it takes to put a target
in force.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from muster.assignors.assignor import Assignment
from muster.assignors.java_order import string_order
from muster.coordinator.core.interface import Record
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.consumer import kafka_order, records
from muster.coordinator.groups.consumer.commands import AssignmentComputed, AssignmentWanted
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.partitions import NOTHING, Share, share_of

RANGE: Final = "range"


class WorkedOut(NamedTuple):
    """It holds while the group has the members that were asked about, and the topics are the same."""

    image_version: int
    order: Sequence[str]
    """Member ids in the order of the records."""
    shares: Mapping[str, Share]
    records: Mapping[str, tuple[Share | None, Record]]
    """Of the members whose target is another: the one that was in force then, and the record of the new one."""

    def holds(self, group: ConsumerGroup, image: TopicsImage) -> bool:
        """Whether nothing has changed since."""
        members = group.members
        return (
            image.version == self.image_version
            and len(members) == len(self.order)
            and all(map(members.__contains__, self.order))
        )


def work_out(wanted: AssignmentWanted, assignment: Assignment) -> AssignmentComputed:
    """To be called in a thread."""
    topics, targets = wanted.topics, wanted.targets
    nothing: dict[str, list[int]] = {}
    shares: dict[str, Share] = {}
    made: dict[str, tuple[Share | None, Record]] = {}
    for member_id, _ in wanted.said:
        share = share_of({topics[name].topic_id: its for name, its in assignment.get(member_id, nothing).items()})
        before = targets.get(member_id)
        if before is not None and share == before:
            share = before  # it stays the same object: that is soon seen
        elif wanted.assignor != RANGE:  # its tables depend on what the member subscribes to when the target is there
            tables = kafka_order.changed(before or NOTHING)
            made[member_id] = before, records.target(wanted.group_id, member_id, share, tables)
        shares[member_id] = share
    order = string_order(shares)
    return AssignmentComputed(wanted, assignment, WorkedOut(wanted.image.version, order, shares, made))
