"""Which function decides what: tables by request, type of the group, and kind of deadline.

A type of group is a class with the methods of `common.group.Group`, a package, and rows here and in `replay`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import NoneType
from typing import Any, Final, TypeVar

from muster.coordinator.groups import unsupported_group
from muster.coordinator.groups.classic import (
    describe,
    heartbeat,
    join,
    leave,
    parked_requests,
    pending_members,
    rebalance,
    sync,
)
from muster.coordinator.groups.classic.group import JOIN_PHASE, SYNC_PHASE, ClassicGroup
from muster.coordinator.groups.classic.member import SESSION
from muster.coordinator.groups.common import list_groups
from muster.coordinator.groups.common.group_configs import GroupConfigured, IntervalConfigured
from muster.coordinator.groups.common.image import TopicsChanged
from muster.coordinator.groups.common.state import State
from muster.coordinator.groups.common.step import Step
from muster.coordinator.groups.offsets import commit, deletion, fetch, retention, topic_deletion
from muster.coordinator.groups.unsupported_group import UnsupportedGroup
from muster.coordinator.state_machine.interface import Reply
from muster.protocol.message import Message
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

T = TypeVar("T")
K = TypeVar("K")
Row = TypeVar("Row")


class Rows(dict[K, Row]):
    """A table whose rows for consumer groups (`consumer_rows`) are added at the first look-up of such a row."""

    def __init__(self, name: str, rows: Mapping[K, Row]) -> None:
        super().__init__(rows)
        self._name = name

    def __missing__(self, key: K) -> Row:
        """Raises KeyError when no such row exists."""
        late = import_module("muster.coordinator.groups.consumer_rows").ROWS[self._name]
        for one, row in late.items():
            self.setdefault(one, row)
        if key not in late:
            raise KeyError(key)
        return self[key]


REQUESTS: Final[Mapping[type[Message], Callable[[Step, Any, Any], None]]] = {
    OffsetCommitRequest: commit.handle,
    OffsetFetchRequest: fetch.handle,
    OffsetDeleteRequest: deletion.delete_offsets,
    DescribeGroupsRequest: describe.handle,
    ListGroupsRequest: list_groups.handle,
    DeleteGroupsRequest: deletion.delete_groups,
}
"""Requests that are handled alike for groups of all types: function(step, command, request)."""

SELDOM: Final[Mapping[str, str]] = {
    "TxnOffsetCommitRequest": "offsets.txn_commit",
    "ConsumerGroupHeartbeatRequest": "consumer_rows",
    "ConsumerGroupDescribeRequest": "consumer.describe",
}
"""More requests, by name: the module with their `handle`, imported at the first such request.

A server without transactions and consumer groups does not pay for these modules.
"""


def seldom(request: type[Message]) -> Callable[[Step, Any, Any], None] | None:
    """The function of `SELDOM` for such a request. None when the table does not have one."""
    module = SELDOM.get(request.__name__)
    return None if module is None else _handle_of(module)


@cache
def _handle_of(module: str) -> Callable[[Step, Any, Any], None]:
    handle: Callable[[Step, Any, Any], None] = import_module(f"muster.coordinator.groups.{module}").handle
    return handle


def _as_if_absent(answer: Callable[..., T]) -> Callable[..., T]:
    """Treat a group of another type as if the group did not exist."""
    return lambda *before_group: answer(*before_group[:-1], None)


NO_GROUP: Final = NoneType
MEMBER_REQUESTS: Final[Mapping[type[Message], Mapping[type, Callable[[Step, Any, Any, Any], None]]]] = {
    JoinGroupRequest: Rows(
        "JoinGroup",
        {
            ClassicGroup: join.handle,
            UnsupportedGroup: join.create_group,
            NO_GROUP: join.create_group,
        },
    ),
    SyncGroupRequest: Rows(
        "SyncGroup",
        {
            ClassicGroup: sync.handle,
            UnsupportedGroup: _as_if_absent(sync.handle),
            NO_GROUP: sync.handle,
        },
    ),
    LeaveGroupRequest: Rows(
        "LeaveGroup",
        {
            ClassicGroup: leave.handle,
            UnsupportedGroup: _as_if_absent(leave.handle),
            NO_GROUP: leave.handle,
        },
    ),
}
"""Requests of members, by the type of the group that they name: function(step, command, request, group)."""

HEARTBEATS: Final[Mapping[type, Callable[[State, HeartbeatRequest, int, Any], HeartbeatResponse]]] = Rows(
    "Heartbeat",
    {
        ClassicGroup: heartbeat.answer,
        UnsupportedGroup: _as_if_absent(heartbeat.answer),
        NO_GROUP: heartbeat.answer,
    },
)
"""Heartbeat has no output but its answer: function(state, request, mono_ms, group)."""

DEADLINES: Final[Mapping[str, Callable[[Step, Any, Any], None]]] = Rows(
    "deadlines",
    {
        SESSION: rebalance.on_session_deadline,
        JOIN_PHASE: rebalance.on_join_deadline,
        SYNC_PHASE: rebalance.on_sync_deadline,
        pending_members.PENDING: pending_members.on_pending_deadline,
        parked_requests.ORPHAN: parked_requests.on_abandoned_deadline,
        retention.RETENTION: retention.on_deadline,
        topic_deletion.TOPIC_DELETION: topic_deletion.on_deadline,
    },
)
"""By the deadline's kind: function(step, group, deadline). The group is None when the deadline belongs to no group."""

LOADED: Final[Mapping[type, Callable[[Step, Any], None]]] = Rows(
    "loaded",
    {
        ClassicGroup: rebalance.loaded,
        UnsupportedGroup: unsupported_group.loaded,
    },
)
"""The function for a group when all records are replayed."""

UNLOADED: Final[Mapping[type, Callable[[Any, int], list[Reply]]]] = Rows(
    "unloaded",
    {
        ClassicGroup: parked_requests.unload,
        UnsupportedGroup: lambda *_: [],
    },
)
"""The replies that a group still owes when the core is given up: function(group, error code)."""

TOLD: Final[Mapping[type, Callable[[Step, Any], None]]] = Rows(
    "told",
    {
        TopicsChanged: topic_deletion.change_topics,
        GroupConfigured: lambda step, told: step.state.configs.take(told),
        IntervalConfigured: lambda step, told: step.state.configs.take(told),
    },
)
"""The input of the core besides requests: function(step, notice)."""
