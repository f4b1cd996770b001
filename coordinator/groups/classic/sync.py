"""SyncGroup: the leader's request has the assignment; each member gets its part in the answer."""

from __future__ import annotations

from muster.coordinator.groups.classic import history, records
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.classic.parked_requests import answer_syncs, park_sync
from muster.coordinator.groups.classic.rebalance import begin
from muster.coordinator.groups.classic.states import ASSIGNED, COMPLETING, EMPTY, PREPARING
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.batch_size import is_too_large
from muster.coordinator.groups.common.step import Step
from muster.coordinator.state_machine.interface import Command
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def handle(step: Step, command: Command, request: SyncGroupRequest, group: ClassicGroup | None) -> None:
    """Answer a SyncGroup, or park it until the leader's arrives.

    Its handler has checked that v5+ names protocol type and protocol: only the handler knows the version.
    """
    error = _error_of(group, request)
    if error or group is None:
        step.reply(command.respond, SyncGroupResponse(error_code=error))
        if error != ErrorCode.REBALANCE_IN_PROGRESS:
            step.refused(command, request.group_id, error, request.member_id, request.group_instance_id)
        return
    member = group.members[request.member_id]
    _has_synced(step, group, member)
    if group.state == COMPLETING:
        park_sync(step, member, command.respond)
        if group.leader_id == request.member_id:
            _assign(step, group, command, {one.member_id: one.assignment for one in request.assignments})
    else:
        response = SyncGroupResponse(0, 0, group.protocol_type, group.protocol_name, member.assignment)
        step.reply(command.respond, response)


def _error_of(group: ClassicGroup | None, request: SyncGroupRequest) -> int:
    """Kafka's checks in Kafka's order. 0 when the request may be served: the group is Completing or Stable then."""
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None or group.state == EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state == PREPARING else 0


def _differs(asked: str | None, own: str | None) -> bool:
    return asked is not None and own is not None and asked != own


def _has_synced(step: Step, group: ClassicGroup, member: Member) -> None:
    if member.member_id in group.pending_sync:
        del group.pending_sync[member.member_id]
        history.synced(step, group, member)
    if not group.pending_sync:
        group.pending_sync.clear()  # frees its memory
        step.state.deadlines.cancel(group.sync_deadline)


def _assign(step: Step, group: ClassicGroup, command: Command, assignments: dict[str, bytes]) -> None:
    record = records.group_metadata(group, assignments)
    if is_too_large(step, [record], records.texts(group) + sum(map(len, assignments.values()))):
        leader = group.members[group.leader_id or ""]
        error = ErrorCode.UNKNOWN_SERVER_ERROR
        step.refused(command, group.group_id, error, leader.member_id, leader.instance_id)
        answer_syncs(step, group, error)
        begin(step, group, events.ASSIGNMENT_TOO_LARGE, history.trigger(leader))
        return
    step.record(record)
    group.transition(ASSIGNED, step.now.wall_ms)
    history.completed(step, group)
    answer_syncs(step, group, 0)
