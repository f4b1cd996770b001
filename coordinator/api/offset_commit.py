"""OffsetCommit (key 8): positions of a group, for the partitions that exist.

Topics and partitions that are not there are refused here, row by row, by the image of the topics; the rest goes to the
shard of the group. When nothing is left the group is not asked, as on Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster.coordinator.api.context import GROUP, TOPIC, Operation, RequestContext, authorize
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.groups.image import TopicImage, TopicsImage
from muster.coordinator.groups.interface import Command
from muster.coordinator.refusals import refuse
from muster.protocol.errors import ErrorCode
from muster.protocol.message import ZERO_UUID, Message
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from muster.protocol.shapes.topics import by_id as names_by_id

_Refused = dict[tuple[str, bytes], OffsetCommitResponseTopic]
"""Topics of which rows are refused, by name and id."""


def handle_offset_commit(node: Node, context: RequestContext, request: OffsetCommitRequest, respond: Respond) -> None:
    """Write the positions to the log of the group's shard, then answer; each partition has its own error."""
    if not authorize(context, Operation.READ, (GROUP, request.group_id)):
        respond(refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return
    known, refused = sort_out(context, node.topics.image, request.topics)
    if refused:
        if not known:
            respond(OffsetCommitResponse(topics=refused))
            return
        respond = _merging(refused, respond)
    request.topics = known
    node.routing.shard(request.group_id).submit(Command(request, respond, context.client))


def sort_out(
    context: RequestContext, image: TopicsImage, topics: Sequence[OffsetCommitRequestTopic]
) -> tuple[list[OffsetCommitRequestTopic], list[OffsetCommitResponseTopic]]:
    """The rows that exist, with name and id of their topic, and the refused ones with their errors.

    A topic may be named twice: its refused partitions stand in one row.
    """
    known: list[OffsetCommitRequestTopic] = []
    refused: _Refused = {}
    for topic in topics:
        found = _find(context, image, topic)
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


def _find(context: RequestContext, image: TopicsImage, topic: OffsetCommitRequestTopic) -> TopicImage | int:
    """The topic, by name or (v10) by id; or the error of all its rows."""
    if topic.topic_id != ZERO_UUID:
        by_id = image.by_id.get(topic.topic_id)
        if by_id is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        found, name = by_id, by_id.name
    else:
        name = topic.name
        by_name = image.by_name.get(name)
        if by_name is None:
            is_id = names_by_id(context.api_key, context.api_version)
            return ErrorCode.UNKNOWN_TOPIC_ID if is_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        found = by_name
    return found if authorize(context, Operation.READ, (TOPIC, name)) else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _take_out(refused: _Refused, topic: OffsetCommitRequestTopic, count: int) -> None:
    """Leave a topic the partitions that it has, and refuse the others."""
    bad = [row for row in topic.partitions if not 0 <= row.partition_index < count]
    topic.partitions = [row for row in topic.partitions if 0 <= row.partition_index < count]
    _refuse(refused, topic, bad, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _refuse(
    refused: _Refused, topic: OffsetCommitRequestTopic, rows: Sequence[OffsetCommitRequestPartition], error_code: int
) -> None:
    failed = [OffsetCommitResponsePartition(row.partition_index, error_code) for row in rows]
    key = topic.name, topic.topic_id
    present = refused.get(key)
    if present is None:
        refused[key] = OffsetCommitResponseTopic(topic.name, topic.topic_id, failed)
    else:
        present.partitions = [*present.partitions, *failed]


def _merging(refused: list[OffsetCommitResponseTopic], respond: Respond) -> Respond:
    """Puts the refused rows before the coordinator's; one row per topic, as Kafka's OffsetCommitResponse.Builder."""

    def merge(response: Message | None) -> None:
        assert isinstance(response, OffsetCommitResponse)
        merged = {(topic.name, topic.topic_id): topic for topic in refused}
        for topic in response.topics:
            present = merged.get((topic.name, topic.topic_id))
            if present is None:
                merged[topic.name, topic.topic_id] = topic
            else:
                present.partitions = [*present.partitions, *topic.partitions]
        response.topics = list(merged.values())
        respond(response)

    return merge
