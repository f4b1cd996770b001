"""ShareGroupHeartbeat: a member joins, stays, changes its subscription, gets its target, or leaves.

All records of a heartbeat are made before the state changes. If they are too many for one batch, the heartbeat is
refused. A member gets its whole target at once, because several members may read a partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from sys import intern
from typing import Final, NamedTuple

from muster.coordinator.groups.common import events, kafka_order
from muster.coordinator.groups.common.group import Group
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.kafka_order import Tables
from muster.coordinator.groups.common.refusal import Refused, check_text, invalid
from muster.coordinator.groups.common.state import Step, pack, size_of, with_bytes
from muster.coordinator.groups.common.topic_hashes import hash_of_topics
from muster.coordinator.groups.share import history, partition_states, records, target
from muster.coordinator.groups.share.group import NOT_QUIET, ShareGroup, share_group
from muster.coordinator.groups.share.member import (
    LEAVE_GROUP_MEMBER_EPOCH,
    NOBODY,
    NOTHING,
    STABLE,
    START,
    Assigned,
    Description,
    Position,
    ShareMember,
)
from muster.coordinator.groups.share.target import ComputedTarget
from muster.coordinator.state_machine.deadlines import Due
from muster.coordinator.state_machine.interface import Client, Command, Record
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

MAX_ID_LENGTH: Final = 36
"""The most characters of a member id, which is usually a UUID."""


def handle(step: Step, command: Command, request: ShareGroupHeartbeatRequest, group: Group | None) -> None:
    """Answer a ShareGroupHeartbeat."""
    try:
        _check_request(request)
        if request.member_epoch == LEAVE_GROUP_MEMBER_EPOCH:
            response = _leave(step, request, group)
        else:
            response = _beat(step, command, request, group)
    except Refused as refused:
        response = ShareGroupHeartbeatResponse(0, refused.error, refused.message)
        step.refused(command, request.group_id, refused.error, request.member_id, None)
    step.reply(command.respond, response)


def is_valid_member_id(member_id: str) -> bool:
    """Whether this may be the id of a member. Kafka checks the id before it checks permissions for topics."""
    return 0 < len(member_id) <= MAX_ID_LENGTH


def _check_request(request: ShareGroupHeartbeatRequest) -> None:
    if not is_valid_member_id(request.member_id):
        raise Refused(ErrorCode.INVALID_REQUEST, None)
    check_text(request.member_id, "MemberId can't be empty.")
    check_text(request.group_id, "GroupId can't be empty.")
    check_text(request.rack_id, "RackId can't be empty.")
    if request.member_epoch == 0:
        if not request.subscribed_topic_names:
            raise invalid("SubscribedTopicNames must be set in first request.")
    elif request.member_epoch < LEAVE_GROUP_MEMBER_EPOCH:
        raise invalid("MemberEpoch is invalid.")


def _group(present: Group | None, request: ShareGroupHeartbeatRequest) -> ShareGroup:
    if isinstance(present, ShareGroup):
        return present
    if present is not None:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a share group.")
    if request.member_epoch:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {request.group_id} not found.")
    return ShareGroup(intern(request.group_id))


def _known_member(group: ShareGroup, member_id: str) -> ShareMember:
    member = group.members.get(member_id)
    if member is None:
        message = f"Member {member_id} is not a member of group {group.group_id}."
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, message)
    return member


def _check_epoch(position: Position, epoch: int) -> None:
    """Raise Refused unless a member sends its present or previous epoch, or 0 to join again."""
    if epoch in (0, position.epoch, position.previous_epoch) and epoch <= position.epoch:
        return
    than = "greater" if epoch > position.epoch else "smaller"
    why = "" if than == "greater" else f", and it does not match the previous member epoch ({position.previous_epoch})"
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {than} member epoch ({epoch}) than the one known by the group coordinator "
        f"({position.epoch}){why}. The member must abandon all its partitions and rejoin.",
    )


class _Sender(NamedTuple):
    """The sender of a heartbeat: its fields before the request and after it, and its position before it."""

    member_id: str
    is_new: bool
    before: Description
    description: Description
    position: Position


def _sender(step: Step, group: ShareGroup, command: Command, request: ShareGroupHeartbeatRequest) -> _Sender:
    member_id, most = request.member_id, step.state.settings.group_share_max_size
    if len(group.members) >= most and member_id not in group.members:
        message = f"The share group has reached its maximum capacity of {most} members."
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
    if request.member_epoch or member_id in group.members:
        member = _known_member(group, member_id)
        _check_epoch(member.position, request.member_epoch)
        before, position, is_new = member.description, member.position, False
    else:
        before, position, is_new = NOBODY, START, True
    return _Sender(member_id, is_new, before, _describe(before, request, command.client), position)


def _describe(before: Description, request: ShareGroupHeartbeatRequest, client: Client) -> Description:
    """The member's description after this request, `before` if nothing changes. Fields that are not sent stay."""
    names = request.subscribed_topic_names
    description = Description(
        before.rack_id if request.rack_id is None else request.rack_id,
        client.client_id,
        client.host,
        before.topics if names is None else tuple(sorted(set(names))),
    )
    return before if description == before else description


