"""OffsetDelete (key 47): delete committed offsets of a group, unless a member subscribes to their topics."""

from __future__ import annotations

from collections.abc import Sequence

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.many_names import add_partitions, add_topic, in_pieces
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.runtime.group_coordinator.error_responses import refuse
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.state_machine.interface import Command
from muster.coordinator.system.jobs import Job, PendingResult
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


@in_steps
def handle_offset_delete(node: Node, context: RequestContext, request: OffsetDeleteRequest) -> Job[Message]:
    """Unknown partitions are refused by row. The group is asked even when no other row remains, for its own errors.
    Each step handles some rows. An error of the group ends the request.
    """
    if not node.authorizer.allows(context, Operation.DELETE, ResourceType.GROUP, request.group_id):
        return refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refused: dict[str, OffsetDeleteResponseTopic] = {}
    rows: list[OffsetDeleteResponseTopic] = []
    pieces = in_pieces(request.topics, "partitions")
    for goes_on, topics in pieces if request.topics else ((False, []),):
        later = PendingResult()
        known = _sort_out(node, context, topics, refused)
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
        # then each topic has one row, with its refused partitions first
        for topic in rows:
            add_topic(refused, topic.name, topic)
        rows = [*refused.values()]
    return OffsetDeleteResponse(topics=rows)


def _sort_out(
    node: Node,
    context: RequestContext,
    topics: Sequence[OffsetDeleteRequestTopic],
    refused: dict[str, OffsetDeleteResponseTopic],
) -> list[OffsetDeleteRequestTopic]:
    """The rows of existing partitions. Unknown ones are added to `refused`."""
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
