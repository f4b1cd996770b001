"""Members of a consumer group that use the classic protocol: their JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

The generation of such a member is its epoch. The server makes the assignment, so no member is a leader. A member is
asked to join again when its assignment or epoch changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.refusal import Refused
from muster.coordinator.groups.common.state import State, Step
from muster.coordinator.groups.consumer import (
    checks,
    heartbeat,
    history,
    leave,
    reconcile,
    records,
    replay,
    target,
    topics,
)
from muster.coordinator.groups.consumer.commands import Joined
from muster.coordinator.groups.consumer.group import CONSUMER, ConsumerGroup, is_free
from muster.coordinator.groups.consumer.member import (
    JOIN,
    NO_PATTERN,
    NOBODY,
    NOTHING,
    SYNC,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    Classic,
    ConsumerMember,
    CurrentAssignment,
    Description,
    bare_id,
    start_timer,
    start_timer_if_absent,
    stop_timer,
)
from muster.coordinator.state_machine.interface import Client, Respond
from muster.protocol.consumer import decode_subscription, encode_assignment
from muster.protocol.errors import ErrorCode
from muster.protocol.message import MalformedMessage
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from muster.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from muster.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class _Join(Protocol):
    """The fields of `classic.join.JoinCommand`: a JoinGroup as the core gets it."""

    request: JoinGroupRequest
    respond: Respond
    client: Client
    drawn_id: str
    requires_known_member_id: bool


def join(step: Step, command: _Join, request: JoinGroupRequest, group: ConsumerGroup) -> None:
    """Answer a JoinGroup to a consumer group. The JoinGroup is never parked."""
    member_id = request.member_id or bare_id(command.drawn_id)
    try:
        response = _join(step, command, request, group, member_id)
    except Refused as refused:
        response = JoinGroupResponse(error_code=refused.error, protocol_name=None)
        step.refused(command, request.group_id, refused.error, member_id, request.group_instance_id)  # type: ignore[arg-type]  # a JoinCommand, which only `classic` names
    step.reply(command.respond, response)


def _join(
    step: Step, command: _Join, request: JoinGroupRequest, group: ConsumerGroup, member_id: str
) -> JoinGroupResponse:
    instance_id = request.group_instance_id
    is_known = instance_id in group.static_ids
    checks.check_size(group.members, member_id, step.state.settings.group_consumer_max_size, is_known=is_known)
    offered = step.state.shared.protocols([(one.name, one.metadata) for one in request.protocols])
    is_disabled = step.state.settings.group_consumer_migration_policy.lower() == "disabled"  # refuses since Kafka 4.4
    if is_disabled or not _supports(group, request.protocol_type, [name for name, _ in offered]):
        message = f"Member {member_id}'s protocols are not supported."
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
    if command.requires_known_member_id and not request.member_id and instance_id is None:
        return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, protocol_name=None, member_id=member_id)
    replaced, member = None, group.members.get(member_id)
    there = None
    if instance_id is not None:
        there = group.static_member(instance_id)
        if not request.member_id:
            replaced, member = there, None if there is not None else member
        else:
            member = checks.known_member(group, member_id, instance_id)
    is_new_here = member is None
    size = checks.check_bytes(step, offered)
    subscription = _subscription(offered[0][1])
    checks.check_names(step, subscription.topics, size)
    one = member or replaced
    before = NOBODY if one is None else one.description
    description = Description(
        before.instance_id if instance_id is None else instance_id,
        subscription.rack_id or before.rack_id,
        command.client.client_id,
        command.client.host,
        tuple(sorted(set(subscription.topics))),
        NO_PATTERN,
        before.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        before.assignor,
        Classic(request.session_timeout_ms, offered),
    )
    is_alike = group.is_alike
    checks.check_fits(step, records.member_metadata(group.group_id, member_id, description))
    downgrade = step.state.downgrade
    is_last = there is not None and before.classic is None and downgrade.is_allowed(step, group, [there], 1)
    member_ids, group_epoch = group.member_ids() if is_last else (), group.epoch
    if replaced is not None:
        heartbeat.replace(step, group, replaced, member_id)
    if description != before:
        replay.record_member(step, group.group_id, member_id, description)
    member = group.members[member_id]
    cause = events.SUBSCRIPTION_CHANGED
    if one is None:
        cause = events.NEW_MEMBER
        history.joined(step, group, member, request.reason)
    has_news = heartbeat.are_topics_others(step, group, before)
    is_pattern_new, _ = topics.update_patterns(step, group, before, description, command.client)
    is_new = description.topics != before.topics or is_pattern_new
    heartbeat.refresh(step, group, bump=is_new, has_news=has_news, cause=cause, member=member)
    if group.epoch != group_epoch:
        is_alike = group.counts_alike()
    if not is_last:
        target.bring_up_to_date(
            step, group, description.assignor, member_id if is_new_here else None, is_alike=is_alike
        )
    is_stale = is_last and group.assignment_epoch < group.epoch
    if not is_stale:
        owned = ConsumerGroupHeartbeatRequest(topic_partitions=_owned(subscription, step.state.image))
        reconcile.maybe_reconcile(step, group, member, owned, is_subscription_new=is_new)
    epoch = member.position.epoch
    if is_last:
        replaced_id = member_id if there is None else there.member_id
        downgrade.after_join(step, group, Joined(member_id, replaced_id, member_ids, group_epoch, is_stale))
    else:
        deadlines = step.state.deadlines
        stop_timer(deadlines, member, JOIN)
        restart_session(step.state, member, step.now.mono_ms)
        start_timer(deadlines, member, SYNC, step.now.mono_ms + request.rebalance_timeout_ms)
    return JoinGroupResponse(0, 0, epoch, CONSUMER, offered[0][0], "", False, member_id)


def _supports(group: ConsumerGroup, protocol_type: str, names: Sequence[str]) -> bool:
    """Whether the sender is a consumer, and offers a protocol that all classic members offer."""
    if protocol_type != CONSUMER or not names:
        return False
    offered = [
        one.description.classic.protocols for one in group.members.values() if one.description.classic is not None
    ]
    return any(all(name in dict(protocols) for protocols in offered) for name in names)


def _subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    try:
        return decode_subscription(metadata)[1]
    except MalformedMessage:
        message = "Malformed embedded consumer protocol in subscription deserialization."
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message) from None


def _owned(
    subscription: ConsumerProtocolSubscription, image: TopicsImage
) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
    by_name = image.by_name
    return [
        ConsumerGroupHeartbeatRequestTopicPartitions(by_name[one.topic].topic_id, one.partitions)
        for one in subscription.owned_partitions
        if one.topic in by_name
    ]


def sync(step: Step, command: _Join, request: SyncGroupRequest, group: ConsumerGroup) -> None:
    """Answer a SyncGroup with the partitions that the member may own now."""
    try:
        member = _classic_member(group, request.member_id, request.group_instance_id)
        classic = member.description.classic
        assert classic is not None
        if member.position.epoch != request.generation_id:
            raise Refused(ErrorCode.ILLEGAL_GENERATION, "")
        kind, name = request.protocol_type, request.protocol_name
        if kind not in (None, CONSUMER) or name not in (None, classic.protocols[0][0]):
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
        if group.assignment_epoch > member.position.epoch and member.position.state != UNREVOKED_PARTITIONS:
            _expect_join(step.state, member, step.now.mono_ms)
            raise Refused(ErrorCode.REBALANCE_IN_PROGRESS, "")
    except Refused as refused:
        step.reply(command.respond, SyncGroupResponse(error_code=refused.error))
        return
    stop_timer(step.state.deadlines, member, SYNC)
    restart_session(step.state, member, step.now.mono_ms)
    assignment = assignment_of(member, step.state.image)
    step.reply(command.respond, SyncGroupResponse(0, 0, kind, name, assignment))


def assignment_of(member: ConsumerMember, image: TopicsImage) -> bytes:
    """The partitions of a classic member as an encoded assignment, in the version of the member's subscription."""
    assert member.description.classic is not None
    return encoded(member.description.classic.protocols[0][1], member.position.assigned, image)