def _beat(
    step: Step, command: Command, request: ShareGroupHeartbeatRequest, present: Group | None
) -> ShareGroupHeartbeatResponse:
    group = _group(present, request)
    sender = _sender(step, group, command, request)
    image, had = step.state.image, sender.position.assigned
    if _is_quiet(group, sender, image):
        position = sender.position
    else:
        position = _change(step, group, sender, is_created=present is None)
    member = step.state.groups[group.group_id].members[sender.member_id]  # type: ignore[attr-defined]  # a share group
    times = step.state.configs.of_share(group.group_id)
    step.state.deadlines.set(member, step.now.mono_ms + times.session_timeout_ms)
    assignment = None
    if not request.member_epoch or request.subscribed_topic_names is not None or position.assigned != had:
        assignment = Assignment([TopicPartitions(*row) for row in position.assigned])
    return ShareGroupHeartbeatResponse(
        0, 0, None, member.member_id, position.epoch, times.heartbeat_interval_ms, assignment
    )


def _is_quiet(group: ShareGroup, sender: _Sender, image: TopicsImage) -> bool:
    """Whether the heartbeat changes nothing, as nearly every one. Then nothing is computed."""
    return (
        sender.description is sender.before
        and group.quiet_version == image.version == group.hashed_version
        and sender.position.epoch == group.assignment_epoch == group.epoch
    )


def _change(step: Step, group: ShareGroup, sender: _Sender, *, is_created: bool) -> Position:
    """Make and apply the records of a heartbeat. Returns the sender's next position. Raises Refused."""
    group_id, member_id, image = group.group_id, sender.member_id, step.state.image
    made: list[Record] = []
    if sender.description is not sender.before:
        made.append(records.member_metadata(group_id, member_id, sender.description))
    is_subscription_new = sender.description.topics != sender.before.topics
    is_pending = group.assignment_epoch >= group.epoch and partition_states.are_pending(group)
    bump, epoch, names = is_subscription_new or is_pending, group.epoch, _names(group, sender)
    if bump or group.hashed_version != image.version:
        metadata_hash = hash_of_topics(names, image, step.state.settings.broker_rack)
        bump |= metadata_hash != group.metadata_hash
        if bump:
            epoch += 1
            made.append(records.group_epoch(group_id, epoch, metadata_hash))
    computed: ComputedTarget | None = None
    target_epoch, its, tables = group.assignment_epoch, group.targets.get(member_id, NOTHING), None
    if target.is_due(step, group, epoch):
        computed = target.compute(step, group, epoch, _subscriptions(group, sender))
        made += computed.records
        had, its = its, computed.targets[member_id]
        target_epoch, tables = epoch, target.tables_of(had, its, computed.turns)
    position = _next_position(sender, target_epoch, its, image, is_bumped=bump)
    if position != sender.position:
        made.append(records.current(group_id, member_id, position, _tables(position.assigned, its, tables)))
    new = partition_states.lacking(step, group, names)
    if new:
        made.append(partition_states.record_of_new(step, group, new))
    made = list(map(with_bytes, made))
    if size_of(list(map(pack, made))) > step.max_bytes:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    # After this line no request is refused.
    wanted = partition_states.wanted(group, epoch, new) if new else None
    state, topics_before = group.state, group.hashed_topics
    step.record_all(made)
    recorded = share_group(step.state, group_id)
    assert recorded is not None
    recorded.hashed_version, recorded.hashed_topics = image.version, image.by_name
    recorded.quiet_version = NOT_QUIET
    if is_created:
        step.event(events.GROUP_CREATED, group_id)
    member = recorded.members[member_id]
    if sender.is_new:
        history.joined(step, recorded, member)
    if bump:
        cause = _cause(sender, is_subscription_new=is_subscription_new, is_pending=is_pending)
        history.epoch_bumped(step, recorded, cause, member, topics_before, state)
    if computed is not None:
        history.target_assigned(step, recorded, computed.changes)
    history.settled(step, recorded, member)
    if wanted is not None:
        partition_states.create(step, recorded, wanted)
    else:
        recorded.quiet_version = partition_states.quiet_version(recorded, image)
    return position


