"""Heartbeats of members that have reached their targets, in groups without changes: nearly all heartbeats."""

from __future__ import annotations

from muster.coordinator.groups.common.state import State
from muster.coordinator.groups.consumer.group import ConsumerGroup, consumer_group
from muster.coordinator.groups.consumer.member import ConsumerMember
from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.state_machine.interface import Client
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


class SteadyMember:
    """One member in one position, for repeated heartbeats without changes: a part of `heartbeat.handle` without
    look-ups.

    A test compares both. The description and the position of a member are values that are replaced as wholes. While
    they are the same objects, nothing in them has changed. A member's session runs while it is in its group and its
    core is active.
    """

    __slots__ = ("_at", "_configs", "_epoch", "_group", "_member", "_said", "_session_ms", "_state", "response")

    def __init__(self, state: State, group: ConsumerGroup, member: ConsumerMember) -> None:
        self._state, self._group, self._member = state, group, member
        self._at, self._said, self._epoch = member.at, member.said, group.epoch
        self._configs = state.configs.version
        times = state.configs.of(group.group_id)
        self._session_ms = times.session_timeout_ms
        self.response = ConsumerGroupHeartbeatResponse(
            0, 0, None, member.member_id, member.at.epoch, times.heartbeat_interval_ms, None
        )
        """The answer to each such heartbeat."""

    def heartbeat(self, mono_ms: int) -> bool:
        """Whether the answer is `response`, and only the deadline changes. If True, the deadline is moved.

        If False, nothing was done.
        """
        member, group, state = self._member, self._group, self._state
        if (
            member.at is not self._at
            or member.said is not self._said
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


def prepare(state: State, request: ConsumerGroupHeartbeatRequest, client: Client) -> SteadyMember | None:
    """The sender of such heartbeats. None when no member can be prepared now. Call it before the
    heartbeat is handled.
    """
    group = consumer_group(state, request.group_id)
    member = None if group is None else group.members.get(request.member_id)
    if group is None or member is None:
        return None
    at, said = member.at, member.said
    is_steady = (
        request.member_epoch == at.epoch == group.epoch
        and at.epoch > 0
        and member.is_reconciled_to(group.assignment_epoch)
        and group.assignment_epoch == group.epoch
        and group.hashed_version == state.image.version
        and not group.patterns
    )
    says_nothing = (
        request.subscribed_topic_names is request.subscribed_topic_regex is None
        and request.rack_id is request.server_assignor is None
        and request.rebalance_timeout_ms == -1
        and request.instance_id in (None, said.instance_id)
        and (said.client_id, said.client_host) == (client.client_id, client.host)
        and said.classic is None
    )
    return SteadyMember(state, group, member) if is_steady and says_nothing else None
