"""ConsumerGroupHeartbeat: a member joins, stays, changes its subscription, follows its target, or leaves.

`SteadyMember` answers nearly all heartbeats: from members at their targets, in groups without changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import intern
from typing import NamedTuple

from muster.coordinator.groups.common import events, kafka_order
from muster.coordinator.groups.common.group import Group
from muster.coordinator.groups.common.refusal import Refused
from muster.coordinator.groups.common.state import State, Step, tombstones
from muster.coordinator.groups.common.topic_hashes import existing_names, has_same_hash
from muster.coordinator.groups.consumer import checks, history, leave, reconcile, records, replay, target, topics
from muster.coordinator.groups.consumer.commands import ConsumerHeartbeatCommand
from muster.coordinator.groups.consumer.group import ConsumerGroup, consumer_group
from muster.coordinator.groups.consumer.member import (
    LEAVE_GROUP_MEMBER_EPOCH,
    NOBODY,
    START,
    ConsumerMember,
    CurrentAssignment,
    Description,
    same_partitions,
    trigger_of,
)
from muster.coordinator.groups.consumer.records import FEW_TOPICS, LaterRows
from muster.coordinator.groups.consumer.topics import group_hash
from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.state_machine.interface import Client
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)


def handle(
    step: Step, command: ConsumerHeartbeatCommand, request: ConsumerGroupHeartbeatRequest, group: Group | None
) -> None:
    """Answer a ConsumerGroupHeartbeat."""
    try:
        checks.check_request(request, command.version, step.state.settings)
        response: ConsumerGroupHeartbeatResponse | None
        if request.member_epoch <= LEAVE_GROUP_MEMBER_EPOCH:
            response = leave.answer(step, request, group)
        else:
            response = _beat(step, command, request, group)
    except Refused as refused:
        response = ConsumerGroupHeartbeatResponse(0, refused.error, refused.message)
        step.refused(command, request.group_id, refused.error, request.member_id, request.instance_id)
    if response is not None:
        step.reply(command.respond, response)


class _Sender(NamedTuple):
    """The sender of a heartbeat: a member (None if it is new), and the static member that this sender replaces."""

    member_id: str
    member: ConsumerMember | None
    replaced: ConsumerMember | None

    @property
    def description(self) -> Description:
        """The description of the sender before this request, or of the member that the sender replaces."""
        one = self.member or self.replaced
        return NOBODY if one is None else one.description


def _beat(
    step: Step, command: ConsumerHeartbeatCommand, request: ConsumerGroupHeartbeatRequest, present: Group | None
) -> ConsumerGroupHeartbeatResponse | None:
    group = _group(present, request)
    sender = _sender(group, command, request, step.state.settings.group_consumer_max_size)
    before, is_alike = sender.description, group.is_alike
    assignor = target.preferred_assignor(group, step.state.settings)
    checks.check_names(step, request.subscribed_topic_names or ())
    description = describe(before, request, command.client)
    position = START if sender.member is None else sender.member.position
    owned = request.topic_partitions
    if description is not before:
        topics.check_pattern(group, before, description, command)
    reconcile.check_known_state(position, owned)
    if description is not before:
        checks.check_fits(step, records.member_metadata(request.group_id, sender.member_id, description))
    # After this line no request is refused.
    if present is not group:
        if present is not None:  # a consumer group replaces an Empty classic group
            step.record_all(tombstones(present))
        step.event(events.GROUP_CREATED, request.group_id)
    if sender.replaced is not None:
        replace(step, group, sender.replaced, sender.member_id)
    if description is not before:
        replay.record_member(step, request.group_id, sender.member_id, description)
    recorded = consumer_group(step.state, request.group_id)
    assert recorded is not None
    group, member = recorded, recorded.members[sender.member_id]
    has_news = are_topics_others(step, group, before)
    is_pattern_new, is_known = topics.update_patterns(step, group, before, description, command.client)
    is_subscription_new = description.topics != before.topics
    # Since Kafka 4.4 another preferred assignor is a reason for a new epoch.
    is_assignor_new = target.preferred_assignor(group, step.state.settings, description.assignor) != assignor
    is_new = sender.member is sender.replaced is None
    if is_new:
        history.joined(step, group, member)
    cause = events.NEW_MEMBER if is_new else events.SUBSCRIPTION_CHANGED
    epoch = group.epoch
    bump = is_subscription_new or is_known or is_assignor_new
    refresh(step, group, bump=bump, has_news=has_news, cause=cause, member=member)
    if group.epoch != epoch:
        is_alike = group.counts_alike()
    newcomer = None if sender.member is not None else sender.member_id
    target.bring_up_to_date(step, group, description.assignor, newcomer, is_alike=is_alike)
    had = member.position.assigned
    restart_session(step, member)
    if group.failed_epoch == group.epoch > group.assignment_epoch and member.position.epoch:
        # The assignor has failed. If the assignment interval was over, the assignor has been called again.
        return ConsumerGroupHeartbeatResponse(0, ErrorCode.UNKNOWN_SERVER_ERROR)
    reconcile.maybe_reconcile(step, group, member, request, is_subscription_new=is_subscription_new or is_pattern_new)
    if not member.position.epoch:
        if not group.computing_epoch:  # The first targets do not fit into a batch.
            leave.forget(step, group, [member])
            return leave.no_targets()
        group.waiting.append(command)
        return None
    return response_to(step, request, member, had)


def restart_session(step: Step, member: ConsumerMember) -> None:
    """Begin the member's session again, because the member has sent a heartbeat."""
    state = step.state
    state.deadlines.set(member, step.now.mono_ms + state.configs.of(member.group_id).session_timeout_ms)


