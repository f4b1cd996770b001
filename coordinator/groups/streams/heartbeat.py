"""StreamsGroupHeartbeat: a member joins, stays, or returns.

`sender` says who sends it, `leave` has the end of a membership, and `answers` the answer.

All records of a heartbeat are made before the state changes. If they are too many for one batch, the heartbeat is
refused. The order of the records, and of the checks, is Kafka's (GroupMetadataManager.streamsGroupHeartbeat).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.group import Group
from muster.coordinator.groups.common.refusal import Refused, invalid
from muster.coordinator.groups.common.state import Step, pack, size_of, tombstones, with_bytes
from muster.coordinator.groups.common.topic_hashes import hash_of_topics
from muster.coordinator.groups.streams import answers, checks, history, leave, records, restoration, target
from muster.coordinator.groups.streams.answers import Beaten
from muster.coordinator.groups.streams.computed_targets import request_targets
from muster.coordinator.groups.streams.group import STABLE, MemberOffsets, StreamsGroup, streams_group
from muster.coordinator.groups.streams.internal_topics import Configured, InternalTopic, Status, configure
from muster.coordinator.groups.streams.member import (
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    UNREVOKED_TASKS,
    Description,
    Position,
    StreamsMember,
)
from muster.coordinator.groups.streams.reconcile import Goal, next_position
from muster.coordinator.groups.streams.sender import Sender, describe, differ, find_group, find_sender
from muster.coordinator.groups.streams.target import ComputedTarget, TasksWanted
from muster.coordinator.groups.streams.tasks import NO_TASKS, Tasks, has_same_tasks, sets_of
from muster.coordinator.groups.streams.topology import NO_TOPOLOGY, Topology, value_of
from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.state_machine.interface import Command, Record
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskOffset,
)

_INTERVAL: Final = "Assignment delayed due to the configured assignment interval."
_COMPUTED: Final = "Assignment delayed because it is being computed."
_ENDS: Final = (LEAVE_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH)


@dataclass(slots=True, eq=False, repr=False)
class HeartbeatCommand(Command):
    """A StreamsGroupHeartbeat with its version. The core fills `missing`: the internal topics to be created."""

    version: int = 1
    missing: dict[str, InternalTopic] = field(default_factory=dict)


def handle(step: Step, command: HeartbeatCommand, request: StreamsGroupHeartbeatRequest, group: Group | None) -> None:
    """Answer a StreamsGroupHeartbeat."""
    try:
        checks.check_request(request)
        if request.member_epoch in _ENDS:
            response = leave.handle(step, request, group)
        else:
            response = _beat(step, command, request, group)
    except Refused as refused:
        response = StreamsGroupHeartbeatResponse(0, refused.error, refused.message)
        step.refused(command, request.group_id, refused.error, request.member_id, request.instance_id)
    step.reply(command.respond, response)


class _Reached(NamedTuple):
    """The targets that are in force after a heartbeat. `computed`: None if they were not computed now. `wanted`: the
    request for targets that are to be computed in the background.
    """

    epoch: int
    its: Tasks
    computed: ComputedTarget | None = None
    wanted: TasksWanted | None = None


def _beat(
    step: Step, command: HeartbeatCommand, request: StreamsGroupHeartbeatRequest, present: Group | None
) -> StreamsGroupHeartbeatResponse:
    group = find_group(present, request)
    sender = find_sender(step, group, request)
    known, had = sender.before, sender.position
    description = describe(known, request, command.client)
    made = [] if present is None or present is group else tombstones(present)
    if sender.replaced is not None:
        made += leave.replacement(group, sender.replaced, sender.member_id)
    is_own = description is not known
    if is_own:
        made.append(records.member_metadata(group.group_id, sender.member_id, description))
    topology = _topology(group, request, made)
    statuses = _stale(group, description)
    configured, metadata_hash = _configure(step, group, topology)
    validated = topology.epoch if configured.status is None else NO_TOPOLOGY
    checks.check_tasks(configured, request)
    offsets = _offsets(group, request, sender.member)
    configs = target.configs_of(step.state, group.group_id)
    is_new_hash = metadata_hash != group.metadata_hash
    must_compute = is_new_hash or validated != group.validated_epoch or configs != group.last_configs
    must_compute |= is_own and (request.instance_id is None or differ(known, description))
    is_refined = not must_compute and _is_off_target(group, sender)
    epoch = group.epoch + 1 if must_compute or is_refined else group.epoch
    if epoch > group.epoch:
        made.append(records.group_epoch(group.group_id, epoch, metadata_hash, validated, configs, group.descriptions))
    goal = _Epoch(epoch, configured, configs, is_refined, offsets or group.offsets.get(sender.member_id))
    reached = _reach(step, group, sender, description, goal, made, statuses)
    position = _next_position(group, sender, description, request, reached)
    if position != had:
        made.append(records.current(group.group_id, sender.member_id, position))
    made = list(map(with_bytes, made))
    if size_of(list(map(pack, made))) > step.max_bytes:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    is_shutdown = request.shutdown_application and group.shutdown_by is None
    if is_shutdown:
        group.shutdown_by = sender.member_id
    if sender.member is not None:
        _begin_session(step, group, sender.member)  # as on Kafka, a refusal for endpoints does not end the membership
    beaten = Beaten(request, command.version, known.endpoint, had, description, position)
    endpoints = answers.endpoints_of(step, group, beaten, sender.replaced, configured)
    # After this line no request is refused.
    group.configured = configured
    before = history.Before(group.state, group.epoch, group.hashed_topics, is_new_hash, is_own)
    was_empty = not group.members
    step.record_all(made)
    recorded = streams_group(step.state, group.group_id)
    assert recorded is not None
    is_created = recorded is not group
    if is_created:
        step.event(events.GROUP_CREATED, group.group_id)
    _set_timers(step, recorded, recorded.members[sender.member_id], had, was_empty=was_empty)
    recorded.hashed_version, recorded.hashed_topics = step.state.image.version, step.state.image.by_name
    history.beaten(step, recorded, sender.member_id, sender.replaced, sender.member is None, before, reached.computed)
    if position is not had:
        history.moved(step, recorded, recorded.members[sender.member_id], had)
        restoration.given(configured, recorded.members[sender.member_id], had, step.now.mono_ms)
    if configured.status is not None or recorded.unready is not None:
        history.topics_checked(step, recorded, topology.epoch, configured.status)
    if is_shutdown:
        history.shut_down(step, recorded, recorded.members[sender.member_id])
    if reached.wanted is not None:
        request_targets(step, recorded, reached.wanted)
    command.missing.update(configured.missing)
    # As on Kafka, a group that this heartbeat has created forgets everything that has no record.
    if offsets is not None and not is_created:
        group.offsets[sender.member_id] = offsets
        history.offsets_reported(step, group, group.members[sender.member_id])
    response = answers.response_to(step.state, group, beaten, statuses, configured)
    response.partitions_by_user_endpoint = endpoints
    if present is not None:
        response.endpoint_information_epoch = group.endpoint_epoch
    return response


def _topology(group: StreamsGroup, request: StreamsGroupHeartbeatRequest, made: list[Record]) -> Topology:
    """The topology of the group. The first topology that a member sends is that of the group, and is recorded."""
    sent, present = request.topology, group.topology
    if sent is None:
        if present is None:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        return present
    if sent.epoch < 0:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    value = value_of(sent)
    topology = Topology(value.epoch, value.subtopologies)
    if present is None:
        made.append(records.topology(group.group_id, value))
        return topology
    if present.epoch <= sent.epoch and present != topology:
        raise invalid("Topology updates are not supported yet.")
    return present


def _stale(group: StreamsGroup, description: Description) -> list[Status]:
    if group.topology is None or description.topology_epoch >= group.topology.epoch:
        return []
    detail = (
        f"The member's topology epoch {description.topology_epoch} is behind the group's topology epoch "
        f"{group.topology.epoch}."
    )
    return [Status(answers.STALE_TOPOLOGY, detail)]


def _configure(step: Step, group: StreamsGroup, topology: Topology) -> tuple[Configured, int]:
    """The topology with its partition counts, and the hash of its topics. Both are kept while no topic changes.

    As on Kafka, a refused heartbeat does not change what the group knows.
    """
    image, configured, metadata_hash = step.state.image, group.configured, group.metadata_hash
    if configured is not None and group.topology is not None and group.hashed_version == image.version:
        return configured, metadata_hash
    metadata_hash = hash_of_topics(topology.topics, image, step.state.settings.broker_rack)
    if configured is None or group.topology is None or metadata_hash != group.metadata_hash:
        configured = configure(topology, image)
    return configured, metadata_hash


def _offsets(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, member: StreamsMember | None
) -> MemberOffsets | None:
    """The offsets of the member's tasks after this heartbeat. None when the heartbeat has none.

    As on Kafka, those of a present member count even if the heartbeat is refused afterwards.
    """
    if request.task_offsets is None and request.task_end_offsets is None:
        return None
    sums, ends = group.offsets.get(request.member_id, ({}, {}))
    offsets = (
        sums if request.task_offsets is None else _by_task(request.task_offsets),
        ends if request.task_end_offsets is None else _by_task(request.task_end_offsets),
    )
    if member is not None:
        group.offsets[member.member_id] = offsets
    return offsets


def _by_task(rows: Sequence[TaskOffset]) -> dict[str, dict[int, int]]:
    made: dict[str, dict[int, int]] = {}
    for row in rows:
        its = made.setdefault(row.subtopology_id, {})
        if row.partition in its:
            raise invalid(
                f"Task offsets contain a duplicate entry for subtopology {row.subtopology_id} and partition "
                f"{row.partition}."
            )
        its[row.partition] = row.offset
    return made


def _is_off_target(group: StreamsGroup, sender: Sender) -> bool:
    """Whether the member has other tasks than its target, although the group is stable."""
    mine = group.targets.get(sender.member_id, NO_TASKS)
    return not has_same_tasks(mine, sender.position.assigned) and group.state == STABLE


class _Epoch(NamedTuple):
    """The group's epoch after a heartbeat, and what its targets depend on. `is_refined`: targets stay the same."""

    number: int
    configured: Configured
    configs: Mapping[str, str]
    is_refined: bool
    offsets: MemberOffsets | None
    """The offsets of the sender's tasks."""


