"""Groups that change their protocol while they have members (`group.consumer.migration.policy`).

A classic group becomes a consumer group with the first ConsumerGroupHeartbeat, and a consumer group a classic one when
the last member goes that is not a classic one. One batch of records each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from muster.coordinator.groups.classic import join, parked_requests, rebalance
from muster.coordinator.groups.classic import records as classic_records
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.classic.join_command import JoinCommand
from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.classic.states import STABLE
from muster.coordinator.groups.common.events import Trigger
from muster.coordinator.groups.common.records import tombstones
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.common.step import Step
from muster.coordinator.groups.consumer import checks, classic_members, heartbeat, records, story
from muster.coordinator.groups.consumer.checks import Refused
from muster.coordinator.groups.consumer.commands import ConsumerHeartbeatCommand
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.member import Classic, ConsumerMember, Description, Position
from muster.coordinator.groups.consumer.partitions import NOTHING, Share, held_of, share_of
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
_Row = tuple[str, Description, Share]
"""A member: its id, what it says of itself, and its target."""


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
        try:
            checks.check_request(request, command.version, step.state.settings)
            rows = _members_of(step, group)
            _check_newcomer(command, request, group, step.state.settings)
        except Refused as refused:
            step.reply(command.respond, ConsumerGroupHeartbeatResponse(0, refused.error, refused.message))
            step.refused(command, request.group_id, refused.error, request.member_id, request.instance_id)
            return
        present = _upgrade(step, group, rows)
        client = command.client
        newcomer = Trigger(
            request.member_id or command.drawn_id, request.instance_id, client.client_id, client.host, None
        )
        story.upgraded(step, present, newcomer)
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


def _members_of(step: Step, group: ClassicGroup) -> list[_Row]:
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
    try:
        return [_row(step, group, member) for member in group.members.values()]
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


def _row(step: Step, group: ClassicGroup, member: Member) -> _Row:
    by_name = step.state.image.by_name
    share: dict[bytes, Sequence[int]] = {}
    if member.assignment:
        assignment = decode_assignment(member.assignment)[1]
        if assignment.user_data:
            raise Refused(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"{_NO.format(group.group_id)}an unsupported custom assignor is in use. Please refer to the "
                "documentation or switch to a default assignor before re-attempting the upgrade.",
            )
        for one in assignment.assigned_partitions:
            if one.topic in by_name:
                share[by_name[one.topic].topic_id] = one.partitions
    subscription = decode_subscription(member.metadata(group.protocol_name))[1]
    said = Description(
        member.instance_id,
        subscription.rack_id or None,
        member.client_id,
        member.client_host,
        tuple(sorted(set(subscription.topics))),
        None,
        member.rebalance_timeout_ms,
        None,
        Classic(member.session_timeout_ms, member.protocols),
    )
    return member.member_id, said, share_of(share)


def _upgrade(step: Step, group: ClassicGroup, rows: list[_Row]) -> ConsumerGroup:
    """The consumer group in place of a classic one: its members stay, with the generation as their epoch."""
    group_id, epoch = group.group_id, group.generation
    names = {name for _, said, _ in rows for name in said.topics}
    step.record_all(tombstones(group))
    for member_id, said, _ in rows:
        step.record(records.member_metadata(group_id, member_id, said))
    step.record(records.group_epoch(group_id, epoch, hash_of(names, step.state.image)))
    for member_id, _, share in rows:
        step.record(records.target(group_id, member_id, share))
    step.record(records.target_epoch(group_id, epoch, 0))
    for member_id, _, share in rows:
        held = held_of({topic_id: dict.fromkeys(partitions, epoch) for topic_id, partitions in share})
        step.record(records.current(group_id, member_id, Position(epoch, epoch, RECONCILED, held, NOTHING)))
    made = step.state.groups[group_id]
    assert isinstance(made, ConsumerGroup)
    for member in made.members.values():
        classic_members.restart_session(step.state, member, step.now.mono_ms)
    return made


def downgrade(step: Step, group: ConsumerGroup, leaving: Sequence[ConsumerMember], cause: str) -> bool:
    """These members leave a consumer group: if only classic ones stay it becomes a classic group, which rebalances. If
    nobody leaves, the last other one was replaced: then it is Stable. `cause`: for the history. Whether it did.
    """
    settings, gone = step.state.settings, {one.member_id for one in leaving}
    staying = [one for one in group.members.values() if one.member_id not in gone]
    if (
        not staying
        or any(one.said.classic is None for one in staying)
        or settings.group_consumer_migration_policy.lower() not in _DOWNGRADES
        or len(staying) > settings.group_max_size
    ):
        return False
    made = ClassicGroup(group.group_id, step.now.wall_ms)
    made.state, made.generation, made.protocol_type = STABLE, group.epoch, group.protocol_type
    image = step.state.image
    for one in staying:
        said = one.said
        assert said.classic is not None
        target = held_of({row[0]: dict.fromkeys(row[1], 0) for row in group.targets.get(one.member_id, NOTHING)})
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
                classic_members.encoded(said, target, image),
            )
        )
    made.protocol_name = made.vote()
    step.record_all(tombstones(group))
    step.state.groups[group.group_id] = made
    step.record(classic_records.group_metadata(made))
    made.note_subscriptions()
    for member in made.members.values():
        parked_requests.restart_session(step, member)
    trigger = story.trigger(leaving[0].member_id, leaving[0]) if leaving else None
    story.downgraded(step, group, len(staying), cause, trigger)
    if leaving:
        rebalance.begin(step, made, cause, trigger)
    return True
