"""The end of a membership: a member leaves, is silent too long, or keeps tasks too long.

Also the deadlines of a group, and what a load begins.
"""

from __future__ import annotations

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.group import Group
from muster.coordinator.groups.common.refusal import Refused
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.streams import checks, history, records
from muster.coordinator.groups.streams.computed_targets import bring_up_to_date
from muster.coordinator.groups.streams.group import StreamsGroup
from muster.coordinator.groups.streams.member import (
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    UNREVOKED_TASKS,
    RevocationTimer,
    StreamsMember,
)
from muster.coordinator.groups.streams.tasks import NO_TASKS, NOT_ANY
from muster.coordinator.state_machine.deadlines import Due
from muster.coordinator.state_machine.interface import Record
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)


def known_member(group: StreamsGroup, member_id: str) -> StreamsMember:
    """The member with this id. Raises Refused when there is none."""
    member = group.members.get(member_id)
    if member is None:
        message = f"Member {member_id} is not a member of group {group.group_id}."
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, message)
    return member


def handle(step: Step, request: StreamsGroupHeartbeatRequest, group: Group | None) -> StreamsGroupHeartbeatResponse:
    """Let a member leave. A static member may say that it will return."""
    group_id, member_id, epoch = request.group_id, request.member_id, request.member_epoch
    if group is None:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not isinstance(group, StreamsGroup):
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
    if request.shutdown_application and group.shutdown_by is None:
        group.shutdown_by = member_id
        if member_id in group.members:
            history.shut_down(step, group, group.members[member_id])
    if request.instance_id is None:
        _remove(step, group, known_member(group, member_id), events.LEFT)
    else:
        member = checks.check_static(group.static_member(request.instance_id), request)
        if epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
            _be_away(step, group, member)
        else:
            _remove(step, group, member, events.LEFT)
    return StreamsGroupHeartbeatResponse(0, 0, None, member_id, epoch)


def _be_away(step: Step, group: StreamsGroup, member: StreamsMember) -> None:
    """Let a static member be away until it returns or its session ends. Its tasks stay with it, since epoch 0."""
    position = member.position
    active = {name: dict.fromkeys(its, 0) for name, its in position.assigned.active.items()}
    assigned = position.assigned._replace(active=active)
    away = position._replace(epoch=LEAVE_GROUP_STATIC_MEMBER_EPOCH, assigned=assigned, revoking=NOT_ANY)
    step.record(records.current(group.group_id, member.member_id, away))
    history.away(step, group, member)


def replacement(group: StreamsGroup, old: StreamsMember, member_id: str) -> list[Record]:
    """The records that give a static member a new id. The member begins at epoch 0 with its tasks."""
    group_id, position = group.group_id, old.position._replace(epoch=0, previous_epoch=0)
    return [
        *records.member_removed(group_id, old.member_id),
        records.member_metadata(group_id, member_id, old.description),
        records.target(group_id, member_id, group.targets.get(old.member_id, NO_TASKS)),
        records.current(group_id, member_id, position),
    ]


def on_session_deadline(step: Step, group: StreamsGroup, deadline: Due) -> None:
    """Remove a member whose session timeout has passed, unless answers were late."""
    assert isinstance(deadline, StreamsMember)
    timeout_ms = step.state.configs.of_streams(group.group_id).session_timeout_ms
    if not step.put_off(deadline, step.state.deadlines.rang_ms - timeout_ms, timeout_ms):
        _remove(step, group, deadline, events.SESSION_EXPIRED)


def on_revocation_deadline(step: Step, group: StreamsGroup, deadline: Due) -> None:
    """Remove a member that has not given up its tasks within its rebalance timeout."""
    assert isinstance(deadline, RevocationTimer)
    member = group.members.get(deadline.member_id)
    if member is not None and member.position.epoch == deadline.epoch:
        _remove(step, group, member, events.REVOCATION_TIMEOUT)


def on_delay_deadline(step: Step, group: StreamsGroup, _: Due) -> None:
    """Compute the first targets of a group. If its topics are not known yet, the next heartbeat computes them."""
    bring_up_to_date(step, group)


def _remove(step: Step, group: StreamsGroup, member: StreamsMember, cause: str) -> None:
    """Remove a member. The group gets a new epoch; the next heartbeat computes the new targets."""
    group_id, before = group.group_id, history.Before(group.state, group.epoch, None, is_new_hash=False, is_own=False)
    position = member.position
    history.removed(step, group, member, cause)
    step.record_all(records.member_removed(group_id, member.member_id))
    step.record(
        records.group_epoch(
            group_id,
            group.epoch + 1,
            group.metadata_hash,
            group.validated_epoch,
            group.last_configs,
            group.descriptions,
        )
    )
    if not group.members:
        step.record(records.target_epoch(group_id, group.epoch, 0))
    history.epoch_bumped(step, group, cause, member, before)
    history.freed(step, group, position)


def loaded(step: Step, group: StreamsGroup) -> None:
    """Give each member a fresh session after the load, and fresh time to give up tasks."""
    deadlines, mono_ms = step.state.deadlines, step.now.mono_ms
    due_ms = mono_ms + step.state.configs.of_streams(group.group_id).session_timeout_ms
    for member in group.members.values():
        deadlines.set(member, due_ms)
        if member.position.state == UNREVOKED_TASKS:
            member.revocation.epoch = member.position.epoch
            deadlines.set(member.revocation, mono_ms + member.description.rebalance_timeout_ms)
