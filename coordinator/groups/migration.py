"""Groups that change their protocol while they have members (`group.consumer.migration.policy`).

A classic group becomes a consumer group with the first ConsumerGroupHeartbeat, and a consumer group a classic one when
the last member goes that is not a classic one. One batch of records each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from muster.assignors.java_order import string_order
from muster.coordinator.core.interface import Record
from muster.coordinator.groups.classic import join, parked_requests, rebalance
from muster.coordinator.groups.classic import records as classic_records
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.classic.join_command import JoinCommand
from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.classic.states import STABLE
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Trigger
from muster.coordinator.groups.common.image import NO_TOPICS, TopicsImage
from muster.coordinator.groups.common.records import tombstone, tombstones
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.common.step import Step
from muster.coordinator.groups.consumer import checks, classic_members, heartbeat, history, kafka_order, records, replay
from muster.coordinator.groups.consumer.checks import Refused
from muster.coordinator.groups.consumer.commands import (
    ConsumerHeartbeatCommand,
    Downgrade,
    Joined,
    UpgradeWanted,
)
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.member import (
    NO_PATTERN,
    NOBODY,
    Classic,
    ConsumerMember,
    Description,
    Position,
    trigger_of,
)
from muster.coordinator.groups.consumer.partitions import NOTHING, Held, Share, all_held, share_of
from muster.coordinator.groups.consumer.states import STABLE as RECONCILED
from muster.coordinator.groups.consumer.topic_hashes import hash_of
from muster.protocol.consumer import decode_assignment, decode_subscription
from muster.protocol.errors import ErrorCode
from muster.protocol.message import MalformedMessage
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from muster.protocol.messages.join_group import JoinGroupRequest
from muster.protocol.messages.sync_group import SyncGroupResponse

_UPGRADES: Final = ("upgrade", "bidirectional")
_DOWNGRADES: Final = ("downgrade", "bidirectional")
_NO: Final = "Cannot upgrade classic group {} to consumer group because "
READ_AT_ONCE: Final = 32 * 1024
"""Bytes that the members of a classic group have brought that are read on the event loop: some 5 ms."""
_Said = tuple[str, bytes, bytes]
"""What a member has brought: its id, its metadata of the group's protocol, and its assignment."""
_Subscribed = tuple[str | None, tuple[str, ...]]
"""Of a member's metadata: its rack, and the topics that it subscribes to."""


class _Read(NamedTuple):
    """What was read of a member: its subscription, its target, what it has, and the records of these two."""

    subscribed: _Subscribed
    share: Share
    held: Held
    target: Record
    current: Record


class _Row(NamedTuple):
    """A member as one of the consumer group."""

    member_id: str
    said: Description
    read: _Read


class _Prepared(NamedTuple):
    """What was read of the members of a group apart from the event loop, with these topics, in this generation."""

    image: TopicsImage
    generation: int
    members: Mapping[_Said, _Read]


NOTHING_READ: Final = _Prepared(NO_TOPICS, -1, MappingProxyType({}))
"""When a group could not be read: its members are read when the heartbeat is answered."""


def join_consumer_group(step: Step, command: JoinCommand, request: JoinGroupRequest, group: ConsumerGroup) -> None:
    """Answer a JoinGroup to a consumer group: one without members becomes a classic one."""
    if group.members and not join.request_error(step, request):
        classic_members.join(step, command, request, group)  # type: ignore[arg-type]
    else:
        join.create_group(step, command, request, group)


def heartbeat_to_classic_group(
    step: Step, command: ConsumerHeartbeatCommand, request: ConsumerGroupHeartbeatRequest, group: ClassicGroup
) -> None:
    """Answer a ConsumerGroupHeartbeat to a classic group: who joins makes it a consumer group."""
    present: Any = group
    if request.member_epoch == 0 and group.validate_delete():
        helpers = step.state.helpers
        if command.prepared is None and helpers is not None and helpers.read is not None and _is_large(step, group):
            step.reply(helpers.read, UpgradeWanted(command, _reading(group, step.state.image)))
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
    """What would be refused once the group is converted: then it must not be. Raises Refused."""
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


