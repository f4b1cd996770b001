"""The answer to a streams group's heartbeat: tasks, what is wrong, and which instance has which partitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from muster.assignors.java_order import string_order
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.refusal import Refused
from muster.coordinator.groups.common.state import State, Step
from muster.coordinator.groups.streams.group import StreamsGroup
from muster.coordinator.groups.streams.internal_topics import Configured, Status
from muster.coordinator.groups.streams.member import Description, Position, StreamsMember
from muster.coordinator.groups.streams.tasks import Held, united
from muster.protocol.errors import ErrorCode
from muster.protocol.messages import streams_group_heartbeat as message
from muster.protocol.messages.streams_group_heartbeat import (
    EndpointToPartitions,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatResponseEndpoint,
    StreamsGroupHeartbeatResponseTaskIds,
    TopicPartition,
)

STALE_TOPOLOGY: Final = 0
SHUTDOWN_APPLICATION: Final = 4
ASSIGNMENT_DELAYED: Final = 5
MISSING_CLIENT_TAGS: Final = 6
"""Status codes. `internal_topics` has the other ones."""
TAGS_SINCE: Final = 1
"""The first version of the heartbeat that reports missing client tags."""


class Beaten(NamedTuple):
    """A heartbeat, and what the member was before it and is after it."""

    request: StreamsGroupHeartbeatRequest
    version: int
    endpoint_before: tuple[str, int] | None
    position_before: Position
    description: Description
    position: Position

    @property
    def is_moved(self) -> bool:
        """Whether the member has other tasks."""
        return self.position.assigned != self.position_before.assigned


def response_to(
    state: State, group: StreamsGroup, beaten: Beaten, statuses: list[Status], configured: Configured
) -> StreamsGroupHeartbeatResponse:
    """The answer, without endpoints."""
    request, position, configs = beaten.request, beaten.position, state.configs.of_streams(group.group_id)
    response = StreamsGroupHeartbeatResponse(
        0, 0, None, request.member_id, position.epoch, configs.heartbeat_interval_ms, 0,
        configs.task_offset_interval_ms, configs.acceptable_recovery_lag,
    )  # fmt: skip
    if not request.member_epoch or beaten.is_moved:
        response.active_tasks, response.standby_tasks, response.warmup_tasks = map(_rows, position.assigned)
    statuses += _statuses(state, group, beaten, configured)
    response.status = [message.Status(*one) for one in statuses]
    return response


def _statuses(state: State, group: StreamsGroup, beaten: Beaten, configured: Configured) -> list[Status]:
    made = [] if configured.status is None else [configured.status]
    if group.shutdown_by is not None:
        detail = (
            f"Streams group member {group.shutdown_by} encountered a fatal error and requested a shutdown for the "
            f"entire application."
        )
        made.append(Status(SHUTDOWN_APPLICATION, detail))
    wanted = state.configs.of_streams(group.group_id).rack_tags
    there = {key for key, _ in beaten.description.client_tags}
    lacking = [tag for tag in wanted if tag not in there]
    if lacking and beaten.version >= TAGS_SINCE:
        detail = (
            f"Missing required client tags for rack-aware standby assignment: [{', '.join(lacking)}]. Configure them "
            f"via 'client.tag.<tagKey>' in your Streams config."
        )
        made.append(Status(MISSING_CLIENT_TAGS, detail))
    return made


def _rows(tasks: Mapping[str, Collection[int]]) -> list[StreamsGroupHeartbeatResponseTaskIds]:
    return [StreamsGroupHeartbeatResponseTaskIds(name, sorted(tasks[name])) for name in string_order(tasks)]


def endpoints_of(
    step: Step, group: StreamsGroup, beaten: Beaten, replaced: StreamsMember | None, configured: Configured
) -> list[EndpointToPartitions] | None:
    """The partitions of each instance that has an endpoint. None when the member knows the present epoch of them.

    Raises Refused where Kafka fails, without known topics. As on Kafka, the epoch grows even then.
    """
    endpoint, request = beaten.description.endpoint, beaten.request
    if endpoint != beaten.endpoint_before or (beaten.is_moved and endpoint is not None):
        group.endpoint_epoch += 1
    if group.endpoint_epoch == request.endpoint_information_epoch:
        return None
    gone = {request.member_id, "" if replaced is None else replaced.member_id}
    members = [group.members[one] for one in group.member_ids() if one not in gone]
    rows = [(one.description.endpoint, one.position.assigned) for one in members]
    rows.append((endpoint, beaten.position.assigned))
    image = step.state.image
    return [_endpoint(one, assigned, configured, image) for one, assigned in rows if one is not None]


def _endpoint(
    endpoint: tuple[str, int], assigned: Held, configured: Configured, image: TopicsImage
) -> EndpointToPartitions:
    if not configured.subtopologies:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    return EndpointToPartitions(
        StreamsGroupHeartbeatResponseEndpoint(*endpoint),
        _partitions(assigned.active, configured, image),
        _partitions(united(assigned.standby, assigned.warmup), configured, image),
    )


def _partitions(
    tasks: Mapping[str, Collection[int]], configured: Configured, image: TopicsImage
) -> list[TopicPartition]:
    """The partitions that these tasks read. Subtopologies ascend; on Kafka their order is random."""
    made = []
    for name in sorted(tasks):
        row = configured.subtopologies.get(name)
        if row is None:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        for topic in string_order([*row.source_topics, *row.repartition_sources]):
            present = image.by_name.get(topic)
            if present is None:
                raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
            numbers = sorted([one for one in tasks[name] if one < present.partitions])
            if numbers:
                made.append(TopicPartition(topic, numbers))
    return made
