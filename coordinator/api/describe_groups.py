"""DescribeGroups (key 15): groups with their members, one row per group in the order of the request."""

from __future__ import annotations

from typing import Any, Final

from muster.coordinator.api.context import GROUP, Operation, RequestContext, Resource, authorize
from muster.coordinator.api.gather import Gather
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.groups.interface import Command
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from muster.protocol.shapes import capabilities

_GROUP_OPERATIONS: Final = (
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
"""What can be done to a group at all (Kafka's AclEntry.supportedOperations)."""
_FOUND: Final = (ErrorCode.NONE,)
_FOUND_OR_NOT: Final = (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)


def handle_describe_groups(
    node: Node, context: RequestContext, request: DescribeGroupsRequest, respond: Respond
) -> None:
    """Each group is asked at its shard; refused ones come last, as on Kafka."""
    allowed: list[str] = []
    refused: list[DescribedGroup] = []
    for group_id in request.groups:
        if authorize(context, Operation.DESCRIBE, Resource(GROUP, group_id)):
            allowed.append(group_id)
        else:
            refused.append(DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id))

    def answer(parts: list[Any]) -> None:
        rows: list[DescribedGroup] = [row for part in parts for row in part.groups]
        if request.include_authorized_operations:
            # before v6 an unknown group is no error, and has operations like any other
            strict = capabilities.describe_knows_group_not_found(context.api_version)
            shown = _FOUND if strict else _FOUND_OR_NOT
            for row in rows:
                if row.error_code in shown:
                    row.authorized_operations = _operations(context, row.group_id)
        respond(DescribeGroupsResponse(groups=rows + refused))

    gather = Gather(len(allowed), answer)
    for index, group_id in enumerate(allowed):
        command = Command(DescribeGroupsRequest([group_id]), gather.part(index), context.client)
        node.routing.shard(group_id).submit(command)


def _operations(context: RequestContext, group_id: str) -> int:
    """The bit field of what the principal may do to the group: one bit per AclOperation code."""
    resource = Resource(GROUP, group_id)
    return sum(1 << operation for operation in _GROUP_OPERATIONS if authorize(context, operation, resource))
