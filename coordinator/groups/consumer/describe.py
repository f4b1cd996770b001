"""ConsumerGroupDescribe: consumer groups as administrators see them. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster.coordinator.core.interface import Command
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.step import Step
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.member import Position
from muster.coordinator.groups.consumer.partitions import NOTHING
from muster.coordinator.groups.consumer.target import preferred_assignor
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1
"""A member's type, by the protocol that it uses."""


def handle(step: Step, command: Command, request: ConsumerGroupDescribeRequest) -> None:
    """Answer a ConsumerGroupDescribe: one row for each name, in their order, duplicates included."""
    rows = [_describe(step, group_id) for group_id in request.group_ids]
    step.reply(command.respond, ConsumerGroupDescribeResponse(0, rows))


def _describe(step: Step, group_id: str) -> DescribedGroup:
    group, image = step.state.groups.get(group_id), step.state.image
    if not isinstance(group, ConsumerGroup):
        message = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, message, group_id)
    members = []
    for member in group.members.values():
        said, at = member.said, member.at
        members.append(
            Member(
                member.member_id,
                said.instance_id,
                said.rack_id,
                at.epoch,
                said.client_id,
                said.client_host,
                list(said.topics),
                said.pattern,
                _assignment(_has(at), image),
                _assignment(group.targets.get(member.member_id, NOTHING), image),
                CONSUMER_MEMBER if said.classic is None else CLASSIC_MEMBER,
            )
        )
    assignor = preferred_assignor(group, step.state.settings)
    return DescribedGroup(0, None, group_id, group.state, group.epoch, group.assignment_epoch, assignor, members)


def _has(at: Position) -> list[tuple[bytes, tuple[int, ...]]]:
    """What a member owns, and behind it what it is giving up."""
    rows: dict[bytes, tuple[int, ...]] = {}
    for topic_id, partitions, _ in (*at.assigned, *at.revoking):
        rows[topic_id] = rows.get(topic_id, ()) + partitions
    return list(rows.items())


def _assignment(rows: Iterable[tuple[bytes, tuple[int, ...]]], image: TopicsImage) -> Assignment:
    """With the names of the topics; those that were deleted are left out."""
    by_id = image.by_id
    return Assignment(
        [
            TopicPartitions(topic_id, by_id[topic_id].name, list(partitions))
            for topic_id, partitions in rows
            if topic_id in by_id
        ]
    )
