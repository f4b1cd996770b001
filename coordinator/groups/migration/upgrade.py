"""A classic group becomes a consumer group: its members stay, with the generation as their epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from muster.assignors.java_order import string_order
from muster.coordinator.groups.classic import parked_requests
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.common.events import Trigger
from muster.coordinator.groups.common.records import tombstones
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.common.step import Step
from muster.coordinator.groups.consumer import checks, classic_members, heartbeat, history, kafka_order, records, replay
from muster.coordinator.groups.consumer.assignments import NOTHING
from muster.coordinator.groups.consumer.checks import Refused
from muster.coordinator.groups.consumer.commands import ConsumerHeartbeatCommand, UpgradeWanted
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.member import NO_PATTERN, NOBODY, Classic, Description, Position
from muster.coordinator.groups.consumer.states import STABLE as RECONCILED
from muster.coordinator.groups.consumer.topic_hashes import hash_of
from muster.coordinator.groups.migration.reading import (
    CANNOT,
    NOTHING_READ,
    Brought,
    Prepared,
    Read,
    Reader,
    is_large,
    reading_of,
)
from muster.coordinator.state_machine.interface import Record
from muster.protocol.errors import ErrorCode
from muster.protocol.message import MalformedMessage
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from muster.protocol.messages.sync_group import SyncGroupResponse

_UPGRADES: Final = ("upgrade", "bidirectional")


class _Row(NamedTuple):
    """A member of the classic group as a member of the consumer group."""

    member_id: str
    said: Description
    read: Read


def heartbeat_to_classic_group(
    step: Step, command: ConsumerHeartbeatCommand, request: ConsumerGroupHeartbeatRequest, group: ClassicGroup
) -> None:
    """Answer a ConsumerGroupHeartbeat to a classic group: a member that joins makes it a consumer group."""
    present: Any = group
    if request.member_epoch == 0 and group.validate_delete():
        helpers = step.state.helpers
        if command.prepared is None and helpers is not None and helpers.read is not None and is_large(step, group):
            step.reply(helpers.read, UpgradeWanted(command, reading_of(group, step.state.image)))
            return
        try:
            checks.check_request(request, command.version, step.state.settings)
            heartbeat.check_names(step, request.subscribed_topic_names or ())
            rows = _members_of(step, group, command.prepared)
            _check_newcomer(command, request, group, step.state.settings)
            said = heartbeat.describe(NOBODY, request, command.client)
            newcomer_id = request.member_id or command.drawn_id
            present = _upgrade(step, group, rows, records.member_metadata(request.group_id, newcomer_id, said))
        except Refused as refused:
            step.reply(command.respond, ConsumerGroupHeartbeatResponse(0, refused.error, refused.message))
            step.refused(command, request.group_id, refused.error, request.member_id, request.instance_id)
            return
        client = command.client
        newcomer = Trigger(newcomer_id, request.instance_id, client.client_id, client.host, None)
        history.upgraded(step, present, newcomer)
    heartbeat.handle(step, command, request, present)


def _check_newcomer(
    command: ConsumerHeartbeatCommand,
    request: ConsumerGroupHeartbeatRequest,
    group: ClassicGroup,
    settings: GroupSettings,
) -> None:
    """Refuse now what would be refused after the conversion: the group must not be converted then. Raises Refused."""
    most = settings.group_consumer_max_size
    if len(group.members) >= most and request.member_id not in group.members:
        message = f"The consumer group has reached its maximum capacity of {most} members."
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
    if request.subscribed_topic_regex and command.pattern_error is not None:
        message = (
            f"SubscribedTopicRegex `{request.subscribed_topic_regex}` is not a valid regular expression: "
            f"{command.pattern_error}."
        )
        raise Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, message)


def _members_of(step: Step, group: ClassicGroup, prepared: Prepared | None) -> list[_Row]:
    """The members of a classic group as members of a consumer group. Raises Refused when one cannot be converted.

    Parked requests are answered in both cases, as on Kafka.
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
    _tell_to_join_again(step, group)
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


def _tell_to_join_again(step: Step, group: ClassicGroup) -> None:
    error = ErrorCode.REBALANCE_IN_PROGRESS
    for member in group.members.values():
        refusal = parked_requests.join_refusal(member.member_id, error)
        parked_requests.answer_join(step, group, member, refusal)
        respond, member.parked_sync = member.parked_sync, None
        if respond is not None:
            step.reply(respond, SyncGroupResponse(error_code=error))


def _check_bytes(step: Step, group: ClassicGroup) -> None:
    """Refuse members whose records will not fit into a batch, before they are read. Raises Refused.

    Each topic of a subscription is in the batch twice, and three times with the member's current assignment.
    """
    offered = sum([len(metadata) for one in group.members.values() for _, metadata in one.protocols])
    if offered > step.most_bytes:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)


def _row(group: ClassicGroup, member: Member, reader: Reader, ready: Mapping[Brought, Read]) -> _Row:
    # it has joined since that was chosen; as Kafka, which throws an exception
    if group.protocol_name not in dict(member.protocols):
        reader.share(member.assignment)  # but checks this before
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    brought = member.member_id, member.metadata(group.protocol_name), member.assignment
    read = ready.get(brought) or reader.read(brought)
    rack_id, topics = read.subscribed
    said = Description(
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
    return _Row(member.member_id, said, read)


def _in_order(rows: list[_Row]) -> list[_Row]:
    """The order in which Kafka iterates over a classic group, and then over the new one."""
    by_id = {row.member_id: row for row in rows}
    ids = string_order(by_id) if len(rows) <= kafka_order.MOST else by_id
    return [by_id[one] for one in kafka_order.timeline(ids, kafka_order.slots_for(len(rows)))]


def _upgrade(step: Step, group: ClassicGroup, rows: list[_Row], newcomer: Record) -> ConsumerGroup:
    """Replace a classic group by a consumer group: its members stay, with the generation as their epoch.

    Raises Refused when its records and those of the `newcomer` do not fit into a batch. Nothing has changed then.
    """
    group_id, epoch, rows = group.group_id, group.generation, _in_order(rows)
    names = {name for row in rows for name in row.said.topics}
    metadata_hash = hash_of(names, step.state.image, step.state.settings.broker_rack)
    members = [records.member_metadata(group_id, row.member_id, row.said) for row in rows]
    targets = [row.read.target for row in rows]
    currents = [row.read.current for row in rows]
    gone = tombstones(group)
    if records.is_more_than_fits(step, [*gone, *members, *targets, *currents, *[newcomer] * 3]):
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    step.record_all(gone)
    step.records += members
    for row in rows:
        replay.take_member(step.state, group_id, row.member_id, row.said)
    step.record(records.group_epoch(group_id, epoch, metadata_hash))
    made = step.state.groups[group_id]  # also without members: a member had begun to join then
    assert isinstance(made, ConsumerGroup)
    records.record_targets(step, made, targets, [(row.member_id, row.read.share) for row in rows])
    step.record(records.target_epoch(group_id, epoch, 0))
    step.records += currents
    for row in rows:
        at = Position(epoch, epoch, RECONCILED, row.read.held, NOTHING)
        replay.take_current(made, made.members[row.member_id], at)
    for member in made.members.values():
        classic_members.restart_session(step.state, member, step.now.mono_ms)
    return made
