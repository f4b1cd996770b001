"""What the describes of groups with member epochs have in common: their permissions, their order, and their limit.

`many_rows` has the functions for answers of many rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.many_rows import (
    ROWS_AT_ONCE,
    TOO_LARGE,
    TOO_LARGE_TEXT,
    AnswerSize,
    ask_each,
    by_coordinator,
    distinct,
)
from muster.coordinator.api.node import Node
from muster.coordinator.security.authorizer import Operation, ResourceType, authorized_operations
from muster.coordinator.state_machine.interface import Command
from muster.coordinator.system.jobs import Job, PendingResult
from muster.protocol.errors import ErrorCode

_ROW_BYTES: Final = 40
_GROUP: Final = ResourceType.GROUP
Names = Sequence[str]


class DescribedRow(Protocol):
    """What the groups of these answers have in common. `members`: rows, or snapshots before they are filled in."""

    error_code: int
    error_message: str | None
    group_id: str
    members: Any
    authorized_operations: int


Row = TypeVar("Row", bound=DescribedRow)
Response = TypeVar("Response")


def _nothing(row: Any) -> int:  # noqa: ARG001  # as any `DescribeApi.more_bytes`
    return 0


class DescribeApi(NamedTuple, Generic[Row, Response]):
    """The messages of one API. `row`: the class of a group in the answer. `command`: its members are snapshots.

    `more_bytes`: the estimated bytes of a row without its texts and members.
    """

    request: Callable[[list[str]], Any]
    response: Callable[..., Response]
    row: Callable[..., Row]
    command: type[Command]
    more_bytes: Callable[[Any], int] = _nothing

    def too_large(self, group_id: str) -> Row:
        """The row of a group for which the answer has no room."""
        return self.row(TOO_LARGE, TOO_LARGE_TEXT, group_id)


def described(
    node: Node,
    context: RequestContext,
    request: Any,
    api: DescribeApi[Row, Response],
    answer_size: AnswerSize,
    filled: Callable[[Row], Job[Row]],
    *,
    is_served: bool,
) -> Job[Response]:
    """Let the shards describe these groups. In Kafka's order: refused groups, "", the groups of each coordinator.

    `filled`: makes a row with members from a row with snapshots, if the answer has room for the members.
    `is_served`: whether the server has this type of group.
    """
    if not is_served:
        return api.response(groups=[api.row(ErrorCode.UNSUPPORTED_VERSION, None, one) for one in request.group_ids])
    found: dict[str, Row] = {}

    def ask(group_id: str, token: PendingResult) -> None:
        if answer_size.is_used_up:
            token(api.response(groups=[api.too_large(group_id)]))  # the answer has no part of this group
            return
        command = api.command(api.request([group_id]), token, context.client)
        node.routing.shard(group_id).runtime.submit(command)

    def collect(group_id: str, response: Any) -> None:
        (row,) = response.groups
        if not row.error_code and request.include_authorized_operations:
            row.authorized_operations = authorized_operations(node.authorizer, context, _GROUP, group_id)
        size = _ROW_BYTES + len(group_id) + len(row.error_message or "") + api.more_bytes(row)
        found[group_id] = row if answer_size.add(size) else api.too_large(group_id)

    refused: list[Row] = []
    rows: list[Row] = []
    asked: list[str] = []
    for group_id in distinct(request.group_ids):
        if not node.authorizer.allows(context, Operation.DESCRIBE, _GROUP, group_id):
            refused.append(api.row(ErrorCode.GROUP_AUTHORIZATION_FAILED, None, group_id))
        elif not group_id:
            rows.append(api.row(ErrorCode.INVALID_GROUP_ID, None, group_id))
        else:
            asked.append(group_id)
        yield None
    yield from ask_each(asked, ask, collect, answer_size.pause)
    for group_id in (yield from by_coordinator(asked, node.routing.partition)):
        row = yield from filled(found[group_id])
        rows.append(row)
    return api.response(groups=refused + rows)


def snapshots_of(row: DescribedRow) -> list[Any]:
    """The snapshots that the command has put into a row, which has no members then."""
    snapshots: list[Any] = row.members
    row.members = []
    return snapshots


def with_members(
    row: Row,
    snapshots: Sequence[Any],
    member_row: Callable[[Any], Any],
    api: DescribeApi[Row, Any],
    answer_size: AnswerSize,
) -> Job[Row]:
    """The row with its members, if the answer has room for them."""
    if not answer_size.add(sum([one.size() for one in snapshots])):
        return api.too_large(row.group_id)
    yield answer_size.pause()
    for one in snapshots:
        row.members.append(member_row(one))
        yield None
    return row


def hidden(row: Row) -> Row:
    """The row of a group whose topics the client may not all describe. It has no members."""
    row.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    row.error_message = "The group has described topic(s) that the client is not authorized to describe."
    return row


def may_describe(node: Node, context: RequestContext, names: Names) -> Job[bool]:
    """Whether the client may describe all these topics. Yields after some names, if others follow."""
    for start in range(0, len(names), ROWS_AT_ONCE):
        if start:
            yield None
        part = names[start : start + ROWS_AT_ONCE]
        allowed = node.authorizer.allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, part)
        if not all(name in allowed for name in part):
            return False
    return True


def may_describe_topics(
    node: Node,
    context: RequestContext,
    snapshots: Sequence[Any],
    parts: Callable[[Any], Sequence[Sequence[tuple[Any, ...]]]],
) -> Job[bool]:
    """Whether the client may describe all topics of these members. If false, the group is shown without members.

    `parts`: the assignments of a member, whose rows begin with a topic id.
    """
    seen: set[int] = set()
    for one in snapshots:
        by_id, names = one.image.by_id, one.description.topics
        if id(names) not in seen:
            seen.add(id(names))
            if not (yield from may_describe(node, context, names)):
                return False
        for rows in parts(one):
            for start in range(0, len(rows), ROWS_AT_ONCE):
                some = [by_id[row[0]].name for row in rows[start : start + ROWS_AT_ONCE] if row[0] in by_id]
                if not (yield from may_describe(node, context, some)):
                    return False
                yield None
        yield None
    return True
