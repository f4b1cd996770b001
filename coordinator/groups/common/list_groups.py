"""ListGroups: the groups of all types. Changes nothing."""

from __future__ import annotations

from muster.coordinator.groups.common.step import Step
from muster.coordinator.state_machine.interface import Command
from muster.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(step: Step, command: Command, request: ListGroupsRequest) -> None:
    """Answer a ListGroups: the groups whose state and type match the filters.

    Case does not matter. An empty filter matches all groups.
    """
    states = {name.strip().lower() for name in request.states_filter}
    kinds = {name.lower() for name in request.types_filter}
    rows = [
        ListedGroup(group.group_id, group.protocol_type or "", group.state, group.kind)
        for group in step.state.groups.values()
        if (not states or group.state.lower() in states) and (not kinds or group.kind in kinds)
    ]
    step.reply(command.respond, ListGroupsResponse(0, 0, rows))
