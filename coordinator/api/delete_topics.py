"""DeleteTopics: topics by name or id, with all they hold (KIP-4, KIP-516)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from muster.coordinator.api.context import TOPIC, Operation, RequestContext, Resource, authorize
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.topics.refusal import Refused
from muster.coordinator.topics.topic import Topic
from muster.protocol.errors import ErrorCode
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

_NO_TOPIC = "This server does not host this topic-partition."
_NO_ID = "This server does not host this topic ID."


def handle_delete_topics(node: Node, context: RequestContext, request: DeleteTopicsRequest, respond: Respond) -> None:
    """Delete what can be deleted; a topic that is meant twice is not."""
    wanted = [(t.name, t.topic_id) for t in request.topics] + [(name, ZERO_UUID) for name in request.topic_names]
    ids = {topic_id for name, topic_id in wanted if name is None}
    rows = []
    for (name, topic_id), count in Counter(wanted).items():
        try:
            if count > 1:
                what = "id" if name is None else "name"
                raise Refused(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")
            topic = _find(node, name, topic_id, ids)
            _delete(node, context, topic)
        except Refused as refusal:
            rows.append(DeletableTopicResult(name, topic_id, refusal.error_code, refusal.message))
        else:
            rows.append(DeletableTopicResult(topic.name, topic.topic_id))
    respond(DeleteTopicsResponse(responses=rows))


def _find(node: Node, name: str | None, topic_id: bytes, ids: Collection[bytes]) -> Topic:
    """The topic that is meant, by name or by id. Raises `Refused`."""
    if name is None:
        if topic_id == ZERO_UUID:
            raise Refused(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        topic = node.topics.by_id.get(topic_id)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID, _NO_ID)
        return topic
    if topic_id != ZERO_UUID:
        raise Refused(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    topic = node.topics.by_name.get(name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NO_TOPIC)
    if topic.topic_id in ids:
        raise Refused(ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied.")
    return topic


def _delete(node: Node, context: RequestContext, topic: Topic) -> None:
    """Raises `Refused`."""
    if not authorize(context, Operation.DELETE, Resource(TOPIC, topic.name)):
        raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if not node.topics.settings.delete_topic_enable:
        raise Refused(ErrorCode.TOPIC_DELETION_DISABLED)
    if topic.internal:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Topic {topic.name} is internal: the coordinator needs it.")
    node.topics.delete(topic)
