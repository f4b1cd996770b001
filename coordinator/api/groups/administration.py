"""The administration of groups: DescribeGroups (key 15), ListGroups (16) and DeleteGroups (42)."""

from __future__ import annotations

from typing import Any, Final

from muster.coordinator.api.context import RequestContext, describe_knows_group_not_found
from muster.coordinator.api.many_rows import TOO_LARGE, TOO_LARGE_TEXT, AnswerSize, ask_each, by_coordinator, distinct
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType, authorized_operations
from muster.coordinator.state_machine.interface import Command
from muster.coordinator.system.jobs import Job, PendingResult
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from muster.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from muster.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

_ROW_BYTES: Final = 40
_FOUND: Final = (ErrorCode.NONE,)
_FOUND_OR_NOT: Final = (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)
_MAX_FILTERS = 50
"""More states and types of a ListGroups are read step by step."""
_SKIPPED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


@in_steps
def handle_describe_groups(
    node: Node, context: RequestContext, request: DescribeGroupsRequest
) -> Job[DescribeGroupsResponse]:
    """Let the shards describe these groups. As on Kafka, groups that the client may not describe are first."""
    found: dict[str, tuple[DescribedGroup, int]] = {}
    answer_size = AnswerSize(node, context)
    # before v6 an unknown group is not an error, and has operations like other groups
    strict = describe_knows_group_not_found(context.api_version)
    shown = _FOUND if strict else _FOUND_OR_NOT

    def ask(group_id: str, token: PendingResult) -> None:
        if answer_size.is_used_up:
            token(DescribeGroupsResponse(groups=[_too_large(group_id)]))  # the answer has no part of this group
            return
        command = Command(DescribeGroupsRequest([group_id]), token, context.client)
        node.routing.shard(group_id).runtime.submit(command)

    def collect(group_id: str, response: Any) -> None:
        (row,) = response.groups
        if request.include_authorized_operations and row.error_code in shown:
            row.authorized_operations = authorized_operations(node.authorizer, context, ResourceType.GROUP, group_id)
        size = _size(row)
        found[group_id] = (row if answer_size.add(size) else _too_large(group_id)), size

    def allowed(group_id: str) -> bool:
        return node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.GROUP, group_id)

    # as on Kafka, a group that is named several times has as many rows, but its shard is asked once
    yield from ask_each(filter(allowed, distinct(request.groups)), ask, collect, answer_size.pause)
    named: set[str] = set()
    rows: list[DescribedGroup] = []
    refused: list[DescribedGroup] = []
    for group_id in (yield from by_coordinator(request.groups, node.routing.partition)):
        if group_id not in found:
            refused.append(DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id))
        else:
            row, size = found[group_id]
            rows.append(row if group_id not in named or answer_size.add(size) else _too_large(group_id))
            named.add(group_id)
        yield answer_size.pause()
    return DescribeGroupsResponse(groups=refused + rows)


def _too_large(group_id: str) -> DescribedGroup:
    return DescribedGroup(TOO_LARGE, TOO_LARGE_TEXT, group_id)


def _size(row: DescribedGroup) -> int:
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


@in_steps
def handle_list_groups(node: Node, context: RequestContext, request: ListGroupsRequest) -> Job[ListGroupsResponse]:
    """Ask every shard. A loading shard fails the request. Shards that are offline, or another node's, are skipped."""
    see_all = node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    groups: list[ListedGroup] = []
    # with very many filters, the handler selects the rows: otherwise every shard would apply each filter
    states: set[str] = set()
    kinds: set[str] = set()
    asked = request
    if len(request.states_filter) + len(request.types_filter) > _MAX_FILTERS:
        asked = ListGroupsRequest()
        for name in request.states_filter:
            states.add(name.strip().lower())
            yield None
        for name in request.types_filter:
            kinds.add(name.lower())
            yield None

    def is_wanted(group: ListedGroup) -> bool:
        return (not states or group.group_state.lower() in states) and (not kinds or group.group_type in kinds)

    answer_size = AnswerSize(node, context)
    for shard in node.routing.shards:
        later = PendingResult()
        shard.runtime.submit(Command(asked, later, context.client))
        part: Any = yield later
        if part.error_code in _SKIPPED:
            continue
        if part.error_code:
            return ListGroupsResponse(error_code=part.error_code)
        found = part.groups
        if not see_all:
            names = [group.group_id for group in found]
            allowed = node.authorizer.allowed(context, Operation.DESCRIBE, ResourceType.GROUP, names, log_denied=False)
            found = [group for group in found if group.group_id in allowed]
        for group in found:
            if is_wanted(group):
                if not answer_size.add(_ROW_BYTES + len(group.group_id) + len(group.protocol_type)):
                    return ListGroupsResponse(error_code=TOO_LARGE)
                groups.append(group)
            yield answer_size.pause()  # one step for each row that is encoded
    return ListGroupsResponse(groups=groups)


@in_steps
def handle_delete_groups(
    node: Node, context: RequestContext, request: DeleteGroupsRequest
) -> Job[DeleteGroupsResponse]:
    """Delete groups. As on Kafka, a group that is named twice has one result."""
    results: list[DeletableGroupResult] = []
    refused: list[DeletableGroupResult] = []
    allowed: list[str] = []
    for group_id in distinct(request.groups_names):
        if node.authorizer.allows(context, Operation.DELETE, ResourceType.GROUP, group_id):
            allowed.append(group_id)
        else:
            refused.append(DeletableGroupResult(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        yield None
    in_order = yield from by_coordinator(allowed, node.routing.partition, is_set=True)

    def ask(group_id: str, token: PendingResult) -> None:
        command = Command(DeleteGroupsRequest([group_id]), token, context.client)
        node.routing.shard(group_id).runtime.submit(command)

    def collect(_: str, response: Any) -> None:
        results.extend(response.results)

    yield from ask_each(in_order, ask, collect)
    return DeleteGroupsResponse(results=results + refused)
