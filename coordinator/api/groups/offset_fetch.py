"""OffsetFetch (key 9): the committed positions of one or several groups, named or all.

Groups are asked one by one at their shards. Topic ids (v10) become names on the way in and ids again on the way out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from muster.coordinator.api.answer_size import TOO_LARGE, AnswerSize
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.gather import ROWS_AT_ONCE, add_partitions, ask_each, in_pieces
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.api.version_rules import offsets_by_topic_id
from muster.coordinator.core.interface import Command
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.slices import Job, Later
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
"""Of a row of an answer in memory, besides its texts; on the wire it has about 20."""


_Wanted: TypeAlias = tuple[
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    list[OffsetFetchResponseTopics],
    list[OffsetFetchResponseTopics],
]
"""A group that is asked, its row, the topics in it, and those that are refused."""


class _Piece:
    """A group, or so many of its topics as are asked for at once. None: all that there is of it."""

    __slots__ = ("goes_on", "is_all", "refused", "row", "rows", "topics")

    def __init__(
        self,
        row: OffsetFetchResponseGroup,
        rows: list[OffsetFetchResponseTopics],
        refused: list[OffsetFetchResponseTopics],
        topics: Sequence[OffsetFetchRequestTopics] | None,
        is_all: bool = False,
        goes_on: bool = False,
    ) -> None:
        """`row`: what is answered for the group; `rows`: the topics in it; `refused`: those that come last;
        `is_all`: they are all of the group; `goes_on`: it begins with more of the topic that the last piece ended in.
        """
        self.row = row
        self.rows = rows
        self.refused = refused
        self.topics = topics
        self.is_all = is_all
        self.goes_on = goes_on


def handle_offset_fetch(node: Node, context: RequestContext, request: OffsetFetchRequest, respond: Respond) -> None:
    """One row per group, in the order of the request; a group's error stands in its row."""
    node.run(context, respond, _fetch(node, context, request))


def _fetch(node: Node, context: RequestContext, request: OffsetFetchRequest) -> Job[OffsetFetchResponse]:
    rows: list[tuple[OffsetFetchResponseGroup, list[OffsetFetchResponseTopics]]] = []
    by_id = offsets_by_topic_id(context.api_version)
    room = AnswerSize()
    # all of a group that is named again and again is asked for once: it has a row each time, as on Kafka
    whole: dict[str, OffsetFetchResponseGroup] = {}
    sizes: Counter[str] = Counter()

    wanted: list[_Wanted] = []
    for group in request.groups:
        yield None
        if not node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
            rows.append((failed_group(group, ErrorCode.GROUP_AUTHORIZATION_FAILED), []))
            continue
        if group.topics is None and group.group_id in whole:
            rows.append((whole[group.group_id], []))
            continue
        found: list[OffsetFetchResponseTopics] = []
        refused: list[OffsetFetchResponseTopics] = []
        row = OffsetFetchResponseGroup(group.group_id, found, 0)
        rows.append((row, refused))
        wanted.append((group, row, found, refused))
        if group.topics is None:
            whole[group.group_id] = row

    def pieces() -> Iterator[_Piece]:
        for group, row, found, refused in wanted:
            asked, is_all = group.topics, group.topics is None
            if asked is None:
                if room.is_used_up:  # nothing of it would be in the answer
                    row.error_code = TOO_LARGE
                    continue
                asked = _many_of(node, group.group_id)
            if not asked:
                yield _Piece(row, found, refused, asked, is_all)
                continue
            for goes_on, some in in_pieces(asked, lambda topic: topic.partition_indexes, _with_partitions):
                yield _Piece(row, found, refused, some, is_all, goes_on)

    def ask(piece: _Piece, token: Later) -> None:
        known = piece.topics
        if known is not None and not piece.is_all:
            known, refused = _sort_out(node, context, known)
            _join(piece.refused, refused, piece.goes_on)
        group = OffsetFetchRequestGroup(piece.row.group_id, topics=known)
        asked = OffsetFetchRequest(groups=[group], require_stable=request.require_stable)
        node.routing.shard(group.group_id).submit(Command(asked, token, context.client))

    def take(piece: _Piece, response: Any) -> None:
        (part,) = response.groups
        row = piece.row
        found = part.topics
        if piece.is_all:
            if piece.topics is not None:
                found = _still_there(node.routing.shard(row.group_id).committed(row.group_id), found)
            found = _seen(node, context, by_id, found)
        row.error_code = row.error_code or part.error_code
        size = _size(found)
        sizes[row.group_id] += size if piece.is_all else 0
        if not row.error_code and not room.take(size):
            row.error_code = TOO_LARGE
        if row.error_code == TOO_LARGE and piece.is_all:
            piece.rows.clear()  # nobody has named them
            return
        if row.error_code == TOO_LARGE:
            found = [_refuse(topic, TOO_LARGE) for topic in piece.topics or ()]
        _join(piece.rows, found, piece.goes_on)

    yield from ask_each(pieces(), ask, take)
    answer: list[OffsetFetchResponseGroup] = []
    told: set[str] = set()
    for row, refused in rows:
        is_whole = whole.get(row.group_id) is row
        if is_whole and row.group_id in told and not row.error_code and not room.take(sizes[row.group_id]):
            answer.append(OffsetFetchResponseGroup(row.group_id, [], TOO_LARGE))
            yield None
            continue
        if is_whole:
            told.add(row.group_id)
        answer.append(row)
        yield None
        # the group's own rows first, then the refused ones (KafkaApis.fetchOffsetsForGroup)
        if refused and row.error_code == ErrorCode.NONE:
            row.topics = [*row.topics, *refused]
        for topic in row.topics:
            for _ in topic.partitions:
                yield None  # as many rows are to be encoded
    return OffsetFetchResponse(groups=answer)


