"""CreateTopics: new topics, each answered on its own row (KIP-4, KIP-464, KIP-525)."""

from __future__ import annotations

from collections import Counter

from muster.coordinator.api.config_rows import created_configs
from muster.coordinator.api.context import THE_CLUSTER, TOPIC, Operation, RequestContext, Resource, authorize
from muster.coordinator.api.durable import respond_when_durable
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.api.timeouts import timed_out
from muster.coordinator.topics.creation import MAX_PARTITIONS_PER_REQUEST, NewTopic
from muster.coordinator.topics.names import METADATA_TOPIC
from muster.coordinator.topics.refusal import Refused
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


def handle_create_topics(node: Node, context: RequestContext, request: CreateTopicsRequest, respond: Respond) -> None:
    """Create what can be created; a topic that is named twice is created by neither row."""
    if timed_out(request.timeout_ms):
        respond(CreateTopicsResponse(topics=[_refused(topic, _TIMED_OUT) for topic in request.topics]))
        return
    counts = Counter(topic.name for topic in request.topics)
    too_many = _wanted_partitions(node, request) > MAX_PARTITIONS_PER_REQUEST
    once = [topic for topic in request.topics if counts[topic.name] == 1]
    if too_many:
        rows = [_refused(topic, _TOO_MANY) for topic in once]
    else:
        rows = [_create(node, context, topic, request.validate_only) for topic in once]
    rows += [
        CreatableTopicResult(
            name=n, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name.", configs=()
        )
        for n, count in counts.items()
        if count > 1
    ]
    made = [] if request.validate_only else [row for row in rows if not row.error_code]
    respond_when_durable(node, respond, CreateTopicsResponse(topics=rows), made)


_TIMED_OUT = Refused(ErrorCode.REQUEST_TIMED_OUT)
_TOO_MANY = Refused(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def _wanted_partitions(node: Node, request: CreateTopicsRequest) -> int:
    default = node.topics.settings.num_partitions
    return sum(
        len(topic.assignments) or (default if topic.num_partitions == -1 else max(topic.num_partitions, 0))
        for topic in request.topics
    )


def _create(node: Node, context: RequestContext, row: CreatableTopic, validate_only: bool) -> CreatableTopicResult:
    topics = node.topics
    try:
        if row.name == METADATA_TOPIC:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
        if not authorize(context, Operation.CREATE, THE_CLUSTER) and not authorize(
            context, Operation.CREATE, Resource(TOPIC, row.name)
        ):
            raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
        wanted = NewTopic(
            row.name,
            node.draw_uuid(),
            row.num_partitions,
            row.replication_factor,
            [(assignment.partition_index, assignment.broker_ids) for assignment in row.assignments],
            {config.name: config.value for config in row.configs},
        )
        partitions = topics.create(wanted, validate_only=validate_only)
    except Refused as refusal:
        return _refused(row, refusal)
    return CreatableTopicResult(
        name=row.name,
        topic_id=wanted.topic_id,
        error_message=None,
        num_partitions=partitions,
        replication_factor=1,
        configs=created_configs(node, wanted.configs),
    )


def _refused(row: CreatableTopic, refusal: Refused) -> CreatableTopicResult:
    return CreatableTopicResult(name=row.name, error_code=refusal.error_code, error_message=refusal.message, configs=())
