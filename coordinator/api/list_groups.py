"""ListGroups (key 16): all groups of this node, by state and type if asked."""

from __future__ import annotations

from typing import Any

from muster.coordinator.api.context import GROUP, THE_CLUSTER, Operation, RequestContext, Resource, authorize
from muster.coordinator.api.gather import Gather
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.groups.interface import Command
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

_PASSED_OVER = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def handle_list_groups(node: Node, context: RequestContext, request: ListGroupsRequest, respond: Respond) -> None:
    """Every shard is asked; one that is loading fails the whole, one led elsewhere or offline is passed over: that its
    partition has no leader stands in Metadata.
    """
    see_all = authorize(context, Operation.DESCRIBE, THE_CLUSTER)

    def answer(parts: list[Any]) -> None:
        groups: list[ListedGroup] = []
        for part in parts:
            if part.error_code in _PASSED_OVER:
                continue
            if part.error_code != ErrorCode.NONE:
                respond(ListGroupsResponse(error_code=part.error_code))
                return
            groups += part.groups
        if not see_all:
            groups = [g for g in groups if authorize(context, Operation.DESCRIBE, Resource(GROUP, g.group_id))]
        respond(ListGroupsResponse(groups=groups))

    shards = node.routing.shards
    gather = Gather(len(shards), answer)
    for index, shard in enumerate(shards):
        shard.submit(Command(request, gather.part(index), context.client))