def _cause(sender: _Sender, *, is_subscription_new: bool, is_pending: bool) -> str:
    if sender.is_new:
        return events.NEW_MEMBER
    if is_subscription_new:
        return events.SUBSCRIPTION_CHANGED
    return events.PARTITIONS_READY if is_pending else events.TOPICS_CHANGED


def _names(group: ShareGroup, sender: _Sender) -> Iterable[str]:
    """The names of all subscribed topics after the request."""
    if sender.description.topics == sender.before.topics:
        return group.names
    names = Counter(group.names)
    names.subtract(sender.before.topics)
    names.update(sender.description.topics)
    return [name for name, count in names.items() if count]


def _subscriptions(group: ShareGroup, sender: _Sender) -> dict[str, tuple[str, ...]]:
    members = group.members
    if sender.member_id in members:
        ids: Sequence[str] = group.member_ids()
    else:
        slots = kafka_order.slots_after(group.slots, len(members))
        ids = kafka_order.timeline([*members, sender.member_id], slots)
    return {
        one: sender.description.topics if one == sender.member_id else members[one].description.topics for one in ids
    }


def _next_position(
    sender: _Sender, target_epoch: int, its: Assigned, image: TopicsImage, *, is_bumped: bool
) -> Position:
    """The position after a step to the target of this epoch. Topics that the member does not subscribe to are left out.

    As on Kafka, a member that has reached the target's epoch keeps its partitions, unless the group's epoch is new.
    """
    position = sender.position
    if not is_bumped and position.state == STABLE and position.epoch == target_epoch:
        return position
    by_id, topics = image.by_id, sender.description.topics
    mine = tuple([row for row in its if row[0] in by_id and by_id[row[0]].name in topics])
    if position.epoch != target_epoch:
        return Position(target_epoch, position.epoch, STABLE, mine)
    return position._replace(assigned=mine)


def _tables(mine: Assigned, its: Assigned, tables: Tables | None) -> Tables:
    """The tables in which Kafka has a member's partitions: those of the target, or a copy without some topics."""
    tables = tables or target.loaded_tables(its)
    if len(mine) == len(its):
        return tables
    return Tables(kafka_order.map_capacity_of_copy(len(its)), tables.of_partitions, tables.of_others)


# ---- the end of a membership


def _leave(step: Step, request: ShareGroupHeartbeatRequest, group: Group | None) -> ShareGroupHeartbeatResponse:
    group_id, member_id = request.group_id, request.member_id
    if group is None:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not isinstance(group, ShareGroup):
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
    remove(step, group, _known_member(group, member_id), events.LEFT)
    return ShareGroupHeartbeatResponse(0, 0, None, member_id, request.member_epoch)


def on_deadline(step: Step, group: ShareGroup, deadline: Due) -> None:
    """Remove a member whose session timeout has passed, unless answers were late."""
    assert isinstance(deadline, ShareMember)
    timeout_ms = step.state.configs.of_share(group.group_id).session_timeout_ms
    if not step.put_off(deadline, step.state.deadlines.rang_ms - timeout_ms, timeout_ms):
        remove(step, group, deadline, events.SESSION_EXPIRED)


def remove(step: Step, group: ShareGroup, member: ShareMember, cause: str) -> None:
    """Remove a member. The group gets a new epoch; the next heartbeat computes the new targets."""
    group_id, state = group.group_id, group.state
    history.removed(step, group, member, cause)
    step.record_all(records.member_removed(group_id, member.member_id))
    metadata_hash = hash_of_topics(group.names, step.state.image, step.state.settings.broker_rack)
    step.record(records.group_epoch(group_id, group.epoch + 1, metadata_hash))
    if not group.members:
        step.record(records.target_epoch(group_id, group.epoch, 0))
    history.epoch_bumped(step, group, cause, member, None, state)


def loaded(step: Step, group: ShareGroup) -> None:
    """Give each member a fresh session after the load."""
    group.states_ms = step.now.wall_ms
    due_ms = step.now.mono_ms + step.state.configs.of_share(group.group_id).session_timeout_ms
    for member in group.members.values():
        step.state.deadlines.set(member, due_ms)
