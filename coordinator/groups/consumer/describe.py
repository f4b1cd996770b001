"""ConsumerGroupDescribe: what administrators see of consumer groups. This module changes nothing."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final, NamedTuple, cast

from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.member import NOTHING, Description, Position, TargetAssignment
from muster.coordinator.groups.consumer.target import preferred_assignor
from muster.coordinator.state_machine.interface import Command
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
"""The member type in the answer, by the member's protocol."""


class DescribeCommand(Command):
    """A ConsumerGroupDescribe. The core answers with `Snapshot`s; outside the core `member_row` makes rows of them."""

    __slots__ = ()


class Snapshot(NamedTuple):
    """A member at one moment, in values that do not change."""

    member_id: str
    description: Description
    position: Position
    target: TargetAssignment
    image: TopicsImage

    def size(self) -> int:
        """An estimate of the member's bytes in an answer, from its long fields only."""
        rows = (*self.position.assigned, *self.position.revoking, *self.target)
        names = sum(map(len, self.description.topics)) + 2 * len(self.description.topics)
        return A_MEMBER + names + sum([A_TOPIC + 4 * len(row[1]) for row in rows])


A_MEMBER: Final = 200
A_TOPIC: Final = 60
"""Estimated bytes in an answer: of a member without its topics, of one topic without its partitions."""
TOPICS_AT_ONCE: Final = 500
"""How many topics of a member's assignment are encoded in one step."""


def handle(step: Step, command: Command, request: ConsumerGroupDescribeRequest) -> None:
    """Answer a ConsumerGroupDescribe with one row for each requested name, in the request's order, with duplicates."""
    rows = [_describe(step, group_id) for group_id in request.group_ids]
    if not isinstance(command, DescribeCommand):
        for row in rows:
            row.members = [_at_once(member_row(one)) for one in cast("list[Snapshot]", row.members)]
    step.reply(command.respond, ConsumerGroupDescribeResponse(0, rows))


def _describe(step: Step, group_id: str) -> DescribedGroup:
    group, image = step.state.groups.get(group_id), step.state.image
    if not isinstance(group, ConsumerGroup):
        message = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, message, group_id)
    targets = group.targets
    members = [
        Snapshot(member_id, member.description, member.position, targets.get(member_id, NOTHING), image)
        for member_id, member in group.members.items()
    ]
    assignor = preferred_assignor(group, step.state.settings)
    return DescribedGroup(
        0, None, group_id, group.state, group.epoch, group.assignment_epoch, assignor, cast("list[Member]", members)
    )


def member_row(one: Snapshot) -> Generator[None, None, Member]:
    """A member as a row of the answer. Yields between steps."""
    description, position = one.description, one.position
    assigned = yield from _assignment(_has(position), one.image)
    target = yield from _assignment(one.target, one.image)
    return Member(
        one.member_id,
        description.instance_id,
        description.rack_id,
        position.epoch,
        description.client_id,
        description.client_host,
        description.topics,  # many members share one tuple of names
        description.pattern,
        assigned,
        target,
        CONSUMER_MEMBER if description.classic is None else CLASSIC_MEMBER,
    )


def _at_once(steps: Generator[None, None, Member]) -> Member:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            row: Member = end.value
            return row


def _has(position: Position) -> Sequence[tuple[bytes, tuple[int, ...]]]:
    """The partitions that a member owns, followed by the partitions of its pending revocation."""
    if not position.revoking:
        return [(row[0], row[1]) for row in position.assigned]
    rows: dict[bytes, tuple[int, ...]] = {}
    for topic_id, partitions, _ in (*position.assigned, *position.revoking):
        rows[topic_id] = rows.get(topic_id, ()) + partitions
    return list(rows.items())


def _assignment(rows: Sequence[tuple[bytes, tuple[int, ...]]], image: TopicsImage) -> Generator[None, None, Assignment]:
    """The partitions with the names of their topics. Deleted topics are left out."""
    by_id, made = image.by_id, []
    for start in range(0, len(rows), TOPICS_AT_ONCE):
        made += [
            TopicPartitions(topic_id, by_id[topic_id].name, list(partitions))
            for topic_id, partitions in rows[start : start + TOPICS_AT_ONCE]
            if topic_id in by_id
        ]
        yield
    return Assignment(made)
