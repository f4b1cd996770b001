"""Reads the metadata of a classic group's members for a consumer group. Large groups are read in a thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final, NamedTuple

from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.common.image import NO_TOPICS, TopicsImage
from muster.coordinator.groups.common.step import Step
from muster.coordinator.groups.consumer import heartbeat, records
from muster.coordinator.groups.consumer.assignments import (
    NOTHING,
    CurrentAssignment,
    TargetAssignment,
    assigned_since,
    target_assignment,
)
from muster.coordinator.groups.consumer.checks import Refused
from muster.coordinator.groups.consumer.member import Position
from muster.coordinator.groups.consumer.states import STABLE as RECONCILED
from muster.coordinator.state_machine.interface import Record
from muster.protocol.consumer import decode_assignment, decode_subscription
from muster.protocol.errors import ErrorCode
from muster.protocol.message import MalformedMessage

CANNOT: Final = "Cannot upgrade classic group {} to consumer group because "
READ_AT_ONCE: Final = 32 * 1024
"""Bytes of the members of a classic group that are read on the event loop: some 5 ms."""
Brought = tuple[str, bytes, bytes]
"""The data of a member: its id, its metadata of the group's protocol, and its assignment."""
_Subscribed = tuple[str | None, tuple[str, ...]]
"""From a member's metadata: its rack, and the topics that it subscribes to."""


class Read(NamedTuple):
    """The data read of a member: its subscription, its target, its current assignment, and the
    records of the last two.
    """

    subscribed: _Subscribed
    share: TargetAssignment
    held: CurrentAssignment
    target: Record
    current: Record


class Prepared(NamedTuple):
    """The data of a group's members, read outside the event loop, with these topics, in this generation."""

    image: TopicsImage
    generation: int
    members: Mapping[Brought, Read]


NOTHING_READ: Final = Prepared(NO_TOPICS, -1, MappingProxyType({}))
"""The result when a group could not be read: its members are read when the heartbeat is answered."""


class Reader:
    """Reads the data of members of a classic group, and makes their records. Changes nothing."""

    def __init__(self, group: ClassicGroup, image: TopicsImage) -> None:
        self._group_id, self._generation, self._by_name = group.group_id, group.generation, image.by_name
        self._known: dict[bytes, _Subscribed] = {}

    def read(self, brought: Brought) -> Read:
        """The data of a member. Raises Refused and MalformedMessage."""
        member_id, metadata, assigned = brought
        group_id, epoch = self._group_id, self._generation
        share = self.share(assigned)
        held = assigned_since(share, epoch)
        return Read(
            self._subscribed(metadata),
            share,
            held,
            records.target(group_id, member_id, share),
            records.current(group_id, member_id, Position(epoch, epoch, RECONCILED, held, NOTHING)),
        )

    def share(self, assigned: bytes) -> TargetAssignment:
        """A member's partitions, by topic id. Raises as `read`."""
        share: dict[bytes, Sequence[int]] = {}
        if assigned:
            assignment = decode_assignment(assigned)[1]
            if assignment.user_data:
                raise Refused(
                    ErrorCode.GROUP_ID_NOT_FOUND,
                    f"{CANNOT.format(self._group_id)}an unsupported custom assignor is in use. Please refer to the "
                    "documentation or switch to a default assignor before re-attempting the upgrade.",
                )
            for one in assignment.assigned_partitions:
                topic = self._by_name.get(one.topic)
                if topic is not None:
                    share[topic.topic_id] = one.partitions
        return target_assignment(share)

    def _subscribed(self, metadata: bytes) -> _Subscribed:
        # Most members have the same.
        subscribed = self._known.get(metadata)
        if subscribed is None:
            subscription = decode_subscription(metadata)[1]
            subscribed = self._known[metadata] = subscription.rack_id or None, tuple(sorted(set(subscription.topics)))
            if len(subscribed[1]) > heartbeat.MOST_NAMES:
                raise Refused(
                    ErrorCode.GROUP_ID_NOT_FOUND,
                    f"{CANNOT.format(self._group_id)}a member subscribes to more than {heartbeat.MOST_NAMES} topics.",
                )
        return subscribed


def is_large(step: Step, group: ClassicGroup) -> bool:
    """Whether the read takes long. False for data that are too large to be read at all."""
    members = group.members.values()
    offered = sum([len(metadata) for one in members for _, metadata in one.protocols])
    brought = offered + sum([len(one.assignment) for one in members])
    return brought > READ_AT_ONCE and offered <= step.most_bytes


def reading_of(group: ClassicGroup, image: TopicsImage) -> Callable[[], Prepared]:
    """A function that reads the present group in a thread. Data that members send meanwhile are read later, at once."""
    brought = [(one.member_id, one.metadata(group.protocol_name), one.assignment) for one in group.members.values()]
    reader, generation = Reader(group, image), group.generation

    def read() -> Prepared:
        members: dict[Brought, Read] = {}
        with suppress(Refused, MalformedMessage):  # the same error is found again where it can be answered
            for one in brought:
                members[one] = reader.read(one)
        return Prepared(image, generation, members)

    return read
