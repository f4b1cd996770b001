"""DeleteTopics: delete topics by name or id, with all their records (KIP-4, KIP-516)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from itertools import chain

from muster.coordinator.api.context import RequestContext, charge_of, knows_deletion_disabled
from muster.coordinator.api.many_rows import timed_out, until_durable
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.open_topics import Topic
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

_NO_TOPIC = "This server does not host this topic-partition."
_NO_ID = "This server does not host this topic ID."
_ID_TOO = "The provided topic name maps to an ID that was already supplied."
_NEITHER_NOR_BOTH = ("You may not specify both topic name and topic id.", "Neither topic name nor id were specified.")


@in_steps(forwarded=True)
def handle_delete_topics(
    node: Node, context: RequestContext, request: DeleteTopicsRequest
) -> Job[DeleteTopicsResponse]:
    """Delete the topics with a valid row. A topic that is named twice, or by name and by id, is not deleted."""
    wanted = chain(((t.name, t.topic_id) for t in request.topics), ((name, ZERO_UUID) for name in request.topic_names))
    refusal = _refusal(node, context, request)
    rows: list[DeletableTopicResult] = []
    if refusal is not None:
        for name, topic_id in wanted:
            rows.append(DeletableTopicResult(name, topic_id, refusal))
            yield None
        return DeleteTopicsResponse(responses=rows)
    names, ids = yield from _count(wanted, rows)
    by_name: set[bytes] = set()
    for one, count in names.items():
        row = yield from _row(node, context, one, ZERO_UUID, count, ids)
        rows.append(row)
        if row.error_message == _ID_TOO:
            by_name.add(row.topic_id)
        yield None
    for topic_id, count in ids.items():
        if topic_id not in by_name or count > 1:
            rows.append((yield from _row(node, context, None, topic_id, count, ())))
        yield None
    yield from until_durable(node, rows)
    return DeleteTopicsResponse(responses=rows)


def _count(
    wanted: Iterable[tuple[str | None, bytes]], rows: list[DeletableTopicResult]
) -> Job[tuple[Counter[str], Counter[bytes]]]:
    """How often each name and each id is in the request. Rows with both or neither are refused in `rows`."""
    names: Counter[str] = Counter()
    ids: Counter[bytes] = Counter()
    for name, topic_id in wanted:
        yield None
        if name is None and topic_id != ZERO_UUID:
            ids[topic_id] += 1
        elif name is not None and topic_id == ZERO_UUID:
            names[name] += 1
        else:
            why = _NEITHER_NOR_BOTH[name is None]
            rows.append(DeletableTopicResult(name, topic_id, ErrorCode.INVALID_REQUEST, why))
    return names, ids


def _refusal(node: Node, context: RequestContext, request: DeleteTopicsRequest) -> int | None:
    if not node.topics.settings.delete_topic_enable:
        known = knows_deletion_disabled(context.api_version)
        return ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
    return ErrorCode.REQUEST_TIMED_OUT if timed_out(request.timeout_ms) else None


def _row(
    node: Node, context: RequestContext, name: str | None, topic_id: bytes, count: int, ids: Container[bytes]
) -> Job[DeletableTopicResult]:
    """Delete a topic by name, or by id when the name is None. A named topic whose id is in `ids` is refused."""
    answer = DeletableTopicResult(name, topic_id)
    try:
        if count > 1:
            what = "id" if name is None else "name"
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")
        topic = _find_by_id(node, context, answer) if name is None else _find_by_name(node, context, name)
        if topic.topic_id in ids:
            answer.topic_id = topic.topic_id
            raise ApiError(ErrorCode.INVALID_REQUEST, _ID_TOO)
        if topic.internal:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Topic {topic.name} is internal: the coordinator needs it.")
        yield from node.topics.deleting(topic, charge_of(context))
    except ApiError as refusal:
        answer.error_code, answer.error_message = refusal.error_code, refusal.message
        return answer
    return DeletableTopicResult(topic.name, topic.topic_id)


def _find_by_id(node: Node, context: RequestContext, answer: DeletableTopicResult) -> Topic:
    """The topic to delete. If the client may describe the topic, `answer` gets the topic's name. Raises `ApiError`."""
    topic = node.topics.by_id.get(answer.topic_id)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, _NO_ID)
    if not _may(node, context, Operation.DELETE, topic.name):
        answer.name = topic.name if _may(node, context, Operation.DESCRIBE, topic.name) else None
        raise _not_allowed()
    return topic


def _find_by_name(node: Node, context: RequestContext, name: str) -> Topic:
    """The topic to delete. Only a client that may describe the topic learns whether it exists. Raises `ApiError`."""
    if not _may(node, context, Operation.DESCRIBE, name):
        raise _not_allowed()
    topic = node.topics.by_name.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NO_TOPIC)
    if not _may(node, context, Operation.DELETE, name):
        raise _not_allowed()
    return topic


def _not_allowed() -> ApiError:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ApiError(code, error_message(code))


def _may(node: Node, context: RequestContext, operation: int, name: str) -> bool:
    """Whether the client may do `operation` to this topic, by permission for the topic or for the cluster."""
    allows = node.authorizer.allows
    return allows(context, Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME) or allows(
        context, operation, ResourceType.TOPIC, name
    )
