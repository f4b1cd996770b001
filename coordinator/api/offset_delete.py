"""OffsetDelete (key 47): committed positions of a group are forgotten, unless somebody subscribes to their topics."""

from __future__ import annotations

from muster.coordinator.api.context import GROUP, TOPIC, Operation, RequestContext, Resource, authorize
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.groups.interface import Command
from muster.coordinator.refusals import refuse
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle_offset_delete(node: Node, context: RequestContext, request: OffsetDeleteRequest, respond: Respond) -> None:
    """Unknown partitions are refused by row; the group is asked even when nothing is left, for its own errors."""
    if not authorize(context, Operation.DELETE, Resource(GROUP, request.group_id)):
        respond(refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return
    known: list[OffsetDeleteRequestTopic] = []
    refused: dict[str, OffsetDeleteResponseTopic] = {}
    for topic in request.topics:
        found = node.topics.image.by_name.get(topic.name)
        count = 0 if found is None else found.partitions
        if not authorize(context, Operation.READ, Resource(TOPIC, topic.name)):
            count, error_code = 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        else:
            error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        bad = [row for row in topic.partitions if not 0 <= row.partition_index < count]
        if bad or not count:
            failed = [OffsetDeleteResponsePartition(row.partition_index, error_code) for row in bad]
            row_of_topic = refused.setdefault(topic.name, OffsetDeleteResponseTopic(topic.name, []))
            row_of_topic.partitions = [*row_of_topic.partitions, *failed]
            topic.partitions = [row for row in topic.partitions if 0 <= row.partition_index < count]
        if topic.partitions:
            known.append(topic)
    request.topics = known

    def merge(response: Message | None) -> None:
        assert isinstance(response, OffsetDeleteResponse)
        if refused and response.error_code == ErrorCode.NONE:
            response.topics = _merged(refused, response)
        respond(response)

    node.routing.shard(request.group_id).submit(Command(request, merge, context.client))


def _merged(
    refused: dict[str, OffsetDeleteResponseTopic], response: OffsetDeleteResponse
) -> list[OffsetDeleteResponseTopic]:
    """One row per topic, refused partitions first."""
    merged = dict(refused)
    for topic in response.topics:
        present = merged.setdefault(topic.name, topic)
        if present is not topic:
            present.partitions = [*present.partitions, *topic.partitions]
    return list(merged.values())