def _members_of(step: Step, group: ClassicGroup, prepared: _Prepared | None) -> list[_Row]:
    """The members of a classic group as those of a consumer group. Raises Refused when they cannot be that; then
    requests that are parked are answered all the same, as on Kafka.
    """
    settings, no = step.state.settings, _NO.format(group.group_id)
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
    reader = _Reader(group, step.state.image)
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
    """What will have no room in a batch is not read at all: each topic of a subscription stands there twice, and three
    times with what the member has of it. Raises Refused.
    """
    offered = sum([len(metadata) for one in group.members.values() for _, metadata in one.protocols])
    if offered > step.most_bytes:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)


def _row(group: ClassicGroup, member: Member, reader: _Reader, ready: Mapping[_Said, _Read]) -> _Row:
    if group.protocol_name not in dict(member.protocols):  # it has joined since that was chosen; as Kafka, which trips
        reader.share(member.assignment)  # but looks at this before
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


class _Reader:
    """Reads what members of a classic group have brought, and makes the records of it; changes nothing."""

    def __init__(self, group: ClassicGroup, image: TopicsImage) -> None:
        self._group_id, self._generation, self._by_name = group.group_id, group.generation, image.by_name
        self._known: dict[bytes, _Subscribed] = {}

    def read(self, brought: _Said) -> _Read:
        """Raises Refused and MalformedMessage."""
        member_id, metadata, assigned = brought
        group_id, epoch = self._group_id, self._generation
        share = self.share(assigned)
        held = all_held(share, epoch)
        return _Read(
            self._subscribed(metadata),
            share,
            held,
            records.target(group_id, member_id, share),
            records.current(group_id, member_id, Position(epoch, epoch, RECONCILED, held, NOTHING)),
        )

    def share(self, assigned: bytes) -> Share:
        """A member's partitions, by topic id. Raises as `read`."""
        share: dict[bytes, Sequence[int]] = {}
        if assigned:
            assignment = decode_assignment(assigned)[1]
            if assignment.user_data:
                raise Refused(
                    ErrorCode.GROUP_ID_NOT_FOUND,
                    f"{_NO.format(self._group_id)}an unsupported custom assignor is in use. Please refer to the "
                    "documentation or switch to a default assignor before re-attempting the upgrade.",
                )
            for one in assignment.assigned_partitions:
                topic = self._by_name.get(one.topic)
                if topic is not None:
                    share[topic.topic_id] = one.partitions
        return share_of(share)

    def _subscribed(self, metadata: bytes) -> _Subscribed:
        # most members have the same
        subscribed = self._known.get(metadata)
        if subscribed is None:
            subscription = decode_subscription(metadata)[1]
            subscribed = self._known[metadata] = subscription.rack_id or None, tuple(sorted(set(subscription.topics)))
            if len(subscribed[1]) > heartbeat.MOST_NAMES:
                raise Refused(
                    ErrorCode.GROUP_ID_NOT_FOUND,
                    f"{_NO.format(self._group_id)}a member subscribes to more than {heartbeat.MOST_NAMES} topics.",
                )
        return subscribed


def _is_large(step: Step, group: ClassicGroup) -> bool:
    """Whether it takes long to read what its members have brought; not if that is too much to be read at all."""
    members = group.members.values()
    offered = sum([len(metadata) for one in members for _, metadata in one.protocols])
    brought = offered + sum([len(one.assignment) for one in members])
    return brought > READ_AT_ONCE and offered <= step.most_bytes


def _reading(group: ClassicGroup, image: TopicsImage) -> Callable[[], _Prepared]:
    """Reads the group as it is now, in a thread. What its members bring meanwhile is read afterwards, at once."""
    brought = [(one.member_id, one.metadata(group.protocol_name), one.assignment) for one in group.members.values()]
    reader, generation = _Reader(group, image), group.generation

    def read() -> _Prepared:
        members: dict[_Said, _Read] = {}
        with suppress(Refused, MalformedMessage):  # that is found again where it can be answered
            for one in brought:
                members[one] = reader.read(one)
        return _Prepared(image, generation, members)

    return read


