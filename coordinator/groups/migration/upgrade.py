"""A classic group becomes a consumer group: its members stay, with the generation as their epoch.

For the change the members' metadata is decoded, in a thread if the group is large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from muster.assignors.java_order import string_order
from muster.coordinator.groups.classic import rebalance
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.common import kafka_order
from muster.coordinator.groups.common.events import Trigger
from muster.coordinator.groups.common.image import NO_TOPICS, TopicsImage
from muster.coordinator.groups.common.kafka_order import TargetRows
from muster.coordinator.groups.common.refusal import Refused
from muster.coordinator.groups.common.state import Step, tombstones
from muster.coordinator.groups.common.topic_hashes import hash_of_topics
from muster.coordinator.groups.consumer import checks, classic_members, heartbeat, history, records, replay
from muster.coordinator.groups.consumer.commands import ConsumerHeartbeatCommand, UpgradeWanted
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.member import (
    NO_PATTERN,
    NOBODY,
    NOTHING,
    Classic,
    CurrentAssignment,
    Description,
    Position,
    TargetAssignment,
    assigned_since,
    rows_of,
    target_assignment,
)
from muster.coordinator.groups.consumer.member import STABLE as RECONCILED
from muster.coordinator.groups.consumer.topics import check_new_pattern
from muster.coordinator.state_machine.interface import Record
from muster.protocol.consumer import decode_assignment, decode_subscription
from muster.protocol.errors import ErrorCode
from muster.protocol.message import MalformedMessage
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from muster.protocol.messages.sync_group import SyncGroupResponse

CANNOT: Final = "Cannot upgrade classic group {} to consumer group because "
READ_AT_ONCE: Final = 32 * 1024
"""A group with more bytes of members' data is read in a thread. At this limit, the read takes some 5 ms."""
MemberData = tuple[str, bytes, bytes]
"""The data of a classic member: the member id, the metadata for the group's protocol, and the assignment."""
_Subscribed = tuple[str | None, tuple[str, ...]]
"""The rack of a member, and the topics that the member subscribes to, from its metadata."""


class Read(NamedTuple):
    """The decoded data of a member, and the records of the member's target and current assignment."""

    subscribed: _Subscribed
    member_target: TargetAssignment
    rows: TargetRows
    assigned: CurrentAssignment
    target: Record
    current: Record


class Prepared(NamedTuple):
    """The data of a group's members, read in a thread, and valid for this generation and these topics."""

    image: TopicsImage
    generation: int
    members: Mapping[MemberData, Read]


NOTHING_READ: Final = Prepared(NO_TOPICS, -1, MappingProxyType({}))
"""The result when a group could not be read. Then the members are read when the heartbeat is answered."""


class Reader:
    """Decodes the data of members of a classic group, and makes their records. This class changes nothing."""

    def __init__(self, group: ClassicGroup, image: TopicsImage) -> None:
        self._group_id, self._generation, self._by_name = group.group_id, group.generation, image.by_name
        self._known: dict[bytes, _Subscribed] = {}

    def read(self, data: MemberData) -> Read:
        """Decode the data of a member. Raises Refused and MalformedMessage."""
        member_id, metadata, assigned = data
        group_id, epoch = self._group_id, self._generation
        given = self.member_target(assigned)
        member_target, rows = target_assignment(given), kafka_order.read(rows_of(given))
        current = assigned_since(member_target, epoch)
        return Read(
            self._subscribed(metadata),
            member_target,
            rows,
            current,
            records.target(group_id, member_id, rows),
            records.current(group_id, member_id, Position(epoch, epoch, RECONCILED, current, NOTHING)),
        )

    def member_target(self, assigned: bytes) -> Mapping[bytes, Sequence[int]]:
        """A member's partitions by topic id, in the leader's order. Raises the same errors as `read`."""
        member_target: dict[bytes, Sequence[int]] = {}
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
                    member_target[topic.topic_id] = one.partitions
        return member_target

    def _subscribed(self, metadata: bytes) -> _Subscribed:
        # The result is cached, because most members have the same subscription.
        subscribed = self._known.get(metadata)
        if subscribed is None:
            subscription = decode_subscription(metadata)[1]
            subscribed = self._known[metadata] = subscription.rack_id or None, tuple(sorted(set(subscription.topics)))
            if len(subscribed[1]) > checks.MAX_NAMES:
                raise Refused(
                    ErrorCode.GROUP_ID_NOT_FOUND,
                    f"{CANNOT.format(self._group_id)}a member subscribes to more than {checks.MAX_NAMES} topics.",
                )
        return subscribed


