"""OffsetCommit (key 8): committed offsets of a group, for partitions that exist.

Rows of unknown topics and partitions are refused here, by the image of the topics. The shard of the group gets the
other rows. Without any other row the group is not asked, as on Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.many_names import ROWS_AT_ONCE, add_topic, ask_each, in_pieces
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.api.version_rules import offsets_by_topic_id
from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.groups.offsets.commit import CommitCommand, least_bytes
from muster.coordinator.runtime.group_coordinator.error_responses import refuse
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.system.jobs import Job, PendingResult
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_Refused = dict[tuple[str, bytes], OffsetCommitResponseTopic]
"""Topics with refused rows, by name and id."""


def handle_offset_commit(node: Node, context: RequestContext, request: OffsetCommitRequest, respond: Respond) -> None:
    """Write the offsets to the log of the group's shard, then answer. Each partition has its own error."""
    if not node.authorizer.allows(context, Operation.READ, ResourceType.GROUP, request.group_id):
        respond(refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return
    elements = len(request.topics)
    for topic in request.topics:
        elements += len(topic.partitions)
    if elements > ROWS_AT_ONCE:
        node.run(context, respond, _commit_in_pieces(node, context, request))
    else:
        _commit(node, context, request, respond)


def _commit(node: Node, context: RequestContext, request: OffsetCommitRequest, respond: Respond) -> None:
    """Commit the rows of a request that a shard can handle in one step."""
    known, refused = sort_out(node, context, request.topics)
    if not known:
        # the group is not asked, so this is no sign of life of the member
        respond(OffsetCommitResponse(topics=refused))
        return
    if refused:
        respond = _merging(refused, respond)
    request.topics = known
    node.routing.shard(request.group_id).runtime.submit(
        CommitCommand(request, respond, context.client, context.api_version)
    )


def _commit_in_pieces(node: Node, context: RequestContext, request: OffsetCommitRequest) -> Job[OffsetCommitResponse]:
    """A commit of many rows, some in each step. The member might have sent each piece by itself. All pieces together
    may not be larger than one batch of the log.
    """
    pieces: list[OffsetCommitRequest] = []
    size = 0
    for _, topics in in_pieces(request.topics, "partitions"):
        pieces.append(
            OffsetCommitRequest(
                request.group_id,
                request.generation_id_or_member_epoch,
                request.member_id,
                request.group_instance_id,
                request.retention_time_ms,
                topics,
            )
        )
        size += sum(least_bytes(request.group_id, topic) for topic in topics)
        yield None
    too_large = size > node.routing.shard(request.group_id).most_bytes
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


def sort_out(
    node: Node, context: RequestContext, topics: Sequence[OffsetCommitRequestTopic]
) -> tuple[list[OffsetCommitRequestTopic], list[OffsetCommitResponseTopic]]:
    """The rows of existing partitions, with name and id of their topic; and the refused rows with their errors.

    A request may name a topic twice. Its refused partitions stand in one row.
    """
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
    """Keep the existing partitions of a topic, and refuse the others."""
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
    """A `Respond` that puts the refused rows before the coordinator's rows. Each topic has one row, as with Kafka's
    OffsetCommitResponse.Builder.
    """

    def merge(response: Message | None) -> None:
        assert isinstance(response, OffsetCommitResponse)
        merged = {(topic.name, topic.topic_id): topic for topic in refused}
        for topic in response.topics:
            add_topic(merged, (topic.name, topic.topic_id), topic)
        response.topics = list(merged.values())
        respond(response)

    return merge