def _with_partitions(topic: OffsetFetchRequestTopics, partitions: Sequence[int]) -> OffsetFetchRequestTopics:
    return OffsetFetchRequestTopics(topic.name, topic.topic_id, partitions)


def _many_of(node: Node, group_id: str) -> list[OffsetFetchRequestTopics] | None:
    """All that a group has committed, if that is more than is asked for at once."""
    committed = node.routing.shard(group_id).committed(group_id)
    if sum(map(len, committed.values())) <= ROWS_AT_ONCE:
        return None
    return [OffsetFetchRequestTopics(name, partition_indexes=[*rows]) for name, rows in committed.items()]


def _join(rows: list[OffsetFetchResponseTopics], more: Sequence[OffsetFetchResponseTopics], goes_on: bool) -> None:
    """Put rows behind those that there are; of a topic that was cut the partitions come together again."""
    if goes_on and rows and more and rows[-1].name == more[0].name:
        add_partitions(rows[-1], more[0].partitions)
        more = more[1:]
    rows += more


def _size(rows: Sequence[OffsetFetchResponseTopics]) -> int:
    """About how many bytes they take in an answer."""
    return sum(
        _ROW_BYTES + len(topic.name) + sum(_ROW_BYTES + len(row.metadata or "") for row in topic.partitions)
        for topic in rows
    )


def _sort_out(
    node: Node, context: RequestContext, asked: Sequence[OffsetFetchRequestTopics]
) -> tuple[list[OffsetFetchRequestTopics], list[OffsetFetchResponseTopics]]:
    """The topics that may be asked for, by name, and the refused ones. A name that no topic has may be asked for."""
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


def _still_there(
    committed: Mapping[str, Container[int]], rows: Sequence[OffsetFetchResponseTopics]
) -> list[OffsetFetchResponseTopics]:
    """All that was committed was looked up before it was asked for: what has gone since is left out. That an offset is
    negative says nothing: it may have been committed so.
    """
    for topic in rows:
        there = committed.get(topic.name, ())
        topic.partitions = [row for row in topic.partitions if row.partition_index in there or row.error_code]
    return [topic for topic in rows if topic.partitions]


def _seen(
    node: Node, context: RequestContext, by_id: bool, rows: Sequence[OffsetFetchResponseTopics]
) -> list[OffsetFetchResponseTopics]:
    """The topics of a group that the client may describe; by id: with their ids, without deleted topics."""
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