def is_large(step: Step, group: ClassicGroup) -> bool:
    """Whether reading the group takes long. False for data that are too large to be read at all."""
    members = group.members.values()
    offered = sum([len(metadata) for one in members for _, metadata in one.protocols])
    data = offered + sum([len(one.assignment) for one in members])
    return data > READ_AT_ONCE and offered <= step.max_bytes


def reading_of(group: ClassicGroup, image: TopicsImage) -> Callable[[], Prepared]:
    """A function for a thread, which reads the present data of the group. Later data are read with the heartbeat."""
    data = [(one.member_id, one.metadata(group.protocol_name), one.assignment) for one in group.members.values()]
    reader, generation = Reader(group, image), group.generation

    def read() -> Prepared:
        members: dict[MemberData, Read] = {}
        with suppress(Refused, MalformedMessage):  # the heartbeat is answered with the same error
            for one in data:
                members[one] = reader.read(one)
        return Prepared(image, generation, members)

    return read


_UPGRADES: Final = ("upgrade", "bidirectional")


class _Row(NamedTuple):
    """A member of the classic group as a member of the consumer group."""

    member_id: str
    description: Description
    read: Read


def heartbeat_to_classic_group(
    step: Step, command: ConsumerHeartbeatCommand, request: ConsumerGroupHeartbeatRequest, group: ClassicGroup
) -> None:
    """Answer a ConsumerGroupHeartbeat to a classic group. A joining member makes the group a consumer group."""
    present: Any = group
    if request.member_epoch == 0 and group.deletion_error():
        helpers = step.state.helpers
        if command.prepared is None and helpers is not None and helpers.read is not None and is_large(step, group):
            step.reply(helpers.read, UpgradeWanted(command, reading_of(group, step.state.image)))
            return
        try:
            checks.check_request(request, command.version, step.state.settings)
            checks.check_names(step, request.subscribed_topic_names or ())
            rows = _members_of(step, group, command.prepared)
            # All checks are made before the conversion, because a refused heartbeat must not convert the group.
            is_known = request.instance_id in group.static_ids
            most = step.state.settings.group_consumer_max_size
            checks.check_size(group.members, request.member_id, most, is_known=is_known)
            check_new_pattern(request.subscribed_topic_regex, command)
            description = heartbeat.describe(NOBODY, request, command.client)
            newcomer_id = request.member_id or command.drawn_id
            present = _upgrade(step, group, rows, records.member_metadata(request.group_id, newcomer_id, description))
        except Refused as refused:
            step.reply(command.respond, ConsumerGroupHeartbeatResponse(0, refused.error, refused.message))
            step.refused(command, request.group_id, refused.error, request.member_id, request.instance_id)
            return
        client = command.client
        newcomer = Trigger(newcomer_id, request.instance_id, client.client_id, client.host, None)
        history.upgraded(step, present, newcomer)
    heartbeat.handle(step, command, request, present)


def _members_of(step: Step, group: ClassicGroup, prepared: Prepared | None) -> list[_Row]:
    """The members of a classic group as members of a consumer group. Raises Refused if a member cannot be converted. As
    on Kafka, parked requests are answered even then.
    """
    settings, no = step.state.settings, CANNOT.format(group.group_id)
    if settings.group_consumer_migration_policy.lower() not in _UPGRADES:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"{no}online upgrade is disabled.")
    if group.protocol_type != "consumer":
        message = f"{no}the group does not use the consumer embedded protocol."
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, message)
    if len(group.members) > settings.group_consumer_max_size:
        message = f"{no}the group size exceeds the consumer group maximum size."
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, message)
    _answer_parked_requests(step, group)
    _check_bytes(step, group)
    ready = NOTHING_READ.members
    if prepared is not None and prepared.image is step.state.image and prepared.generation == group.generation:
        ready = prepared.members
    reader = Reader(group, step.state.image)
    try:
        return [_row(group, member, reader, ready) for member in group.members.values()]
    except MalformedMessage:
        message = f"{no}the embedded consumer protocol is malformed."
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, message) from None


