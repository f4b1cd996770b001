"""Equal heartbeats of a member that has its tasks, in a streams group without changes. Nearly all are of this kind."""

from __future__ import annotations

from muster.coordinator.groups.common.state import State
from muster.coordinator.groups.streams import answers, target
from muster.coordinator.groups.streams.answers import Beaten
from muster.coordinator.groups.streams.group import StreamsGroup, streams_group
from muster.coordinator.groups.streams.member import STABLE, Description, StreamsMember
from muster.coordinator.groups.streams.tasks import NO_TASKS, has_same_tasks
from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.state_machine.interface import Client
from muster.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)


class SteadyMember:
    """Answers equal heartbeats of one member in one position: a part of `heartbeat.handle`, without look-ups.

    A test compares `SteadyMember` with `handle`. A changed description or position of a member is always a new object.
    So `heartbeat` compares only objects and numbers.
    """

    __slots__ = (
        "_at", "_configs", "_description", "_endpoints", "_epoch", "_group", "_member", "_session_ms", "_state",
        "response",
    )  # fmt: skip

    def __init__(
        self, state: State, group: StreamsGroup, member: StreamsMember, response: StreamsGroupHeartbeatResponse
    ) -> None:
        self._state, self._group, self._member = state, group, member
        self._at, self._description, self._epoch = member.position, member.description, group.epoch
        self._configs, self._endpoints = state.configs.version, group.endpoint_epoch
        self._session_ms = state.configs.of_streams(group.group_id).session_timeout_ms
        self.response = response
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
            or group.endpoint_epoch != self._endpoints
            or group.shutdown_by is not None
            or state.configs.version != self._configs
            or member.due_ms == NEVER
        ):
            return False
        due_ms = mono_ms + self._session_ms
        if due_ms < member.queued_ms:
            return False
        member.due_ms = due_ms
        return True


def prepare_heartbeat(state: State, request: StreamsGroupHeartbeatRequest, client: Client) -> SteadyMember | None:
    """The `SteadyMember` for equal heartbeats; None when the member is not steady. Call this before `handle`."""
    group = streams_group(state, request.group_id)
    member = None if group is None else group.members.get(request.member_id)
    if group is None or member is None or not _says_nothing(request, member.description, client):
        return None
    description, position, configured = member.description, member.position, group.configured
    if (
        configured is None
        or request.member_epoch != position.epoch
        or request.endpoint_information_epoch != group.endpoint_epoch
        or not _is_steady(state, group, member)
    ):
        return None
    beaten = Beaten(request, answers.TAGS_SINCE, description.endpoint, position, description, position)
    response = answers.response_to(state, group, beaten, [], configured)
    response.endpoint_information_epoch = group.endpoint_epoch
    return None if response.status else SteadyMember(state, group, member, response)


def _says_nothing(request: StreamsGroupHeartbeatRequest, description: Description, client: Client) -> bool:
    return (
        request.topology is None
        and request.process_id is request.rack_id is None
        and request.user_endpoint is None
        and request.client_tags is None
        and request.task_offsets is request.task_end_offsets is None
        and request.active_tasks is request.standby_tasks is request.warmup_tasks is None
        and request.rebalance_timeout_ms == -1
        and not request.shutdown_application
        and request.instance_id in (None, description.instance_id)
        and (description.client_id, description.client_host) == (client.client_id, client.host)
    )


def _is_steady(state: State, group: StreamsGroup, member: StreamsMember) -> bool:
    position, topology = member.position, group.topology
    return (
        position.epoch == group.epoch == group.assignment_epoch
        and position.state == STABLE
        and topology is not None
        and topology.epoch == group.validated_epoch
        and member.description.topology_epoch >= topology.epoch
        and group.hashed_version == state.image.version
        and group.unready is None
        and group.last_configs == target.configs_of(state, group.group_id)
        and has_same_tasks(group.targets.get(member.member_id, NO_TASKS), position.assigned)
    )