def encoded(metadata: bytes, current: CurrentAssignment, image: TopicsImage) -> bytes:
    """These partitions as a leader would encode them for a member whose subscription is `metadata`."""
    version = decode_subscription(metadata)[0]
    rows = [
        ConsumerProtocolAssignmentTopicPartition(image.by_id[topic_id].name, list(partitions))
        for topic_id, partitions, _ in current
        if topic_id in image.by_id
    ]
    return encode_assignment(ConsumerProtocolAssignment(rows, None), min(version, 3))


def beat(state: State, request: HeartbeatRequest, mono_ms: int, group: ConsumerGroup) -> HeartbeatResponse:
    """Answer a Heartbeat: REBALANCE_IN_PROGRESS when the member has to join again."""
    try:
        member = _classic_member(group, request.member_id, request.group_instance_id)
    except Refused as refused:
        return HeartbeatResponse(0, refused.error)
    position = member.position
    if position.epoch != request.generation_id:
        return HeartbeatResponse(0, ErrorCode.ILLEGAL_GENERATION)
    restart_session(state, member, mono_ms)
    is_behind = position.epoch < group.assignment_epoch or position.state == UNREVOKED_PARTITIONS
    if is_behind or (position.state == UNRELEASED_PARTITIONS and _is_released(group, member)):
        _expect_join(state, member, mono_ms)
        return HeartbeatResponse(0, ErrorCode.REBALANCE_IN_PROGRESS)
    return HeartbeatResponse(0, 0)


