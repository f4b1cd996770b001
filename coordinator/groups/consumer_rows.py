"""The rows of consumer groups (KIP-848) in the tables of `dispatch` and `replay`.

The first such group, request or record adds them. So a server without these groups does not pay for them at its start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Final

from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.common.state import Replay
from muster.coordinator.groups.common.step import Step
from muster.coordinator.groups.consumer import (
    classic_members,
    heartbeat,
    leave,
    lifetime,
    member,
    patterns,
    replay,
)
from muster.coordinator.groups.consumer.commands import (
    AnswersDue,
    AssignmentComputed,
    ConsumerHeartbeatCommand,
    TopicsFound,
    UpgradePrepared,
)
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.migration import downgrade, upgrade
from muster.coordinator.groups.migration.reading import NOTHING_READ
from muster.coordinator.groups.unsupported_group import UnsupportedGroup
from muster.protocol.message import Message
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from muster.protocol.messages.group_records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from muster.protocol.messages.group_records.consumer_group_member_metadata import ConsumerGroupMemberMetadataKey
from muster.protocol.messages.group_records.consumer_group_metadata import ConsumerGroupMetadataKey
from muster.protocol.messages.group_records.consumer_group_partition_metadata import ConsumerGroupPartitionMetadataKey
from muster.protocol.messages.group_records.consumer_group_regular_expression import ConsumerGroupRegularExpressionKey
from muster.protocol.messages.group_records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from muster.protocol.messages.group_records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
)


def upgrade_prepared(step: Step, told: UpgradePrepared) -> None:
    """A large classic group was read: answer the heartbeat that upgrades it, by the present state of the group."""
    command = told.command
    command.prepared = told.prepared or NOTHING_READ
    request: Any = command.request
    handle(step, command, request)


ROWS: Final[Mapping[str, Mapping[Any, Callable[..., Any]]]] = {
    "JoinGroup": {ConsumerGroup: downgrade.join_consumer_group},
    "SyncGroup": {ConsumerGroup: classic_members.sync},
    "LeaveGroup": {ConsumerGroup: classic_members.leave_group},
    "Heartbeat": {ConsumerGroup: classic_members.beat},
    "deadlines": {
        member.SESSION: leave.on_deadline,
        member.REVOCATION: leave.on_rebalance_deadline,
        member.JOIN: leave.on_rebalance_deadline,
        member.SYNC: leave.on_rebalance_deadline,
    },
    "loaded": {ConsumerGroup: lifetime.loaded},
    "unloaded": {ConsumerGroup: lifetime.unload},
    "told": {
        AssignmentComputed: lifetime.computed,
        AnswersDue: lifetime.answer,
        TopicsFound: patterns.found,
        UpgradePrepared: upgrade_prepared,
    },
}
"""The rows, by the name of the table in `dispatch`."""

CONSUMER_HEARTBEATS: Final[Mapping[type, Callable[[Step, Any, Any, Any], None]]] = {
    ClassicGroup: upgrade.heartbeat_to_classic_group,
    ConsumerGroup: heartbeat.handle,
    UnsupportedGroup: heartbeat.handle,
    NoneType: heartbeat.handle,
}
"""The functions for ConsumerGroupHeartbeat, by the type of the group that it names."""

RECORDS: Final[Mapping[type[Message], Replay]] = {
    ConsumerGroupMemberMetadataKey: replay.replay_member,
    ConsumerGroupMetadataKey: replay.replay_epoch,
    ConsumerGroupPartitionMetadataKey: replay.replay_partition_metadata,
    ConsumerGroupTargetAssignmentMemberKey: replay.replay_target,
    ConsumerGroupTargetAssignmentMetadataKey: replay.replay_target_epoch,
    ConsumerGroupCurrentMemberAssignmentKey: replay.replay_current,
    ConsumerGroupRegularExpressionKey: replay.replay_pattern,
}
"""The rows for `replay.RECORDS`."""


def handle(step: Step, command: ConsumerHeartbeatCommand, request: ConsumerGroupHeartbeatRequest) -> None:
    """Answer a ConsumerGroupHeartbeat."""
    group = step.state.groups.get(request.group_id)
    CONSUMER_HEARTBEATS[type(group)](step, command, request, group)
