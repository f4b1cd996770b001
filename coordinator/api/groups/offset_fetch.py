"""OffsetFetch (key 9): the committed offsets of groups, for named partitions or for all partitions.

The shard of each group is asked, one group after the other. Topic ids (v10) become names in the request, ids in the
answer.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from muster.coordinator.api.context import RequestContext, offsets_by_topic_id
from muster.coordinator.api.many_rows import ROWS_AT_ONCE, TOO_LARGE, AnswerSize, add_partitions, ask_each, in_pieces
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.state_machine.interface import Command
from muster.coordinator.system.jobs import Job, PendingResult
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from muster.protocol.shapes.offset_fetch import failed_group

_ROW_BYTES: Final = 100
"""The memory of a row, in bytes, without its texts. In a frame a row has about 20 bytes."""


class _Group:
    __slots__ = ("asked", "is_all", "refused", "row", "size", "topics")

    def __init__(self, asked: OffsetFetchRequestGroup) -> None:
        self.asked = asked
        self.is_all = asked.topics is None
        """Whether the request wants all committed offsets of the group."""
        self.topics: list[OffsetFetchResponseTopics] = []
        self.refused: list[OffsetFetchResponseTopics] = []
        """Refused topics with an error, which are the last topics of the row."""
        self.row = OffsetFetchResponseGroup(asked.group_id, self.topics, 0)
        self.size = 0
        """The size of the row, if all offsets are requested."""


class _Piece(NamedTuple):
    """The topics (None: all) of one step. `goes_on`: this piece continues the last topic of the previous piece."""

    group: _Group
    topics: Sequence[OffsetFetchRequestTopics] | None
    goes_on: bool = False


@in_steps
def handle_offset_fetch(node: Node, context: RequestContext, request: OffsetFetchRequest) -> Job[OffsetFetchResponse]:
    """Answer with one row per group, in the request's order. The error of a group is in its row."""
    return _Fetch(node, context, request).run()


class _Fetch:
    __slots__ = ("_by_id", "_context", "_groups", "_node", "_request", "_room")

    def __init__(self, node: Node, context: RequestContext, request: OffsetFetchRequest) -> None:
        self._node = node
        self._context = context
        self._request = request
        self._by_id = offsets_by_topic_id(context.api_version)
        self._room = AnswerSize(node, context)
        self._groups: list[_Group] = []
        """The groups in the order of the rows. A group may be in this list several times."""

    def run(self) -> Job[OffsetFetchResponse]:
        allowed: dict[_Group, None] = {}
        whole: dict[str, _Group] = {}
        for asked in self._request.groups:
            yield None
            group = _Group(asked)
            if not self._node.authorizer.allows(self._context, Operation.DESCRIBE, ResourceType.GROUP, asked.group_id):
                group.row = failed_group(asked, ErrorCode.GROUP_AUTHORIZATION_FAILED)
            else:
                if group.is_all:
                    group = whole.setdefault(asked.group_id, group)
                allowed[group] = None
            self._groups.append(group)
        yield from ask_each(self._pieces(allowed), self._ask, self._take, self._room.pause)
        return OffsetFetchResponse(groups=(yield from self._rows()))

    def _pieces(self, groups: Iterable[_Group]) -> Iterator[_Piece]:
        for group in groups:
            topics = group.asked.topics
            if topics is None:
                if self._room.is_used_up:  # the answer has no part of this group
                    group.row.error_code = TOO_LARGE
                    continue
                topics = _topics_of_large_group(self._node, group.asked.group_id)
            if not topics:
                yield _Piece(group, topics)
                continue
            for goes_on, some in in_pieces(topics, "partition_indexes"):
                yield _Piece(group, some, goes_on)

    def _ask(self, piece: _Piece, token: PendingResult) -> None:
        group, topics, goes_on = piece
        if topics is not None and not group.is_all:
            topics, refused = _allowed_and_refused(self._node, self._context, topics)
            _join(group.refused, refused, goes_on)
        one = group.asked
        wanted = OffsetFetchRequestGroup(one.group_id, one.member_id, one.member_epoch, topics)
        asked = OffsetFetchRequest(groups=[wanted], require_stable=self._request.require_stable)
        self._node.routing.shard(wanted.group_id).runtime.submit(Command(asked, token, self._context.client))

    def _take(self, piece: _Piece, response: Any) -> None:
        (part,) = response.groups
        group, topics, goes_on = piece
        row, found = group.row, part.topics
        if group.is_all:
            if topics is not None:
                found = _existing_offsets(self._node.routing.shard(row.group_id).committed(row.group_id), found)
            found = _describable(self._node, self._context, self._by_id, found)
        row.error_code = row.error_code or part.error_code
        size = _size(found)
        group.size += size
        if not row.error_code and not self._room.add(size):
            row.error_code = TOO_LARGE
        if row.error_code == TOO_LARGE:
            if group.is_all:
                group.topics.clear()  # the request has not named these topics
                return
            found = [_refuse(topic, TOO_LARGE) for topic in topics or ()]
        _join(group.topics, found, goes_on)

    def _rows(self) -> Job[list[OffsetFetchResponseGroup]]:
        answer: list[OffsetFetchResponseGroup] = []
        counted: set[_Group] = set()
        for group in self._groups:
            yield None
            row = group.row
            if group in counted and not row.error_code and not self._room.add(group.size):
                answer.append(OffsetFetchResponseGroup(row.group_id, [], TOO_LARGE))
                continue
            counted.add(group)
            answer.append(row)
            # The rows of the group are first, then the refused rows (KafkaApis.fetchOffsetsForGroup). A group with an
            # error has the same order, because version 1 has errors only in rows.
            if group.refused:
                row.topics = [*row.topics, *group.refused]
            for topic in row.topics:
                for _ in topic.partitions:
                    yield None  # one step for each row that is encoded
        return answer