def _is_released(group: ConsumerGroup, member: ConsumerMember) -> bool:
    return all(
        is_free(group, topic_id, partition, member.member_id)
        for topic_id, partitions in group.targets.get(member.member_id, NOTHING)
        for partition in partitions
    )


def leave_group(step: Step, command: _Join, request: LeaveGroupRequest, group: ConsumerGroup) -> None:
    """Answer a LeaveGroup. As on Kafka 4.4 the request may remove members of both protocols."""
    rows: list[MemberResponse] = []
    leaving: dict[str, ConsumerMember] = {}
    for one in request.members:
        error = _leaving(group, one, leaving)
        rows.append(MemberResponse(one.member_id, one.group_instance_id, error))
    if leaving:
        ids = {one.group_instance_id or one.member_id: one.reason for one in request.members}
        reasons = {one.member_id: ids.get(one.description.instance_id or one.member_id) for one in leaving.values()}
        leave.remove(step, group, list(leaving.values()), events.LEFT, reasons)
    step.reply(command.respond, LeaveGroupResponse(members=rows))


def _leaving(group: ConsumerGroup, one: MemberIdentity, leaving: dict[str, ConsumerMember]) -> int:
    try:
        member_id, instance_id = one.member_id, one.group_instance_id
        static_member = None if instance_id is None else group.static_member(instance_id)
        if static_member is not None and not member_id:
            member_id = static_member.member_id
        member = checks.known_member(group, member_id, instance_id)
    except Refused as refused:
        return refused.error
    leaving[member.member_id] = member
    return 0


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    member = checks.known_member(group, member_id, instance_id)
    if member.description.classic is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    return member


def restart_session(state: State, member: ConsumerMember, mono_ms: int) -> None:
    """Begin the session of a classic member again, with its own session timeout, because it has sent a request."""
    assert member.description.classic is not None
    state.deadlines.set(member, mono_ms + member.description.classic.session_timeout_ms)


def _expect_join(state: State, member: ConsumerMember, mono_ms: int) -> None:
    """Start the timer for a classic member to join again, unless the timer runs since an earlier answer."""
    start_timer_if_absent(state.deadlines, member, JOIN, mono_ms + member.description.rebalance_timeout_ms)