def _in_order(rows: list[_Row]) -> list[_Row]:
    """As Kafka goes through a classic group, and then through the new one."""
    by_id = {row.member_id: row for row in rows}
    ids = string_order(by_id) if len(rows) <= kafka_order.MOST else by_id
    return [by_id[one] for one in kafka_order.timeline(ids, kafka_order.slots_for(len(rows)))]


def _upgrade(step: Step, group: ClassicGroup, rows: list[_Row], newcomer: Record) -> ConsumerGroup:
    """The consumer group in place of a classic one: its members stay, with the generation as their epoch. Raises
    Refused when its records have no room in a batch, with those of the `newcomer`: then nothing has changed.
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
    made = step.state.groups[group_id]  # also without members: then somebody had begun to join
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


def _may_downgrade(step: Step, group: ConsumerGroup, going: Sequence[ConsumerMember], joining: int = 0) -> bool:
    """Whether only classic members stay in a consumer group when these go and so many come, and it may be a classic
    group then.
    """
    settings, gone = step.state.settings, {one.member_id for one in going}
    staying = [one for one in group.members.values() if one.member_id not in gone]
    return (
        len(staying) + joining > 0
        and all(one.said.classic is not None for one in staying)
        and settings.group_consumer_migration_policy.lower() in _DOWNGRADES
        and len(staying) + joining <= settings.group_max_size
    )


def _downgrade_after_leave(step: Step, group: ConsumerGroup, leaving: Sequence[ConsumerMember], cause: str) -> None:
    gone = {one.member_id for one in leaving}
    staying = [group.members[one] for one in group.member_ids() if one not in gone]
    made = _classic_group(step, group, staying, group.epoch)
    first = staying[0].said.classic
    assert first is not None
    # for the history: what those had that the rebalance takes the place of
    image, metadata = step.state.image, first.protocols[0][1]
    made.departed = {one.member_id: classic_members.encoded(metadata, one.at.assigned, image) for one in leaving}
    _replace(step, made, tombstones(group))
    trigger = trigger_of(leaving[0].member_id, leaving[0])
    history.downgraded(step, group, len(staying), cause, trigger)
    rebalance.begin(step, made, cause, trigger)


def _downgrade_after_join(step: Step, group: ConsumerGroup, joined: Joined) -> None:
    joiner = group.members[joined.member_id]
    staying = [group.members[one] for one in joined.member_ids if one != joined.replaced_id]
    made = _classic_group(step, group, [*staying, joiner], joined.epoch)
    names = {joined.replaced_id: joined.member_id}
    keys = group.record_keys([names.get(one, one) for one in joined.member_ids])
    _replace(step, made, [tombstone(key) for key in keys])
    history.downgraded(step, group, len(made.members), events.STATIC_MEMBER_BACK, None)
    if joined.is_stale:
        rebalance.begin(step, made, events.STATIC_MEMBER_BACK, trigger_of(joiner.member_id, joiner))


DOWNGRADE: Final = Downgrade(_may_downgrade, _downgrade_after_leave, _downgrade_after_join)


def _classic_group(
    step: Step, group: ConsumerGroup, members: Sequence[ConsumerMember], generation: int
) -> ClassicGroup:
    """The classic group of these members; each is assigned its target."""
    made = ClassicGroup(group.group_id, step.now.wall_ms)
    made.state, made.generation, made.protocol_type = STABLE, generation, group.protocol_type
    for one in members:
        said = one.said
        assert said.classic is not None
        made.add(
            Member(
                group.group_id,
                one.member_id,
                said.instance_id,
                said.client_id,
                said.client_host,
                said.rebalance_timeout_ms,
                said.classic.session_timeout_ms,
                said.classic.protocols,
                b"",
            )
        )
    made.protocol_name = made.vote()
    for one in members:
        target = all_held(group.targets.get(one.member_id, NOTHING), 0)
        member = made.members[one.member_id]
        member.assignment = classic_members.encoded(member.metadata(made.protocol_name), target, step.state.image)
    return made


def _replace(step: Step, made: ClassicGroup, removed: list[Record]) -> None:
    step.record_all(removed)
    step.state.groups[made.group_id] = made
    step.record(classic_records.group_metadata(made))
    made.note_subscriptions()
    for member in made.members.values():
        parked_requests.restart_session(step, member)
