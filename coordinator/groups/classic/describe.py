"""DescribeGroups: classic groups as administrators see them. Changes nothing."""

from __future__ import annotations

from muster.coordinator.groups.classic.group import classic_group
from muster.coordinator.groups.classic.states import DEAD, STABLE
from muster.coordinator.groups.common.state import State
from muster.coordinator.groups.common.step import Step
from muster.coordinator.state_machine.interface import Command
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


def handle(step: Step, command: Command, request: DescribeGroupsRequest) -> None:
    """Answer a DescribeGroups: one row for each name, in their order, duplicates included."""
    rows = [_describe(step.state, group_id) for group_id in request.groups]
    step.reply(command.respond, DescribeGroupsResponse(0, rows))


def _describe(state: State, group_id: str) -> DescribedGroup:
    group = classic_group(state, group_id)
    if group is None:
        is_there = group_id in state.groups  # but of an unsupported type
        message = f"Group {group_id} {'is not a classic group' if is_there else 'not found'}."
        return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, message, group_id, DEAD)
    # The chosen protocol and its fields are shown only when the protocol is in force.
    name = group.protocol_name if group.state == STABLE else None
    members = [
        DescribedGroupMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.metadata(name),
            member.assignment,
        )
        for member in group.members.values()
    ]
    return DescribedGroup(0, None, group_id, group.state, group.protocol_type or "", name or "", members)