def response_to(
    step: Step, request: ConsumerGroupHeartbeatRequest, member: ConsumerMember, had: CurrentAssignment
) -> ConsumerGroupHeartbeatResponse:
    """The answer to a member. The answer has the member's partitions if the member may not know them."""
    position = member.position
    is_full = (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )
    assignment = None
    if not request.member_epoch or is_full or not same_partitions(had, position.assigned):
        assignment = Assignment(_rows(position.assigned))
    interval_ms = step.state.configs.of(request.group_id).heartbeat_interval_ms
    return ConsumerGroupHeartbeatResponse(0, 0, None, member.member_id, position.epoch, interval_ms, assignment)


def _rows(current: CurrentAssignment) -> Sequence[ConsumerGroupHeartbeatResponseTopicPartitions]:
    if len(current) > FEW_TOPICS:  # rows are made while they are encoded
        return LaterRows(_row, current)
    return [ConsumerGroupHeartbeatResponseTopicPartitions(row[0], row[1]) for row in current]


def _row(topic_id: bytes, partitions: Sequence[int], _: object) -> ConsumerGroupHeartbeatResponseTopicPartitions:
    return ConsumerGroupHeartbeatResponseTopicPartitions(topic_id, partitions)


def _group(present: Group | None, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroup:
    if isinstance(present, ConsumerGroup):
        return present
    is_joining = request.member_epoch == 0
    group_id = request.group_id
    if present is None:
        if not is_joining:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
    elif not is_joining or present.kind != "classic" or present.deletion_error():
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    return ConsumerGroup(intern(group_id))


def _sender(
    group: ConsumerGroup, command: ConsumerHeartbeatCommand, request: ConsumerGroupHeartbeatRequest, most: int
) -> _Sender:
    member_id, instance_id, epoch = request.member_id or command.drawn_id, request.instance_id, request.member_epoch
    checks.check_size(group.members, request.member_id, most, is_known=instance_id in group.static_ids)
    if epoch == 0:
        there = None if instance_id is None else group.static_member(instance_id)
        if there is None:
            return _Sender(member_id, group.members.get(member_id), None)
        if there.description.classic is None:
            checks.check_released(there, member_id, instance_id or "")
        return _Sender(member_id, None, there)
    member = checks.known_member(group, member_id, instance_id)
    checks.check_epoch(member, epoch, request.topic_partitions)
    return _Sender(member_id, member, None)


def describe(before: Description, request: ConsumerGroupHeartbeatRequest, client: Client) -> Description:
    """The member's description after this request, `before` if nothing changes. Fields that are not sent stay."""
    names = request.subscribed_topic_names
    pattern, timeout_ms = request.subscribed_topic_regex, request.rebalance_timeout_ms
    if (
        names is None
        and timeout_ms == -1
        and pattern is request.rack_id is request.server_assignor is None
        and request.instance_id in (None, before.instance_id)
        and before.client_id == client.client_id
        and before.client_host == client.host
        and before.classic is None
    ):
        return before  # nearly every heartbeat changes no field
    description = Description(
        before.instance_id if request.instance_id is None else request.instance_id,
        before.rack_id if request.rack_id is None else request.rack_id,
        client.client_id,
        client.host,
        before.topics if names is None else tuple(sorted(set(names))),
        before.pattern if pattern is None else pattern,
        before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        before.assignor if request.server_assignor is None else request.server_assignor,
        None,
    )
    return before if description == before else description


def replace(step: Step, group: ConsumerGroup, old: ConsumerMember, member_id: str) -> None:
    """Give a static member a new id. The member begins at epoch 0 with its old partitions."""
    group_id, rows = group.group_id, kafka_order.read(group.target_rows(old.member_id))
    description, position = old.description, old.position._replace(epoch=0, previous_epoch=0)
    step.record_all(records.member_removed(group_id, old.member_id))
    step.record(records.member_metadata(group_id, member_id, description))
    step.record(records.target(group_id, member_id, rows))
    step.record(records.current(group_id, member_id, position))
    history.replaced(step, group, old, group.members[member_id])


def are_topics_others(step: Step, group: ConsumerGroup, before: Description) -> bool:
    """Whether a topic of the group has changed; `before`: the description of the sender before this request. The result
    is also True if the topics were not compared yet. Call this function before `update_patterns`.
    """
    image, known = step.state.image, group.hashed_topics
    if group.hashed_version == image.version:
        return False
    if known is None:
        return True
    now, then = image.by_name, known
    for names in (group.names, () if before.topics in group.subscriptions else before.topics):
        for name in {*existing_names(names, now), *existing_names(names, then)}:
            if now.get(name) is not then.get(name) and not has_same_hash(now.get(name), then.get(name)):
                return True
    group.hashed_version, group.hashed_topics = image.version, image.by_name
    return False


def refresh(
    step: Step, group: ConsumerGroup, *, bump: bool, has_news: bool, cause: str, member: ConsumerMember
) -> None:
    """Give the group a new epoch, if its subscriptions (`bump`, with cause and member) or its topics have changed.

    As on Kafka the hash is compared only if topics may have changed. So the hash still contains the topics of a
    forgotten pattern.
    """
    if not bump and not has_news:
        return
    version = step.state.image.version
    metadata_hash = group_hash(group, step.state.image, step.state.settings.broker_rack)
    if bump or metadata_hash != group.metadata_hash:
        before = group.state_before(int(cause == events.NEW_MEMBER))
        step.record(records.group_epoch(group.group_id, group.epoch + 1, metadata_hash))
        if bump:
            history.epoch_bumped(step, group, cause, trigger_of(member.member_id, member), state=before)
        else:
            history.epoch_bumped(step, group, events.TOPICS_CHANGED, before=group.hashed_topics, state=before)
    if group.has_partition_metadata:
        step.record(records.no_partition_metadata(group.group_id))
    group.hashed_version, group.hashed_topics = version, step.state.image.by_name


class SteadyMember:
    """Answers equal heartbeats of one member in one position: a part of `handle`, without look-ups.

    A test compares `SteadyMember` with `handle`. A changed description or position of a member is always a new object.
    So `heartbeat` compares only objects.
    """

    __slots__ = ("_at", "_configs", "_description", "_epoch", "_group", "_member", "_session_ms", "_state", "response")

    def __init__(self, state: State, group: ConsumerGroup, member: ConsumerMember) -> None:
        self._state, self._group, self._member = state, group, member
        self._at, self._description, self._epoch = member.position, member.description, group.epoch
        self._configs = state.configs.version
        times = state.configs.of(group.group_id)
        self._session_ms = times.session_timeout_ms
        self.response = ConsumerGroupHeartbeatResponse(
            0, 0, None, member.member_id, member.position.epoch, times.heartbeat_interval_ms, None
        )
        """The answer to these heartbeats."""

    def heartbeat(self, mono_ms: int) -> bool:
        """Whether `response` is the answer. If true, the deadline is moved; else nothing is changed."""
        member, group, state = self._member, self._group, self._state
        if (
            member.position is not self._at
            or member.description is not self._description
            or group.epoch != self._epoch
            or group.assignment_epoch != self._epoch
            or group.hashed_version != state.image.version
            or group.patterns
            or state.configs.version != self._configs
            or member.due_ms == NEVER
        ):
            return False
        due_ms = mono_ms + self._session_ms
        if due_ms < member.queued_ms:
            return False
        member.due_ms = due_ms
        return True


def prepare_heartbeat(state: State, request: ConsumerGroupHeartbeatRequest, client: Client) -> SteadyMember | None:
    """The `SteadyMember` for equal heartbeats; None when the member is not steady. Call this before `handle`."""
    group = consumer_group(state, request.group_id)
    member = None if group is None else group.members.get(request.member_id)
    if group is None or member is None:
        return None
    position, description = member.position, member.description
    is_steady = (
        request.member_epoch == position.epoch == group.epoch
        and position.epoch > 0
        and member.is_reconciled_to(group.assignment_epoch)
        and group.assignment_epoch == group.epoch
        and group.hashed_version == state.image.version
        and not group.patterns
        # If two assignors have equally many members, each heartbeat makes a new epoch.
        and target.preferred_assignor(group, state.settings, description.assignor)
        == target.preferred_assignor(group, state.settings)
    )
    says_nothing = (
        request.subscribed_topic_names is request.subscribed_topic_regex is None
        and request.rack_id is request.server_assignor is None
        and request.rebalance_timeout_ms == -1
        and request.instance_id in (None, description.instance_id)
        and (description.client_id, description.client_host) == (client.client_id, client.host)
        and description.classic is None
    )
    return SteadyMember(state, group, member) if is_steady and says_nothing else None
