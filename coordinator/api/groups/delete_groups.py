"""DeleteGroups (key 42): empty groups are removed with their offsets; each group has its own result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.gather import ask_each, distinct
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.core.interface import Command
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.slices import Job, Later
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle_delete_groups(node: Node, context: RequestContext, request: DeleteGroupsRequest, respond: Respond) -> None:
    """A group named twice has one result, as on Kafka."""
    node.run(context, respond, _delete(node, context, request))


def _delete(node: Node, context: RequestContext, request: DeleteGroupsRequest) -> Job[DeleteGroupsResponse]:
    results: list[DeletableGroupResult] = []
    refused: list[DeletableGroupResult] = []

    def allowed() -> Iterator[str]:
        for group_id in distinct(request.groups_names):
            if node.authorizer.allows(context, Operation.DELETE, ResourceType.GROUP, group_id):
                yield group_id
            else:
                refused.append(DeletableGroupResult(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))

    def ask(group_id: str, token: Later) -> None:
        command = Command(DeleteGroupsRequest([group_id]), token, context.client)
        node.routing.shard(group_id).submit(command)

    def take(_: str, response: Any) -> None:
        results.extend(response.results)

    yield from ask_each(allowed(), ask, take)
    return DeleteGroupsResponse(results=results + refused)
