"""What a StreamsGroupHeartbeat must be like. Each function raises Refused with Kafka's error code and message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muster.coordinator.groups.common.refusal import Refused, check_text, invalid
from muster.coordinator.groups.streams.internal_topics import MAX_TASKS, Configured
from muster.coordinator.groups.streams.member import (
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    Position,
    StreamsMember,
)
from muster.coordinator.groups.streams.tasks import is_within
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    Topology,
)

Rows = Sequence[StreamsGroupHeartbeatRequestTaskIds] | None


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    """Check the fields of a heartbeat, before any group is looked at."""
    sent, epoch = request.topology, request.member_epoch
    if sent is not None and any(row.source_topic_regex for row in sent.subtopologies):
        raise invalid("Regular expressions for source topics are not supported yet.")
    check_text(request.member_id, "MemberId can't be empty.")
    check_text(request.group_id, "GroupId can't be empty.")
    check_text(request.instance_id, "InstanceId can't be empty.")
    check_text(request.rack_id, "RackId can't be empty.")
    kinds = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    _check_counts(request, kinds)
    if epoch == 0:
        if request.rebalance_timeout_ms == -1:
            raise invalid("RebalanceTimeoutMs must be provided in first request.")
        for kind, rows in zip(("Active", "Standby", "Warmup"), kinds, strict=True):
            if rows is None or rows:
                raise invalid(f"{kind}Tasks must be empty when (re-)joining.")
        if sent is None:
            raise invalid("Topology must be non-null when (re-)joining.")
        _check_changelogs(sent)
    elif epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        if request.instance_id is None:
            raise invalid("InstanceId can't be null.")
    elif epoch < LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        raise invalid(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    if None in kinds and kinds != (None, None, None):
        raise invalid("If one task-type is non-null, all must be non-null.")
    if epoch and sent is not None:
        raise invalid("Topology can only be provided when (re-)joining.")


def _check_counts(request: StreamsGroupHeartbeatRequest, kinds: Iterable[Rows]) -> None:
    """Check that a heartbeat does not have absurdly many tasks or offsets. Kafka has no such limit."""
    counts = [len(rows or ()) for rows in (request.task_offsets, request.task_end_offsets, *kinds)]
    counts += [sum([len(row.partitions) for row in rows or ()]) for rows in kinds]
    if max(counts) > MAX_TASKS:
        raise invalid(f"The heartbeat has more than {MAX_TASKS} tasks or offsets of one kind.")


def _check_changelogs(sent: Topology) -> None:
    for row in sent.subtopologies:
        for topic in row.state_changelog_topics:
            if topic.partitions:
                raise Refused(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}.",
                )


def check_epoch(position: Position, request: StreamsGroupHeartbeatRequest) -> None:
    """Check that a member sends its present epoch, or its previous epoch with tasks that it has, or 0."""
    epoch, assigned = request.member_epoch, position.assigned
    if epoch in (0, position.epoch):
        return
    if epoch > position.epoch:
        than = "greater"
    elif (
        epoch == position.previous_epoch
        and is_within(request.active_tasks, assigned.active)
        and is_within(request.standby_tasks, assigned.standby)
        and is_within(request.warmup_tasks, assigned.warmup)
    ):
        return
    else:
        than = "smaller"
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {than} member epoch ({epoch}) than the one known by the group coordinator "
        f"({position.epoch}). The member must abandon all its partitions and rejoin.",
    )


def check_static(member: StreamsMember | None, request: StreamsGroupHeartbeatRequest) -> StreamsMember:
    """The static member of the request's instance id, which must have the request's member id."""
    if member is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {request.instance_id} is unknown.")
    if member.member_id != request.member_id:
        raise Refused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {request.member_id} with instance id {request.instance_id} was fenced by member "
            f"{member.member_id}.",
        )
    return member


def check_released(member: StreamsMember, request: StreamsGroupHeartbeatRequest) -> None:
    """Check that a static member has left, before another process takes its place."""
    if member.position.epoch != LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        raise Refused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {request.member_id} with instance id {request.instance_id} cannot join the group because "
            f"the instance id is owned by {member.member_id} member.",
        )


def check_tasks(configured: Configured, request: StreamsGroupHeartbeatRequest) -> None:
    """Check that the tasks of a heartbeat exist in a topology that is ready."""
    if configured.status is not None:
        return
    for rows in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        _check_rows(configured, rows)


def _check_rows(configured: Configured, rows: Rows) -> None:
    for row in rows or ():
        its = configured.subtopologies.get(row.subtopology_id)
        if its is None:
            raise invalid(f"Subtopology {row.subtopology_id} does not exist in the topology.")
        for number in row.partitions:
            if not 0 <= number < its.tasks:
                raise invalid(
                    f"Task {number} for subtopology {row.subtopology_id} is invalid. Number of tasks for this "
                    f"subtopology: {its.tasks}"
                )
