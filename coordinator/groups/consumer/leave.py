"""Members that leave for good (epoch -1), leave and return later (epoch -2), or are removed after a timeout.

The group gets a new epoch. The next heartbeat computes the new targets.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.group import Group
from muster.coordinator.groups.common.refusal import Refused
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.consumer import checks, history, records
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.member import (
    JOIN,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    NOTHING,
    REVOCATION,
    SYNC,
    ConsumerMember,
    stop_timer,
    trigger_of,
    without_epochs,
)
from muster.coordinator.groups.consumer.topics import group_hash
from muster.coordinator.state_machine.deadlines import Deadline, Due
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

NO_TARGET: Final = "there was no target assignment for it"
"""The reason in the history for members that are removed because the group has no targets."""


def answer(step: Step, request: ConsumerGroupHeartbeatRequest, group: Group | None) -> ConsumerGroupHeartbeatResponse:
    """Answer a heartbeat with which a member leaves. Raises Refused."""
    group_id, member_id, instance_id = request.group_id, request.member_id, request.instance_id
    if group is None:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not isinstance(group, ConsumerGroup):
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    member = checks.known_member(group, member_id, instance_id)
    if instance_id is not None and request.member_epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        _go_away(step, group, member)
    else:
        remove(step, group, [member], events.LEFT)
    return ConsumerGroupHeartbeatResponse(0, 0, None, member_id, request.member_epoch)


def _go_away(step: Step, group: ConsumerGroup, member: ConsumerMember) -> None:
    """Let a static member leave that will return. The member keeps its partitions and session, but no pending
    revocation.
    """
    position = member.position._replace(
        epoch=LEAVE_GROUP_STATIC_MEMBER_EPOCH, assigned=without_epochs(member.position.assigned), revoking=NOTHING
    )
    step.record(records.current(group.group_id, member.member_id, position))
    stop_timer(step.state.deadlines, member, REVOCATION)
    history.static_member_left(step, group, member)


def remove(
    step: Step,
    group: ConsumerGroup,
    members: list[ConsumerMember],
    cause: str,
    reasons: Mapping[str, str | None] | None = None,
) -> None:
    """Remove members, and patterns that no other member has. All removals together cause one new epoch.

    If only classic members stay, the group may become a classic group instead. `cause` and `reasons` (by member id) are
    for the history.
    """
    history.members_removed(step, group, members, cause, reasons)
    downgrade = step.state.downgrade
    if downgrade is not None and downgrade.is_allowed(step, group, members):
        downgrade.after_leave(step, group, members, cause)
        return
    group_id, state = group.group_id, group.state
    before = dict.fromkeys(one.description.pattern for one in members if one.description.pattern)
    for member in members:
        step.record_all(records.member_removed(group_id, member.member_id))
    for pattern in before:
        if pattern not in group.patterns and pattern in group.resolved:
            step.record(records.pattern_forgotten(group_id, pattern))
    metadata_hash = group_hash(group, step.state.image, step.state.settings.broker_rack)
    step.record(records.group_epoch(group_id, group.epoch + 1, metadata_hash))
    if not group.members:  # Since Kafka 4.4 an Empty group has an empty target assignment in its new epoch.
        step.record(records.target_epoch(group_id, group.epoch, 0))
    first = members[0]
    reason = None if reasons is None else reasons.get(first.member_id)
    history.epoch_bumped(step, group, cause, trigger_of(first.member_id, first, reason), state=state)


def forget(step: Step, group: ConsumerGroup, members: list[ConsumerMember]) -> None:
    """Remove members that wait for the group's first targets, because the targets could not be made."""
    remove(step, group, members, events.LEFT, dict.fromkeys([one.member_id for one in members], NO_TARGET))


def no_targets() -> ConsumerGroupHeartbeatResponse:
    """The answer to a member without a target. As on Kafka the answer has no message."""
    return ConsumerGroupHeartbeatResponse(0, ErrorCode.UNKNOWN_SERVER_ERROR)


def on_deadline(step: Step, group: ConsumerGroup, deadline: Due) -> None:
    """Remove a member whose session timeout has passed, unless answers were late."""
    member = group.members.get(getattr(deadline, "member_id", ""))
    if member is not None and not _put_off(step, member):
        remove(step, group, [member], events.SESSION_EXPIRED)


def _put_off(step: Step, member: ConsumerMember) -> bool:
    classic, state = member.description.classic, step.state
    timeout_ms = state.configs.of(member.group_id).session_timeout_ms if classic is None else classic.session_timeout_ms
    return step.put_off(member, state.deadlines.rang_ms - timeout_ms, timeout_ms)


_CAUSES: Final = MappingProxyType(
    {REVOCATION: events.REVOCATION_TIMEOUT, JOIN: events.JOIN_TIMEOUT, SYNC: events.SYNC_TIMEOUT}
)


def on_rebalance_deadline(step: Step, group: ConsumerGroup, deadline: Due) -> None:
    """Remove a member that did not give up partitions, join again or sync within its rebalance timeout."""
    assert isinstance(deadline, Deadline)
    remove(step, group, [group.members[deadline.subject]], _CAUSES[deadline.kind])
