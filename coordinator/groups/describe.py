"""DescribeGroups and ListGroups: groups as administrators see them. Changes nothing."""

from __future__ import annotations

from muster.coordinator.core.interface import Command
from muster.coordinator.groups.classic.states import DEAD, STABLE
from muster.coordinator.groups.common.state import State
from muster.coordinator.groups.common.step import Step
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from muster.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def describe(step: Step, command: Command, request: DescribeGroupsRequest) -> None:
    """Answer a DescribeGroups: one row for each name, in their order, duplicates included."""
    rows = [_describe(step.state, group_id) for group_id in request.groups]
    step.reply(command.respond, DescribeGroupsResponse(0, rows))


def list_groups(step: Step, command: Command, request: ListGroupsRequest) -> None:
    """Answer a ListGroups: those whose state and type are among the filters (case does not matter, none means all)."""
    states = {name.strip().lower() for name in request.states_filter}
    kinds = {name.lower() for name in request.types_filter}
    rows = [
        ListedGroup(group.group_id, group.protocol_type or "", group.state, group.kind)
        for group in step.state.groups.values()
        if (not states or group.state.lower() in states) and (not kinds or group.kind in kinds)
    ]
    step.reply(command.respond, ListGroupsResponse(0, 0, rows))


def _describe(state: State, group_id: str) -> DescribedGroup:
    group = state.classic(group_id)
    if group is None:
        is_there = group_id in state.groups  # but of a type that is not served
        message = f"Group {group_id} {'is not a classic group' if is_there else 'not found'}."
        return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, message, group_id, DEAD)
    # the chosen protocol and what goes with it are shown only when it is in force
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