def _reach(
    step: Step,
    group: StreamsGroup,
    sender: Sender,
    description: Description,
    epoch: _Epoch,
    made: list[Record],
    statuses: list[Status],
) -> _Reached:
    """Compute the targets if they are due. Adds their records to `made`, and the reason of a delay to `statuses`."""
    group_id, before, replaced = group.group_id, group.targets, sender.replaced
    delay_ms = step.state.configs.of_streams(group_id).initial_delay_ms
    if group.delay.due_ms != NEVER or (not group.members and delay_ms):
        detail = "Assignment delayed due to the configured initial rebalance delay."
        statuses.append(Status(answers.ASSIGNMENT_DELAYED, detail))
        return _Reached(group.assignment_epoch, NO_TASKS)
    mine = before.get(sender.member_id if replaced is None else replaced.member_id, NO_TASKS)
    if group.assignment_epoch >= epoch.number:
        return _Reached(group.assignment_epoch, mine)
    if epoch.is_refined:
        made.append(records.target_epoch(group_id, epoch.number, group.assignment_ms))
        return _Reached(epoch.number, mine)
    if group.computing is not None:
        statuses.append(Status(answers.ASSIGNMENT_DELAYED, _COMPUTED))
        return _Reached(group.assignment_epoch, mine)
    if not target.is_in_time(step, group):
        statuses.append(Status(answers.ASSIGNMENT_DELAYED, _INTERVAL))
        return _Reached(group.assignment_epoch, mine)
    one = target.Candidate(
        sender.member_id, description, sender.position.assigned, {} if epoch.offsets is None else epoch.offsets[0]
    )
    old_id = None if replaced is None else replaced.member_id
    wanted = target.wanted(group, epoch.number, epoch.configured, epoch.configs, one, old_id)
    if step.state.helpers is not None and wanted.is_large():
        statuses.append(Status(answers.ASSIGNMENT_DELAYED, _COMPUTED))
        return _Reached(group.assignment_epoch, mine, None, wanted)
    computed = target.compute(wanted)
    made += computed.records
    made.append(records.target_epoch(group_id, epoch.number, step.now.wall_ms))
    return _Reached(epoch.number, computed.targets[sender.member_id], computed)


