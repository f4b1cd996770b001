"""ShareGroupDescribe and the partitions with a state: what administrators see of share groups. Nothing changes."""

from __future__ import annotations

from typing import Final, NamedTuple, cast

from muster.assignors.java_order import capacity_of_copy, string_order
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.share.group import ShareGroup, share_group
from muster.coordinator.groups.share.member import Description, Position
from muster.coordinator.groups.share.target import ASSIGNOR
from muster.coordinator.state_machine.interface import Command
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from muster.protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)

A_MEMBER: Final = 200
A_TOPIC: Final = 60
"""Estimated bytes in an answer: of a member without its topics, of one topic without its partitions."""


class DescribeCommand(Command):
    """A ShareGroupDescribe. The core answers with `Snapshot`s; outside the core `member_row` makes rows of them."""

    __slots__ = ()


class Snapshot(NamedTuple):
    """A member at one moment, in values that do not change."""

    member_id: str
    description: Description
    position: Position
    image: TopicsImage

    def size(self) -> int:
        """An estimate of the member's bytes in an answer, from its long fields only."""
        names = sum(map(len, self.description.topics)) + 2 * len(self.description.topics)
        return A_MEMBER + names + sum([A_TOPIC + 4 * len(row[1]) for row in self.position.assigned])


def handle(step: Step, command: Command, request: ShareGroupDescribeRequest) -> None:
    """Answer a ShareGroupDescribe with one row for each requested name, in the request's order, with duplicates."""
    rows = [_describe(step, group_id) for group_id in request.group_ids]
    if not isinstance(command, DescribeCommand):
        for row in rows:
            row.members = [member_row(one) for one in cast("list[Snapshot]", row.members)]
    step.reply(command.respond, ShareGroupDescribeResponse(0, rows))


def _describe(step: Step, group_id: str) -> DescribedGroup:
    group, image = step.state.groups.get(group_id), step.state.image
    if not isinstance(group, ShareGroup):
        message = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a share group."
        return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, message, group_id)
    members = [Snapshot(one.member_id, one.description, one.position, image)
               for one in map(group.members.__getitem__, group.member_ids())]  # fmt: skip
    return DescribedGroup(
        0, None, group_id, group.state, group.epoch, group.assignment_epoch, ASSIGNOR.name,
        cast("list[Member]", members),
    )  # fmt: skip


def list_partitions(step: Step, command: Command, request: DescribeShareGroupOffsetsRequest) -> None:
    """Answer with the partitions of existing topics that have a state. As on Kafka, a missing group has none."""
    by_id, rows = step.state.image.by_id, []
    for asked in request.groups:
        group = share_group(step.state, asked.group_id)
        initialized = {} if group is None or group.states is None else group.states.initialized
        topics = [
            DescribeShareGroupOffsetsResponseTopic(
                by_id[topic_id].name,
                topic_id,
                [DescribeShareGroupOffsetsResponsePartition(one, -1, 0, -1) for one in named.partitions],
            )
            for topic_id, named in initialized.items()
            if topic_id in by_id
        ]
        rows.append(DescribeShareGroupOffsetsResponseGroup(asked.group_id, topics))
    step.reply(command.respond, DescribeShareGroupOffsetsResponse(0, rows))


def member_row(one: Snapshot) -> Member:
    """A member as a row of the answer. Deleted topics are left out."""
    description, position, by_id = one.description, one.position, one.image.by_id
    rows = [
        TopicPartitions(topic_id, by_id[topic_id].name, list(partitions))
        for topic_id, partitions in position.assigned
        if topic_id in by_id
    ]
    names = string_order(description.topics, capacity_of_copy(len(description.topics)))
    return Member(
        one.member_id, description.rack_id, position.epoch, description.client_id, description.client_host, names,
        Assignment(rows),
    )  # fmt: skip
