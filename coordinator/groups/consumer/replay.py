"""What each record of a consumer group does to the state, live and in replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from sys import intern
from typing import Final

from muster.coordinator.groups.common import kafka_order
from muster.coordinator.groups.common.epoch_group import present
from muster.coordinator.groups.common.kafka_order import Tables, TargetRows
from muster.coordinator.groups.common.state import Replay, SharedValues, State, Step
from muster.coordinator.groups.consumer import records
from muster.coordinator.groups.consumer.group import ConsumerGroup, consumer_group
from muster.coordinator.groups.consumer.member import (
    NOTHING,
    Classic,
    ConsumerMember,
    CurrentAssignment,
    Description,
    Position,
    Resolved,
    TargetAssignment,
    current_assignment,
    stop_timers,
    target_assignment,
    with_shared_tuples,
)
from muster.coordinator.state_machine.interface import Record
from muster.protocol.message import Message
from muster.protocol.messages.group_records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from muster.protocol.messages.group_records.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from muster.protocol.messages.group_records.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from muster.protocol.messages.group_records.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from muster.protocol.messages.group_records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from muster.protocol.messages.group_records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from muster.protocol.messages.group_records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

MAX_SHARED_NAMES: Final = 1_000
"""Only subscriptions of up to this many names are shared between groups, because shared values outlive members."""


def apply_member(state: State, group_id: str, member_id: str, description: Description) -> None:
    """Set the description of a member in the state."""
    group = present(state, ConsumerGroup, group_id)
    if len(description.topics) > MAX_SHARED_NAMES:
        description = description._replace(topics=group.shared_topics(description.topics))
    else:
        description = _shared_description(description, state.shared)
    group.describe_member(_member(group, member_id), description)


def apply_position(group: ConsumerGroup, member: ConsumerMember, position: Position) -> None:
    """Set the position of a member in the group."""
    group.note_put()
    group.update_position(member, position)


def replay_member(
    state: State, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
) -> None:
    """Replay the new description of a member, or its removal."""
    if value is None:
        group = consumer_group(state, key.group_id)
        member = None if group is None else group.remove_member(key.member_id)
        if member is not None:
            state.deadlines.cancel(member)
            stop_timers(state.deadlines, member)
        return
    apply_member(state, key.group_id, key.member_id, _description(value))


def _description(value: ConsumerGroupMemberMetadataValue) -> Description:
    classic = value.classic_member_metadata
    known = None
    if isinstance(classic, ClassicMemberMetadata):
        offered = tuple([(one.name, one.metadata) for one in classic.supported_protocols])
        known = Classic(classic.session_timeout_ms, offered)
    return Description(
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        tuple(value.subscribed_topic_names),
        value.subscribed_topic_regex,
        value.rebalance_timeout_ms,
        value.server_assignor,
        known,
    )


def _shared_description(description: Description, shared: SharedValues) -> Description:
    """The same description, made of shared values, because dynamic members of one client have equal descriptions."""
    of, classic = shared.of, description.classic
    if description.instance_id is None and classic is None:
        known = shared.known(description)
        if known is not None:
            return known
    topics = shared.known(description.topics)
    made = description._replace(
        rack_id=_shared(description.rack_id, shared),
        client_id=of(description.client_id),
        client_host=of(description.client_host),
        topics=of(tuple([of(name) for name in description.topics])) if topics is None else topics,
        pattern=_shared(description.pattern, shared),
        assignor=_shared(description.assignor, shared),
        classic=None if classic is None else Classic(classic.session_timeout_ms, shared.protocols(classic.protocols)),
    )
    return made if made.instance_id is not None or classic is not None else of(made)


def _shared(text: str | None, shared: SharedValues) -> str | None:
    return None if text is None else shared.of(text)


def replay_epoch(state: State, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None) -> None:
    """Replay the new epoch of a group, or its deletion."""
    if value is not None:
        group = present(state, ConsumerGroup, key.group_id)
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        return
    found = consumer_group(state, key.group_id)
    if found is None:
        return
    for member_id in list(found.members):  # if all earlier records are in the log, there are no members
        replay_member(state, ConsumerGroupMemberMetadataKey(key.group_id, member_id), None)
    del state.groups[found.group_id]


def replay_partition_metadata(
    state: State, key: ConsumerGroupPartitionMetadataKey, value: ConsumerGroupPartitionMetadataValue | None
) -> None:
    """Note whether this record of older Kafkas exists. The record's tombstone follows with the group's hash."""
    if value is not None:
        present(state, ConsumerGroup, key.group_id).has_partition_metadata = True
    elif (group := consumer_group(state, key.group_id)) is not None:
        group.has_partition_metadata = False


def replay_target(
    state: State, key: ConsumerGroupTargetAssignmentMemberKey, value: ConsumerGroupTargetAssignmentMemberValue | None
) -> None:
    """Replay the new target of a member, or its removal."""
    if value is None:
        group = consumer_group(state, key.group_id)
        if group is not None:
            group.targets.pop(key.member_id, None)
            group.orders.pop(key.member_id, None)
        return
    of = state.shared.of
    member_target = target_assignment({of(row.topic_id): row.partitions for row in value.topic_partitions})
    group = present(state, ConsumerGroup, key.group_id)
    member = group.members.get(key.member_id)
    # The id is interned, so that the member shares the string even if its record follows later in the log.
    member_id = intern(key.member_id) if member is None else member.member_id
    rows = tuple([(of(row.topic_id), tuple(row.partitions)) for row in value.topic_partitions])
    _set_target(group, member_id, member_target, rows)


def _set_target(group: ConsumerGroup, member_id: str, member_target: TargetAssignment, rows: TargetRows) -> None:
    group.targets[member_id] = member_target
    order = kafka_order.order_of(rows)
    if order is not None:
        group.orders[member_id] = order
    elif group.orders:
        group.orders.pop(member_id, None)


def replay_target_epoch(
    state: State,
    key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    """Replay the epoch of the targets, or its removal."""
    if value is not None:
        present(state, ConsumerGroup, key.group_id).assignment_reached(
            value.assignment_epoch, value.assignment_timestamp
        )
    elif (group := consumer_group(state, key.group_id)) is not None:
        group.assignment_reached(-1, 0)


def replay_current(
    state: State, key: ConsumerGroupCurrentMemberAssignmentKey, value: ConsumerGroupCurrentMemberAssignmentValue | None
) -> None:
    """Replay the new position of a member. After a tombstone the member has no partitions, and will be removed."""
    if value is None:
        group = consumer_group(state, key.group_id)
        member = None if group is None else group.members.get(key.member_id)
        if group is not None and member is not None:
            group.update_position(member, Position(-1, -1, member.position.state, (), ()))
        return
    group = present(state, ConsumerGroup, key.group_id)
    member = _member(group, key.member_id)
    assigned = _current(value.assigned_partitions, value.member_epoch, state.shared)
    assigned = with_shared_tuples(assigned, group.targets.get(key.member_id, NOTHING), state.shared.of)
    revoking = _current(value.partitions_pending_revocation, value.member_epoch, state.shared)
    position = Position(value.member_epoch, value.previous_member_epoch, value.state, assigned, revoking)
    group.update_position(member, position)


def _current(rows: Sequence[TopicPartitions], epoch: int, shared: SharedValues) -> CurrentAssignment:
    made: dict[bytes, dict[int, int]] = {}
    for row in rows:
        epochs = row.assignment_epochs
        if epochs is None or len(epochs) != len(row.partitions):  # Kafka before 4.3 writes no epochs
            epochs = (max(epoch, 0),) * len(row.partitions)
        made[shared.of(row.topic_id)] = dict(zip(row.partitions, epochs, strict=True))
    return current_assignment(made)


def replay_pattern(
    state: State, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
) -> None:
    """Replay the topics that a pattern matched, or the end of the pattern."""
    if value is None:
        group = consumer_group(state, key.group_id)
        if group is not None:
            group.resolve(key.regular_expression, None)
        return
    topics = tuple(value.topics)
    if len(topics) <= MAX_SHARED_NAMES:
        topics = tuple([state.shared.of(name) for name in topics])
    resolved = Resolved(topics, value.version, value.timestamp)
    present(state, ConsumerGroup, key.group_id).resolve(key.regular_expression, resolved)


def _member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    group.note_put()
    known = group.members.get(member_id)
    # Only ids that a target has too are interned: an entry in Python's table costs as much as a string.
    return known or group.add_member(intern(member_id) if member_id in group.targets else member_id)


RECORDS: Final[Mapping[type[Message], Replay]] = {
    ConsumerGroupMemberMetadataKey: replay_member,
    ConsumerGroupMetadataKey: replay_epoch,
    ConsumerGroupPartitionMetadataKey: replay_partition_metadata,
    ConsumerGroupTargetAssignmentMemberKey: replay_target,
    ConsumerGroupTargetAssignmentMetadataKey: replay_target_epoch,
    ConsumerGroupCurrentMemberAssignmentKey: replay_current,
    ConsumerGroupRegularExpressionKey: replay_pattern,
}
"""The functions that replay records, by the type of the key."""

# ---- records of decisions, which are applied without decoding. Tests compare the resulting state with a replay.


def record_member(step: Step, group_id: str, member_id: str, description: Description) -> None:
    """Record the description of a member as `step.record` does, without decoding the record."""
    step.records.append(records.member_metadata(group_id, member_id, description))
    apply_member(step.state, group_id, member_id, description)


def record_current(
    step: Step,
    group: ConsumerGroup,
    member: ConsumerMember,
    position: Position,
    assigned: Tables = kafka_order.NEW,
    revoking: Tables = kafka_order.NEW,
) -> None:
    """Record the position of a member (see `records.current`), as `step.record` does."""
    step.records.append(records.current(group.group_id, member.member_id, position, assigned, revoking))
    apply_position(group, member, position)


def record_targets(
    step: Step,
    group: ConsumerGroup,
    made: Sequence[Record],
    member_targets: Iterable[tuple[str, TargetAssignment, TargetRows]],
) -> None:
    """Record the new targets of members, as `step.record_all` does. Each target has the rows of its record."""
    step.records += made
    for member_id, member_target, rows in member_targets:
        _set_target(group, group.members[member_id].member_id, member_target, rows)
