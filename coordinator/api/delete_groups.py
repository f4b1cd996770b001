"""DeleteGroups (key 42): empty groups are removed with their offsets; each group has its own result."""

from __future__ import annotations

from typing import Any

from muster.coordinator.api.context import GROUP, Operation, RequestContext, Resource, authorize
from muster.coordinator.api.gather import Gather
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.groups.interface import Command
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle_delete_groups(node: Node, context: RequestContext, request: DeleteGroupsRequest, respond: Respond) -> None:
    """A group named twice has one result, as on Kafka."""
    allowed: list[str] = []
    refused: list[DeletableGroupResult] = []
    for group_id in dict.fromkeys(request.groups_names):
        if authorize(context, Operation.DELETE, Resource(GROUP, group_id)):
            allowed.append(group_id)
        else:
            refused.append(DeletableGroupResult(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))

    def answer(parts: list[Any]) -> None:
        results: list[DeletableGroupResult] = [row for part in parts for row in part.results]
        respond(DeleteGroupsResponse(results=results + refused))

    gather = Gather(len(allowed), answer)
    for index, group_id in enumerate(allowed):
        command = Command(DeleteGroupsRequest([group_id]), gather.part(index), context.client)
        node.routing.shard(group_id).submit(command)
