"""DescribeGroups (key 15): groups with their members, one row per group in the order of the request."""

from __future__ import annotations

from typing import Any, Final

from muster.coordinator.api import version_rules
from muster.coordinator.api.answer_size import TOO_LARGE, TOO_LARGE_TEXT, AnswerSize
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.gather import ask_each, distinct
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.core.interface import Command
from muster.coordinator.security.authorizer import Operation, ResourceType, authorized_operations
from muster.coordinator.slices import Job, Later
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

_ROW_BYTES: Final = 40
"""Of a row of an answer, besides its texts."""
_FOUND: Final = (ErrorCode.NONE,)
_FOUND_OR_NOT: Final = (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)


def handle_describe_groups(
    node: Node, context: RequestContext, request: DescribeGroupsRequest, respond: Respond
) -> None:
    """Each group is asked at its shard; those that the client may not describe come first, as on Kafka."""
    node.run(context, respond, _describe(node, context, request))


def _describe(node: Node, context: RequestContext, request: DescribeGroupsRequest) -> Job[DescribeGroupsResponse]:
    found: dict[str, tuple[DescribedGroup, int]] = {}
    # before v6 an unknown group is no error, and has operations like any other
    strict = version_rules.describe_knows_group_not_found(context.api_version)
    shown = _FOUND if strict else _FOUND_OR_NOT

    def ask(group_id: str, token: Later) -> None:
        command = Command(DescribeGroupsRequest([group_id]), token, context.client)
        node.routing.shard(group_id).submit(command)

    def take(group_id: str, response: Any) -> None:
        (row,) = response.groups
        if request.include_authorized_operations and row.error_code in shown:
            row.authorized_operations = authorized_operations(node.authorizer, context, ResourceType.GROUP, group_id)
        found[group_id] = row, _size(row)

    def allowed(group_id: str) -> bool:
        return node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.GROUP, group_id)

    # one that is named again and again is asked once: it has a row each time, as on Kafka
    yield from ask_each(filter(allowed, distinct(request.groups)), ask, take)
    room = AnswerSize()
    rows: list[DescribedGroup] = []
    refused: list[DescribedGroup] = []
    for group_id in request.groups:
        if group_id not in found:
            refused.append(DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id))
        elif room.take(found[group_id][1]):
            rows.append(found[group_id][0])
        else:
            rows.append(DescribedGroup(TOO_LARGE, TOO_LARGE_TEXT, group_id))
        yield None
    return DescribeGroupsResponse(groups=refused + rows)


def _size(row: DescribedGroup) -> int:
    """About how many bytes it takes in an answer."""
    return (
        _ROW_BYTES
        + len(row.group_id)
        + len(row.error_message or "")
        + sum(
            _ROW_BYTES
            + len(one.member_id)
            + len(one.client_id)
            + len(one.client_host)
            + len(one.member_metadata)
            + len(one.member_assignment)
            for one in row.members
        )
    )
