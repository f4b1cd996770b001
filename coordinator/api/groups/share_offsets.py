"""The start offsets of share groups: DescribeShareGroupOffsets (key 90), AlterShareGroupOffsets (91) and
DeleteShareGroupOffsets (92).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.groups.share_groups import is_served
from muster.coordinator.api.many_rows import (
    ROWS_AT_ONCE,
    TOO_LARGE,
    TOO_LARGE_TEXT,
    AnswerSize,
    allowed_names,
    ask_each,
)
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.log import LogError
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.share_state.persister import UNKNOWN, ReadSummary, StateKey, Summary
from muster.coordinator.state_machine.interface import Command
from muster.coordinator.system.jobs import Job, PendingResult
from muster.coordinator.topics.errors import ApiError
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from muster.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from muster.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

_GROUP: Final = ResourceType.GROUP
_TOPIC: Final = ResourceType.TOPIC
_ROW_BYTES: Final = 40
MAX_ROWS: Final = 5_000
"""The most topics and partitions of a request that changes start offsets: its records are made in one step."""
_NOT_ALLOWED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_NO_TOPIC: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

Described = DescribeShareGroupOffsetsResponseGroup
Row = DescribeShareGroupOffsetsResponsePartition
Rows = DescribeShareGroupOffsetsResponseTopic


# ---- DescribeShareGroupOffsets


@in_steps
def handle_describe_share_group_offsets(
    node: Node, context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> Job[DescribeShareGroupOffsetsResponse]:
    """Show start offsets and lags. Without topics, all partitions with a state are shown that the client may see."""
    answer_size = AnswerSize(node, context)
    groups: list[Described] = []
    for group in request.groups:
        if not is_served(node):
            row = Described(group.group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
        elif not node.authorizer.allows(context, Operation.DESCRIBE, _GROUP, group.group_id):
            row = Described(group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        elif group.topics is None:
            row = yield from _all_offsets(node, context, group.group_id, answer_size)
        else:
            row = yield from _offsets(node, context, group, answer_size)
        groups.append(row)
        yield answer_size.pause()
    return DescribeShareGroupOffsetsResponse(groups=groups)


def _all_offsets(node: Node, context: RequestContext, group_id: str, answer_size: AnswerSize) -> Job[Described]:
    later = PendingResult()
    asked = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group_id, None)])
    node.routing.shard(group_id).runtime.submit(Command(asked, later, context.client))
    response: Any = yield later
    (found,) = response.groups
    if found.error_code:
        return Described(group_id, (), found.error_code, found.error_message)
    names = [topic.topic_name for topic in found.topics]
    allowed = yield from allowed_names(node, context, Operation.DESCRIBE, _TOPIC, names)
    topics = [topic for topic in found.topics if topic.topic_name in allowed]
    return (yield from _read(node, group_id, topics, answer_size))


def _offsets(
    node: Node, context: RequestContext, group: DescribeShareGroupOffsetsRequestGroup, answer_size: AnswerSize
) -> Job[Described]:
    rows = group.topics or ()
    names = [row.topic_name for row in rows]
    allowed = yield from allowed_names(node, context, Operation.DESCRIBE, _TOPIC, names)
    known: list[Rows] = []
    unknown: list[Rows] = []
    refused: list[Rows] = []
    for row in rows:
        topic = node.topics.image.by_name.get(row.topic_name)
        if row.topic_name not in allowed:
            refused.append((yield from _rows(row, ZERO_UUID, _NOT_ALLOWED)))
        elif topic is None:
            unknown.append((yield from _rows(row, ZERO_UUID)))
        else:
            known.append((yield from _rows(row, topic.topic_id)))
        yield None
    if known and not group.group_id:  # Kafka fails in its persister
        unexpected = ErrorCode.UNKNOWN_SERVER_ERROR
        return Described(group.group_id, (), unexpected, error_message(unexpected))
    described = yield from _read(node, group.group_id, known, answer_size)
    if not described.error_code:
        described.topics = [*described.topics, *unknown, *refused]
    return described


def _rows(topic: DescribeShareGroupOffsetsRequestTopic, topic_id: bytes, error: int = 0) -> Job[Rows]:
    """The rows of a topic, as they are without a state."""
    message, rows = error_message(error) if error else None, list[Row]()
    for partition in topic.partitions:
        rows.append(Row(partition, -1, 0, -1, error, message))
        yield None
    return Rows(topic.topic_name, topic_id, rows)


def _read(node: Node, group_id: str, topics: Sequence[Rows], answer_size: AnswerSize) -> Job[Described]:
    """Fill the rows of existing topics with what the persister knows."""
    if not answer_size.add(_ROW_BYTES * (1 + sum([len(topic.partitions) for topic in topics]))):
        return Described(group_id, (), TOO_LARGE, TOO_LARGE_TEXT)

    elsewhere: dict[int, list[Begun]] = {}
    """By node: partitions that other processes lead."""

    def ask(asked: tuple[Rows, Row], token: PendingResult) -> None:
        topic, row = asked
        node.persister.read_summary(ReadSummary(StateKey(group_id, topic.topic_id, row.partition_index)), token)

    def collect(asked: tuple[Rows, Row], answer: Any) -> None:
        topic, row = asked
        assert isinstance(answer, Summary)
        if answer.error_code:
            return
        row.start_offset, row.leader_epoch = answer.start_offset, answer.leader_epoch
        if UNKNOWN in (answer.start_offset, answer.done_count):
            return
        begun = Begun((topic.topic_name, row.partition_index), row, answer.start_offset + answer.done_count)
        leader = None if node.peers is None else node.peers.leads(*begun.place)
        if leader is None:
            begun.set_lag(end_offset(node, *begun.place))
        else:
            elsewhere.setdefault(leader, []).append(begun)

    yield from ask_each(((topic, row) for topic in topics for row in topic.partitions), ask, collect)
    if elsewhere:
        yield from _ask_peers(node, elsewhere)
    return Described(group_id, topics)


class Begun(NamedTuple):
    """A partition in which a group has begun. `done`: its start offset and the count of done records, added up."""

    place: tuple[str, int]
    row: Row
    done: int

    def set_lag(self, end: int) -> None:
        """Set the lag: the records that are not done yet. -1 if the end is not known."""
        self.row.lag = -1 if end < 0 else end - self.done


def end_offset(node: Node, name: str, index: int) -> int:
    """The end offset of a partition; -1 if its log is not in this process, or is offline."""
    topic = node.topics.by_name.get(name)
    try:
        return -1 if topic is None else topic.existing(index).log.durable_offset
    except (ApiError, LogError):
        return -1


def _ask_peers(node: Node, elsewhere: Mapping[int, Sequence[Begun]]) -> Job[None]:
    """Set the lags of partitions that other processes lead."""
    assert node.peers is not None
    waiting: list[tuple[Sequence[Begun], PendingResult]] = []
    for leader, rows in elsewhere.items():
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some, later = rows[start : start + ROWS_AT_ONCE], PendingResult()
            node.peers.ask_ends(leader, [one.place for one in some], later)
            waiting.append((some, later))
            yield None
    for some, later in waiting:
        ends = yield later
        for one, end in zip(some, ends, strict=True):
            one.set_lag(end)


def _change(
    node: Node,
    context: RequestContext,
    request: AlterShareGroupOffsetsRequest | DeleteShareGroupOffsetsRequest,
    refused: Sequence[Any],
) -> Job[Any]:
    """Let the group change its offsets. The rows that were refused come before the rows of its answer."""
    later = PendingResult()
    node.routing.shard(request.group_id).runtime.submit(Command(request, later, context.client))
    response: Any = yield later
    if not response.error_code:
        response.responses = [*refused, *response.responses]
    return response


# ---- AlterShareGroupOffsets


@in_steps(changes=True)
def handle_alter_share_group_offsets(
    node: Node, context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> Job[AlterShareGroupOffsetsResponse]:
    """Set start offsets of a group without members. Rows of unknown and forbidden topics come first."""
    if not is_served(node):
        return _not_altered(ErrorCode.UNSUPPORTED_VERSION)
    if not node.authorizer.allows(context, Operation.READ, _GROUP, request.group_id):
        return _not_altered(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if sum([1 + len(topic.partitions) for topic in request.topics]) > MAX_ROWS:
        return _not_altered(ErrorCode.INVALID_REQUEST)
    names = [topic.topic_name for topic in request.topics]
    allowed = yield from allowed_names(node, context, Operation.READ, _TOPIC, names)
    by_name = node.topics.image.by_name
    refused: list[AlterShareGroupOffsetsResponseTopic] = []
    asked: list[AlterShareGroupOffsetsRequestTopic] = []
    for topic in {one.topic_name: one for one in request.topics}.values():
        known = by_name.get(topic.topic_name)
        error = 0 if known is not None else _NO_TOPIC
        error = error if topic.topic_name in allowed else _NOT_ALLOWED
        if not error:
            asked.append(topic)
            continue
        text = error_message(error)
        rows = [AlterShareGroupOffsetsResponsePartition(one.partition_index, error, text) for one in topic.partitions]
        topic_id = ZERO_UUID if known is None else known.topic_id
        refused.append(AlterShareGroupOffsetsResponseTopic(topic.topic_name, topic_id, rows))
        yield None
    if not request.group_id:
        return _not_altered(ErrorCode.INVALID_GROUP_ID)
    changed = AlterShareGroupOffsetsRequest(request.group_id, asked)
    response: AlterShareGroupOffsetsResponse = yield from _change(node, context, changed, refused)
    return response


def _not_altered(error: int) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(0, error, error_message(error))


# ---- DeleteShareGroupOffsets


@in_steps(changes=True)
def handle_delete_share_group_offsets(
    node: Node, context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> Job[DeleteShareGroupOffsetsResponse]:
    """Delete the states of topics in a group without members. Rows of forbidden topics come first."""
    if not is_served(node):
        return _not_deleted(ErrorCode.UNSUPPORTED_VERSION)
    if not node.authorizer.allows(context, Operation.DELETE, _GROUP, request.group_id):
        return _not_deleted(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return _not_deleted(ErrorCode.INVALID_GROUP_ID)
    if len(request.topics) > MAX_ROWS:
        return _not_deleted(ErrorCode.INVALID_REQUEST)
    names = [topic.topic_name for topic in request.topics]
    allowed = yield from allowed_names(node, context, Operation.READ, _TOPIC, names)
    text = error_message(_NOT_ALLOWED)
    refused = [
        DeleteShareGroupOffsetsResponseTopic(name, ZERO_UUID, _NOT_ALLOWED, text)
        for name in names
        if name not in allowed
    ]
    asked = [topic for topic in request.topics if topic.topic_name in allowed]
    changed = DeleteShareGroupOffsetsRequest(request.group_id, asked)
    response: DeleteShareGroupOffsetsResponse = yield from _change(node, context, changed, refused)
    return response


def _not_deleted(error: int) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(0, error, error_message(error))
