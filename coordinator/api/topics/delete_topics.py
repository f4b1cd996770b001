"""DeleteTopics: topics by name or id, with all they hold (KIP-4, KIP-516)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

from muster.coordinator.api.context import TOPIC, Operation, RequestContext, Resource, authorize
from muster.coordinator.api.durable import until_durable
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.api.timeouts import timed_out
from muster.coordinator.api.version_rules import tells_deletion_disabled
from muster.coordinator.slices import Job
from muster.coordinator.topics.errors import ApiError
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
_ID_TOO = "The provided topic name maps to an ID that was already supplied."
_NEITHER_NOR_BOTH = (
    "You may not specify both topic name and topic id.",
    "Neither topic name nor id were specified.",
)


def handle_delete_topics(node: Node, context: RequestContext, request: DeleteTopicsRequest, respond: Respond) -> None:
    """Delete what can be deleted; a topic that is meant twice, be it by name and by id, is not."""
    node.run_to_end(context, respond, _delete_all(node, context, request))


def _delete_all(node: Node, context: RequestContext, request: DeleteTopicsRequest) -> Job[DeleteTopicsResponse]:
    wanted = [(t.name, t.topic_id) for t in request.topics] + [(name, ZERO_UUID) for name in request.topic_names]
    refusal = _refusal(node, context, request)
    if refusal is not None:
        refused = []
        for name, topic_id in wanted:
            refused.append(DeletableTopicResult(name, topic_id, refusal))
            yield None
        return DeleteTopicsResponse(responses=refused)
    names: Counter[str] = Counter()
    ids: Counter[bytes] = Counter()
    rows = []
    for name, topic_id in wanted:
        yield None
        if name is None and topic_id != ZERO_UUID:
            ids[topic_id] += 1
        elif name is not None and topic_id == ZERO_UUID:
            names[name] += 1
        else:
            rows.append(
                DeletableTopicResult(name, topic_id, ErrorCode.INVALID_REQUEST, _NEITHER_NOR_BOTH[name is None])
            )
    for name, count in names.items():
        rows.append((yield from _row(node, context, name, ZERO_UUID, count, ids)))
        yield None
    by_name = {row.topic_id for row in rows if row.error_message == _ID_TOO}
    for one, count in ids.items():
        if one not in by_name or count > 1:
            rows.append((yield from _row(node, context, None, one, count, ())))
        yield None
    yield from until_durable(node, [row for row in rows if not row.error_code])
    return DeleteTopicsResponse(responses=rows)


def _refusal(node: Node, context: RequestContext, request: DeleteTopicsRequest) -> int | None:
    """The error of all rows alike, if there is one."""
    if not node.topics.settings.delete_topic_enable:
        known = tells_deletion_disabled(context.api_version)
        return ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
    return ErrorCode.REQUEST_TIMED_OUT if timed_out(request.timeout_ms) else None


def _row(
    node: Node, context: RequestContext, name: str | None, topic_id: bytes, count: int, ids: Container[bytes]
) -> Job[DeletableTopicResult]:
    """Delete the topic of this name, or without one of this id, unless it is named more than once, or in `ids` too."""
    try:
        if count > 1:
            what = "id" if name is None else "name"
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")
        topic = _find(node, context, name, topic_id)
        if topic.topic_id in ids:
            topic_id = topic.topic_id
            raise ApiError(ErrorCode.INVALID_REQUEST, _ID_TOO)
        yield from _delete(node, topic)
    except ApiError as refusal:
        return DeletableTopicResult(name, topic_id, refusal.error_code, refusal.message)
    return DeletableTopicResult(topic.name, topic.topic_id)


def _find(node: Node, context: RequestContext, name: str | None, topic_id: bytes) -> Topic:
    """The topic that is meant, by name or by id, if it may be deleted by this principal. Raises `ApiError`."""
    if name is None:
        topic = node.topics.by_id.get(topic_id)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, _NO_ID)
    else:
        topic = node.topics.by_name.get(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NO_TOPIC)
    if not authorize(context, Operation.DELETE, Resource(TOPIC, topic.name)):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return topic


def _delete(node: Node, topic: Topic) -> Job[None]:
    """Raises `ApiError`."""
    if topic.internal:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Topic {topic.name} is internal: the coordinator needs it.")
    yield from node.topics.deleting(topic)
