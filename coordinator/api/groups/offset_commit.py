"""OffsetCommit (key 8) and OffsetDelete (key 47): committed offsets of a group, for partitions that exist.

The handlers refuse rows of unknown topics and partitions, by the image of the topics. The shard of the group gets the
other rows. As on Kafka, OffsetCommit does not ask the group if no row remains. OffsetDelete refuses topics to which a
member subscribes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muster.coordinator.api.context import RequestContext, offsets_by_topic_id
from muster.coordinator.api.many_rows import ROWS_AT_ONCE, add_partitions, add_topic, ask_each, in_pieces
from muster.coordinator.api.node import Node, Respond, in_steps
from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.groups.offsets.commit import CommitCommand, least_bytes
from muster.coordinator.runtime.group_coordinator.error_responses import refuse
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.state_machine.interface import Command
from muster.coordinator.system.jobs import Job, PendingResult
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message, copied
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from muster.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

_Refused = dict[tuple[str, bytes], OffsetCommitResponseTopic]
"""Refused rows, by name and id of their topic."""


def handle_offset_commit(node: Node, context: RequestContext, request: OffsetCommitRequest, respond: Respond) -> None:
    """Write the offsets to the log of the group's shard, then answer. Each partition has its own error."""
    if not node.authorizer.allows(context, Operation.READ, ResourceType.GROUP, request.group_id):
        respond(refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return
    elements = len(request.topics)
    for topic in request.topics:
        elements += len(topic.partitions)
    # The limit is not `PLAIN_ROWS`: up to `ROWS_AT_ONCE` rows are one command and one batch. Consumers of hundreds of
    # partitions commit all the time, and the shard handles these rows in some milliseconds.
    if elements > ROWS_AT_ONCE:
        node.run(context, respond, _commit_in_pieces(node, context, request))
    else:
        _commit(node, context, request, respond)


def _commit(node: Node, context: RequestContext, request: OffsetCommitRequest, respond: Respond) -> None:
    """Commit the rows of a request that a shard can handle in one step."""
    known, refused = existing_rows(node, context, request.topics)
    if not known:
        # the group is not asked, so the request does not count as a heartbeat
        respond(OffsetCommitResponse(topics=refused))
        return
    if refused:
        respond = _merging(refused, respond)
    request.topics = known
    shard = node.routing.shard(request.group_id)
    if shard.figures is not None:
        respond = shard.figures.commits.counting(request.group_id, respond)
    shard.runtime.submit(CommitCommand(request, respond, context.client, context.api_version))


def _commit_in_pieces(node: Node, context: RequestContext, request: OffsetCommitRequest) -> Job[OffsetCommitResponse]:
    """Commit many rows, some in each step. All pieces together must not be larger than one batch."""
    pieces: list[OffsetCommitRequest] = []
    size = 0
    for _, topics in in_pieces(request.topics, "partitions"):
        piece = copied(request)
        piece.topics = topics
        pieces.append(piece)
        size += sum(least_bytes(request.group_id, topic) for topic in topics)
        yield None
    too_large = size > node.routing.shard(request.group_id).max_bytes
    found: _Refused = {}

    def ask(piece: OffsetCommitRequest, token: PendingResult) -> None:
        if too_large:
            token(refuse(piece, ErrorCode.UNKNOWN_SERVER_ERROR))
        else:
            _commit(node, context, piece, token)

    def take(_: OffsetCommitRequest, response: Any) -> None:
        for topic in response.topics:
            add_topic(found, (topic.name, topic.topic_id), topic)

    yield from ask_each(pieces, ask, take)
    for topic in found.values():
        for _ in topic.partitions:
            yield None  # one step for each row that is encoded
    return OffsetCommitResponse(topics=[*found.values()])


def existing_rows(
    node: Node, context: RequestContext, topics: Sequence[OffsetCommitRequestTopic]
) -> tuple[list[OffsetCommitRequestTopic], list[OffsetCommitResponseTopic]]:
    """The rows of existing partitions, with the name and id of each topic; and the refused rows with their errors."""
    known: list[OffsetCommitRequestTopic] = []
    refused: _Refused = {}
    by_id = offsets_by_topic_id(context.api_version)
    image = node.topics.image
    if by_id:
        for topic in topics:
            named = image.by_id.get(topic.topic_id)
            if named is not None:
                topic.name = named.name
    names = [topic.name for topic in topics]
    allowed = node.authorizer.allowed(context, Operation.READ, ResourceType.TOPIC, names)
    for topic in topics:
        found = _find(image, topic, by_id, topic.name in allowed)
        if isinstance(found, int):
            _refuse(refused, topic, topic.partitions, found)
            continue
        topic.name, topic.topic_id = found.name, found.topic_id
        count = found.partitions
        for row in topic.partitions:
            if not 0 <= row.partition_index < count:
                _take_out(refused, topic, count)
                break
        if topic.partitions:
            known.append(topic)
    return known, list(refused.values())


def _find(image: TopicsImage, topic: OffsetCommitRequestTopic, by_id: bool, is_allowed: bool) -> TopicImage | int:
    """The topic, or the error of all its rows. Only a client that may read the topic learns whether it exists."""
    if by_id and not topic.name:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not is_allowed:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return image.by_name.get(topic.name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _take_out(refused: _Refused, topic: OffsetCommitRequestTopic, count: int) -> None:
    bad = [row for row in topic.partitions if not 0 <= row.partition_index < count]
    topic.partitions = [row for row in topic.partitions if 0 <= row.partition_index < count]
    _refuse(refused, topic, bad, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _refuse(
    refused: _Refused, topic: OffsetCommitRequestTopic, rows: Sequence[OffsetCommitRequestPartition], error_code: int
) -> None:
    failed = [OffsetCommitResponsePartition(row.partition_index, error_code) for row in rows]
    key = topic.name, topic.topic_id
    add_topic(refused, key, OffsetCommitResponseTopic(*key, failed))


def _merging(refused: list[OffsetCommitResponseTopic], respond: Respond) -> Respond:
    """A `Respond` that puts the refused rows before the shard's rows. As on Kafka, each topic has one row."""

    def merge(response: Message | None) -> None:
        assert isinstance(response, OffsetCommitResponse)
        merged = {(topic.name, topic.topic_id): topic for topic in refused}
        for topic in response.topics:
            add_topic(merged, (topic.name, topic.topic_id), topic)
        response.topics = list(merged.values())
        respond(response)

    return merge


@in_steps
def handle_offset_delete(node: Node, context: RequestContext, request: OffsetDeleteRequest) -> Job[Message]:
    """Delete offsets. Rows of unknown partitions are refused. The group is always asked: its errors count first."""
    if not node.authorizer.allows(context, Operation.DELETE, ResourceType.GROUP, request.group_id):
        return refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refused: dict[str, OffsetDeleteResponseTopic] = {}
    rows: list[OffsetDeleteResponseTopic] = []
    pieces = in_pieces(request.topics, "partitions")
    for goes_on, topics in pieces if request.topics else ((False, []),):
        later = PendingResult()
        known = _rows_to_delete(node, context, topics, refused)
        piece = OffsetDeleteRequest(request.group_id, known)
        node.routing.shard(request.group_id).runtime.submit(Command(piece, later, context.client))
        response: OffsetDeleteResponse = yield later
        if response.error_code:
            return OffsetDeleteResponse(response.error_code)
        for topic in response.topics:
            if goes_on and rows and rows[-1].name == topic.name:
                add_partitions(rows[-1], topic.partitions)
            else:
                rows.append(topic)
            yield None
    if refused:
        # with refused rows, each topic has one row, in which refused partitions are first
        for topic in rows:
            add_topic(refused, topic.name, topic)
        rows = [*refused.values()]
    return OffsetDeleteResponse(topics=rows)


def _rows_to_delete(
    node: Node,
    context: RequestContext,
    topics: Sequence[OffsetDeleteRequestTopic],
    refused: dict[str, OffsetDeleteResponseTopic],
) -> list[OffsetDeleteRequestTopic]:
    known: list[OffsetDeleteRequestTopic] = []
    names = [topic.name for topic in topics]
    allowed = node.authorizer.allowed(context, Operation.READ, ResourceType.TOPIC, names)
    for topic in topics:
        found = node.topics.image.by_name.get(topic.name)
        count = 0 if found is None else found.partitions
        error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic.name not in allowed:
            count, error_code = 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        bad = [row for row in topic.partitions if not 0 <= row.partition_index < count]
        if bad or not count:
            failed = [OffsetDeleteResponsePartition(row.partition_index, error_code) for row in bad]
            add_topic(refused, topic.name, OffsetDeleteResponseTopic(topic.name, failed))
            topic.partitions = [row for row in topic.partitions if 0 <= row.partition_index < count]
        if topic.partitions:
            known.append(topic)
    return known
