"""CreatePartitions: more partitions for existing topics (KIP-195)."""

from __future__ import annotations

from typing import Final

from muster.coordinator.api.context import RequestContext, charge_of
from muster.coordinator.api.durable import timed_out, until_durable
from muster.coordinator.api.hash_order import in_hash_order
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.system.jobs import Job, counting
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import EVENTS_OF, TRANSACTION_STATE_TOPIC
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

_PLACES: Final = {
    name: "transactional ids" if TRANSACTION_STATE_TOPIC in (name, EVENTS_OF.get(name)) else "groups"
    for name in (*EVENTS_OF, *EVENTS_OF.values())
}
"""Topics whose partitions cannot be increased, and what these partitions hold."""


@in_steps(forwarded=True)
def handle_create_partitions(
    node: Node, context: RequestContext, request: CreatePartitionsRequest
) -> Job[CreatePartitionsResponse]:
    """Enlarge the topics with a valid row. A topic that is named twice is not changed. The rows have Kafka's order,
    which comes from hash tables of the names.
    """
    rows: list[CreatePartitionsTopicResult] = []
    if timed_out(request.timeout_ms):
        for topic in request.topics:
            rows.append(CreatePartitionsTopicResult(topic.name, ErrorCode.REQUEST_TIMED_OUT))
            yield None
        return CreatePartitionsResponse(results=rows)
    counts = yield from counting(topic.name for topic in request.topics)
    asked: dict[str, CreatePartitionsTopic] = {}
    twice: dict[str, None] = {}
    for topic in request.topics:
        if counts[topic.name] == 1:
            asked[topic.name] = topic
        else:
            twice[topic.name] = None
        yield None
    for name in in_hash_order(twice):
        rows.append(CreatePartitionsTopicResult(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        yield None
    allowed: list[CreatePartitionsTopic] = []
    for name in in_hash_order(counts):
        if name in asked:
            if node.authorizer.allows(context, Operation.ALTER, ResourceType.TOPIC, name):
                allowed.append(asked[name])
            else:
                rows.append(CreatePartitionsTopicResult(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        yield None
    for topic in allowed:
        rows.append((yield from _grow(node, context, topic, request.validate_only)))
        yield None
    if not request.validate_only:
        yield from until_durable(node, rows)
    return CreatePartitionsResponse(results=rows)


def _grow(
    node: Node, context: RequestContext, topic: CreatePartitionsTopic, validate_only: bool
) -> Job[CreatePartitionsTopicResult]:
    assignments = None if topic.assignments is None else [assignment.broker_ids for assignment in topic.assignments]
    try:
        if topic.name in _PLACES:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS,
                f"The number of partitions of {topic.name} says where {_PLACES[topic.name]} are kept and stays.",
            )
        yield from node.topics.growing(
            topic.name, topic.count, assignments, validate_only=validate_only, charge=charge_of(context)
        )
    except ApiError as refusal:
        return CreatePartitionsTopicResult(topic.name, refusal.error_code, refusal.message)
    return CreatePartitionsTopicResult(topic.name)