def _answer_parked_requests(step: Step, group: ClassicGroup) -> None:
    error = ErrorCode.REBALANCE_IN_PROGRESS
    for member in group.members.values():
        refusal = rebalance.join_refusal(member.member_id, error)
        rebalance.answer_join(step, group, member, refusal)
        respond, member.parked_sync = member.parked_sync, None
        if respond is not None:
            step.reply(respond, SyncGroupResponse(error_code=error))


def _check_bytes(step: Step, group: ClassicGroup) -> None:
    """Raise Refused, before members are read, if their metadata is too large for a batch. The metadata is a part of the
    batch, beside descriptions and current assignments.
    """
    offered = sum([len(metadata) for one in group.members.values() for _, metadata in one.protocols])
    if offered > step.max_bytes:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)


def _row(group: ClassicGroup, member: Member, reader: Reader, ready: Mapping[MemberData, Read]) -> _Row:
    # a member that has joined since the protocol was chosen; Kafka throws an exception
    if group.protocol_name not in dict(member.protocols):
        reader.member_target(member.assignment)  # Kafka makes this check first
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    data = member.member_id, member.metadata(group.protocol_name), member.assignment
    read = ready.get(data) or reader.read(data)
    rack_id, topics = read.subscribed
    description = Description(
        member.instance_id,
        rack_id,
        member.client_id,
        member.client_host,
        topics,
        NO_PATTERN,
        member.rebalance_timeout_ms,
        None,
        Classic(member.session_timeout_ms, member.protocols),
    )
    return _Row(member.member_id, description, read)


def _in_order(rows: list[_Row]) -> list[_Row]:
    """The order of members when Kafka iterates over the classic group, and then over the new group."""
    by_id = {row.member_id: row for row in rows}
    ids = string_order(by_id) if len(rows) <= kafka_order.MAX_ORDERED else by_id
    return [by_id[one] for one in kafka_order.timeline(ids, kafka_order.slots_for(len(rows)))]


def _upgrade(step: Step, group: ClassicGroup, rows: list[_Row], newcomer: Record) -> ConsumerGroup:
    """Replace a classic group. Raises Refused if the records, and three times `newcomer`, do not fit into a batch."""
    group_id, epoch, rows = group.group_id, group.generation, _in_order(rows)
    names = {name for row in rows for name in row.description.topics}
    metadata_hash = hash_of_topics(names, step.state.image, step.state.settings.broker_rack)
    members = [records.member_metadata(group_id, row.member_id, row.description) for row in rows]
    targets = [row.read.target for row in rows]
    currents = [row.read.current for row in rows]
    gone = tombstones(group)
    if records.is_more_than_fits(step, [*gone, *members, *targets, *currents, *[newcomer] * 3]):
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    step.record_all(gone)
    step.records += members
    for row in rows:
        replay.apply_member(step.state, group_id, row.member_id, row.description)
    step.record(records.group_epoch(group_id, epoch, metadata_hash))
    made = step.state.groups[group_id]  # the record has created the group
    assert isinstance(made, ConsumerGroup)
    replay.record_targets(step, made, targets, [(row.member_id, row.read.member_target, row.read.rows) for row in rows])
    step.record(records.target_epoch(group_id, epoch, 0))
    step.records += currents
    for row in rows:
        position = Position(epoch, epoch, RECONCILED, row.read.assigned, NOTHING)
        replay.apply_position(made, made.members[row.member_id], position)
    for member in made.members.values():
        classic_members.restart_session(step.state, member, step.now.mono_ms)
    return made