def _topics_of_large_group(node: Node, group_id: str) -> list[OffsetFetchRequestTopics] | None:
    """All topics with committed offsets of a group, if they have more rows than one step fetches; else None."""
    committed = node.routing.shard(group_id).committed(group_id)
    if sum(map(len, committed.values())) <= ROWS_AT_ONCE:
        return None
    return [OffsetFetchRequestTopics(name, partition_indexes=[*rows]) for name, rows in committed.items()]


def _join(rows: list[OffsetFetchResponseTopics], more: Sequence[OffsetFetchResponseTopics], goes_on: bool) -> None:
    """Append the rows `more` to `rows`, and join the partitions of a divided topic."""
    if goes_on and rows and more and rows[-1].name == more[0].name:
        add_partitions(rows[-1], more[0].partitions)
        more = more[1:]
    rows += more


def _size(rows: Sequence[OffsetFetchResponseTopics]) -> int:
    return sum(
        _ROW_BYTES + len(topic.name) + sum(_ROW_BYTES + len(row.metadata or "") for row in topic.partitions)
        for topic in rows
    )


def _allowed_and_refused(
    node: Node, context: RequestContext, asked: Sequence[OffsetFetchRequestTopics]
) -> tuple[list[OffsetFetchRequestTopics], list[OffsetFetchResponseTopics]]:
    """The topics that the client may fetch, with names, and the refused topics. A named topic need not exist."""
    known: list[OffsetFetchRequestTopics] = []
    refused: list[OffsetFetchResponseTopics] = []
    by_id = offsets_by_topic_id(context.api_version)
    if by_id:
        for topic in asked:
            found = node.topics.image.by_id.get(topic.topic_id)
            if found is not None:
                topic.name = found.name
    allowed = _may_describe(node, context, asked)
    for topic in asked:
        if by_id and not topic.name:
            refused.append(_refuse(topic, ErrorCode.UNKNOWN_TOPIC_ID))
        elif topic.name in allowed:
            known.append(topic)
        else:
            refused.append(_refuse(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return known, refused


def _refuse(topic: OffsetFetchRequestTopics, error_code: int) -> OffsetFetchResponseTopics:
    rows = [OffsetFetchResponsePartitions(index, -1, -1, "", error_code) for index in topic.partition_indexes]
    return OffsetFetchResponseTopics(topic.name, topic.topic_id, rows)


def _existing_offsets(
    committed: Mapping[str, Container[int]], rows: Sequence[OffsetFetchResponseTopics]
) -> list[OffsetFetchResponseTopics]:
    """The rows whose offsets still exist. The list of topics is older than the rows, so offsets may have been deleted.
    (A negative offset proves no deletion: clients may commit such an offset.)
    """
    for topic in rows:
        there = committed.get(topic.name, ())
        topic.partitions = [row for row in topic.partitions if row.partition_index in there or row.error_code]
    return [topic for topic in rows if topic.partitions]


def _describable(
    node: Node, context: RequestContext, by_id: bool, rows: Sequence[OffsetFetchResponseTopics]
) -> list[OffsetFetchResponseTopics]:
    """The topics of a group that the client may describe. In requests with topic ids, deleted topics are left out."""
    allowed = _may_describe(node, context, rows)
    seen = [topic for topic in rows if topic.name in allowed]
    if by_id:
        by_name = node.topics.image.by_name
        seen = [topic for topic in seen if topic.name in by_name]
        for topic in seen:
            topic.topic_id = by_name[topic.name].topic_id
    return seen


def _may_describe(
    node: Node, context: RequestContext, topics: Sequence[OffsetFetchRequestTopics | OffsetFetchResponseTopics]
) -> Container[str]:
    names = [topic.name for topic in topics]
    return node.authorizer.allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, names)
