"""Which function decides what: tables by request or notice, type of the group, and kind of deadline.

A type of group is a class with the methods of `common.group.Group`, a package, and rows here and in `replay`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Final, TypeVar

from muster.coordinator.groups import describe, unsupported_group
from muster.coordinator.groups.classic import join, parked_requests, rebalance, sessions
from muster.coordinator.groups.classic.group import JOIN_PHASE, SYNC_PHASE, ClassicGroup
from muster.coordinator.groups.classic.member import SESSION
from muster.coordinator.groups.common.image import TopicsChanged
from muster.coordinator.groups.common.settings import GroupConfigured, IntervalConfigured
from muster.coordinator.groups.common.state import State, Step
from muster.coordinator.groups.consumer import classic_members, computed_targets, heartbeat, leave, member, topics
from muster.coordinator.groups.consumer import describe as consumer_describe
from muster.coordinator.groups.consumer.commands import AnswersDue, AssignmentComputed, TopicsFound, UpgradePrepared
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.migration import downgrade, upgrade
from muster.coordinator.groups.offsets import commit, deletion, fetch, retention, txn_commit
from muster.coordinator.groups.unsupported_group import UnsupportedGroup
from muster.coordinator.state_machine.interface import Reply
from muster.protocol.message import Message
from muster.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.join_group import JoinGroupRequest
from muster.protocol.messages.leave_group import LeaveGroupRequest
from muster.protocol.messages.list_groups import ListGroupsRequest
from muster.protocol.messages.offset_commit import OffsetCommitRequest
from muster.protocol.messages.offset_delete import OffsetDeleteRequest
from muster.protocol.messages.offset_fetch import OffsetFetchRequest
from muster.protocol.messages.sync_group import SyncGroupRequest
from muster.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

T = TypeVar("T")


def _as_if_absent(answer: Callable[..., T]) -> Callable[..., T]:
    """Treat a group of another type as if the group did not exist."""
    return lambda *before_group: answer(*before_group[:-1], None)


NO_GROUP: Final = NoneType
MEMBER_REQUESTS: Final[Mapping[type[Message], Mapping[type, Callable[[Step, Any, Any, Any], None]]]] = {
    JoinGroupRequest: {
        ClassicGroup: join.handle,
        ConsumerGroup: downgrade.join_consumer_group,
        UnsupportedGroup: join.create_group,
        NO_GROUP: join.create_group,
    },
    SyncGroupRequest: {
        ClassicGroup: rebalance.sync_group,
        ConsumerGroup: classic_members.sync,
        UnsupportedGroup: _as_if_absent(rebalance.sync_group),
        NO_GROUP: rebalance.sync_group,
    },
    LeaveGroupRequest: {
        ClassicGroup: sessions.leave_group,
        ConsumerGroup: classic_members.leave_group,
        UnsupportedGroup: _as_if_absent(sessions.leave_group),
        NO_GROUP: sessions.leave_group,
    },
    ConsumerGroupHeartbeatRequest: {
        ClassicGroup: upgrade.heartbeat_to_classic_group,
        ConsumerGroup: heartbeat.handle,
        UnsupportedGroup: heartbeat.handle,
        NO_GROUP: heartbeat.handle,
    },
}
"""Requests of members, by the type of the group that they name: function(step, command, request, group)."""

HEARTBEATS: Final[Mapping[type, Callable[[State, HeartbeatRequest, int, Any], HeartbeatResponse]]] = {
    ClassicGroup: sessions.heartbeat,
    ConsumerGroup: classic_members.beat,
    UnsupportedGroup: _as_if_absent(sessions.heartbeat),
    NO_GROUP: sessions.heartbeat,
}
"""Heartbeat has no output but its answer: function(state, request, mono_ms, group)."""


def _member_request(step: Step, command: Any, request: Any) -> None:
    group = step.state.groups.get(request.group_id)
    MEMBER_REQUESTS[type(request)][type(group)](step, command, request, group)


def _heartbeat(step: Step, command: Any, request: HeartbeatRequest) -> None:
    group = step.state.groups.get(request.group_id)
    step.reply(command.respond, HEARTBEATS[type(group)](step.state, request, step.now.mono_ms, group))


def _upgrade_prepared(step: Step, _: object, notice: UpgradePrepared) -> None:
    """A large classic group was read: answer the heartbeat that upgrades it, by the present state of the group."""
    command = notice.command
    command.prepared = notice.prepared or upgrade.NOTHING_READ
    _member_request(step, command, command.request)


def _configured(step: Step, _: object, notice: GroupConfigured | IntervalConfigured) -> None:
    step.state.configs.apply(notice)


HANDLERS: Final[Mapping[type, Callable[[Step, Any, Any], None]]] = {
    # requests that all types of groups answer alike
    OffsetCommitRequest: commit.handle,
    TxnOffsetCommitRequest: txn_commit.handle,
    OffsetFetchRequest: fetch.handle,
    OffsetDeleteRequest: deletion.delete_offsets,
    DeleteGroupsRequest: deletion.delete_groups,
    DescribeGroupsRequest: describe.describe_groups,
    ListGroupsRequest: describe.list_groups,
    ConsumerGroupDescribeRequest: consumer_describe.handle,
    # requests of members
    **dict.fromkeys(MEMBER_REQUESTS, _member_request),
    HeartbeatRequest: _heartbeat,
    # notices: input of the core besides requests
    TopicsChanged: lambda step, _, notice: deletion.change_topics(step, notice),
    GroupConfigured: _configured,
    IntervalConfigured: _configured,
    AssignmentComputed: lambda step, _, notice: computed_targets.computed(step, notice),
    AnswersDue: lambda step, _, notice: computed_targets.answer(step, notice),
    TopicsFound: lambda step, _, notice: topics.apply_resolved_patterns(step, notice),
    UpgradePrepared: _upgrade_prepared,
}
"""By the type of the request, or of the notice: function(step, command, request or notice)."""

DEADLINES: Final[Mapping[str, Callable[[Step, Any, Any], None]]] = {
    SESSION: rebalance.on_session_deadline,
    JOIN_PHASE: rebalance.on_join_deadline,
    SYNC_PHASE: rebalance.on_sync_deadline,
    rebalance.PENDING: rebalance.on_pending_deadline,
    parked_requests.ABANDONED: parked_requests.on_abandoned_deadline,
    member.SESSION: leave.on_deadline,
    member.REVOCATION: leave.on_rebalance_deadline,
    member.JOIN: leave.on_rebalance_deadline,
    member.SYNC: leave.on_rebalance_deadline,
    retention.RETENTION: retention.on_deadline,
    deletion.TOPIC_DELETION: deletion.on_topic_deletion_deadline,
}
"""By the deadline's kind: function(step, group, deadline). The group is None when the deadline belongs to no group."""

LOADED: Final[Mapping[type, Callable[[Step, Any], None]]] = {
    ClassicGroup: rebalance.loaded,
    ConsumerGroup: computed_targets.loaded,
    UnsupportedGroup: unsupported_group.loaded,
}
"""The function for a group when all records are replayed."""

UNLOADED: Final[Mapping[type, Callable[[Any, int], list[Reply]]]] = {
    ClassicGroup: parked_requests.unload,
    ConsumerGroup: computed_targets.unload,
    UnsupportedGroup: lambda *_: [],
}
"""The replies that a group still owes when the core is given up: function(group, error code)."""
