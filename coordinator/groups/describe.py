"""DescribeGroups (classic groups) and ListGroups (groups of all types), for administrators. Nothing changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster.coordinator.groups.classic.group import DEAD, STABLE, classic_group
from muster.coordinator.groups.common.state import State, Step
from muster.coordinator.groups.streams.group import NOT_READY
from muster.coordinator.state_machine.interface import Command
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from muster.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

_IN_FILTERS: Final[Mapping[str, str]] = {NOT_READY: "not_ready"}
"""States that have another name in a filter than in the answer, as on Kafka 4.4. Other names differ only by case."""


def describe_groups(step: Step, command: Command, request: DescribeGroupsRequest) -> None:
    """Answer a DescribeGroups with one row for each requested name, in the request's order, with duplicates."""
    rows = [_describe(step.state, group_id) for group_id in request.groups]
    step.reply(command.respond, DescribeGroupsResponse(0, rows))


def _describe(state: State, group_id: str) -> DescribedGroup:
    group = classic_group(state, group_id)
    if group is None:
        is_there = group_id in state.groups  # a group of another type
        message = f"Group {group_id} {'is not a classic group' if is_there else 'not found'}."
        return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, message, group_id, DEAD)
    # Only a Stable group has a protocol in force. Otherwise the answer has no protocol and no metadata.
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


def list_groups(step: Step, command: Command, request: ListGroupsRequest) -> None:
    """Answer a ListGroups: groups that match both filters, in any letter case. An empty filter matches all groups."""
    states = {name.strip().lower() for name in request.states_filter}
    kinds = {name.lower() for name in request.types_filter}
    rows = [
        ListedGroup(group.group_id, group.protocol_type or "", group.state, group.kind)
        for group in step.state.groups.values()
        if (not kinds or group.kind in kinds)
        and (not states or _IN_FILTERS.get(group.state, group.state.lower()) in states)
    ]
    step.reply(command.respond, ListGroupsResponse(0, 0, rows))