def _next_position(
    group: StreamsGroup,
    sender: Sender,
    description: Description,
    request: StreamsGroupHeartbeatRequest,
    reached: _Reached,
) -> Position:
    rows = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    owned = None if None in rows else Tasks(*[sets_of(one or ()) for one in rows])
    goal = Goal(description.process_id, reached.epoch, reached.its, group.owners, owned)
    return next_position(sender.position, goal)


def _set_timers(step: Step, group: StreamsGroup, member: StreamsMember, before: Position, *, was_empty: bool) -> None:
    """Begin the member's session again. Begin the time in which it has to give up tasks, if its position is new."""
    deadlines, configs, mono_ms = step.state.deadlines, step.state.configs.of_streams(group.group_id), step.now.mono_ms
    _begin_session(step, group, member)
    if member.position != before:
        if member.position.state == UNREVOKED_TASKS:
            member.revocation.epoch = member.position.epoch
            deadlines.set(member.revocation, mono_ms + member.description.rebalance_timeout_ms)
        else:
            deadlines.cancel(member.revocation)
    if was_empty and configs.initial_delay_ms and group.delay.due_ms == NEVER:
        deadlines.set(group.delay, mono_ms + configs.initial_delay_ms)


def _begin_session(step: Step, group: StreamsGroup, member: StreamsMember) -> None:
    session_timeout_ms = step.state.configs.of_streams(group.group_id).session_timeout_ms
    step.state.deadlines.set(member, step.now.mono_ms + session_timeout_ms)
