"""ListGroups (key 16): all groups of this node, by state and type if asked."""

from __future__ import annotations

from typing import Any

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.gather import ask_each
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.core.interface import Command
from muster.coordinator.group_coordinator.shard import GroupShard
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.slices import Job, Later
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

_MOST_FILTERS = 50
_PASSED_OVER = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def handle_list_groups(node: Node, context: RequestContext, request: ListGroupsRequest, respond: Respond) -> None:
    """Every shard is asked; one that is loading fails the whole, one led elsewhere or offline is passed over: that its
    partition has no leader stands in Metadata.
    """
    node.run(context, respond, _list(node, context, request))


def _list(node: Node, context: RequestContext, request: ListGroupsRequest) -> Job[ListGroupsResponse]:
    see_all = node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    groups: list[ListedGroup] = []
    failed: list[int] = []
    # every shard looks at each filter again: with very many the rows are chosen here
    states: set[str] = set()
    kinds: set[str] = set()
    asked = request
    if len(request.states_filter) + len(request.types_filter) > _MOST_FILTERS:
        asked = ListGroupsRequest()
        for name in request.states_filter:
            states.add(name.strip().lower())
            yield None
        for name in request.types_filter:
            kinds.add(name.lower())
            yield None

    def is_wanted(group: ListedGroup) -> bool:
        return (not states or group.group_state.lower() in states) and (not kinds or group.group_type in kinds)

    def ask(shard: GroupShard, token: Later) -> None:
        shard.submit(Command(asked, token, context.client))

    def take(_: GroupShard, part: Any) -> None:
        if part.error_code == ErrorCode.NONE:
            groups.extend(filter(is_wanted, part.groups))
        elif part.error_code not in _PASSED_OVER:
            failed.append(part.error_code)

    yield from ask_each(node.routing.shards, ask, take)
    if failed:
        return ListGroupsResponse(error_code=failed[0])
    if not see_all:
        names = [group.group_id for group in groups]
        allowed = node.authorizer.allowed(context, Operation.DESCRIBE, ResourceType.GROUP, names)
        groups = [group for group in groups if group.group_id in allowed]
    for _ in groups:
        yield None  # as many rows are to be encoded
    return ListGroupsResponse(groups=groups)
