"""CreateTopics (KIP-4, KIP-464, KIP-525), and CreatePartitions: more partitions for existing topics (KIP-195)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from muster.coordinator.api.context import RequestContext, charge_of
from muster.coordinator.api.many_rows import in_hash_order, timed_out, until_durable
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.properties import describe
from muster.coordinator.security.authorizer import Operation, ResourceType, may_create_topic
from muster.coordinator.system.jobs import Job, counting
from muster.coordinator.topics.creation import MAX_PARTITIONS_PER_REQUEST, NewTopic
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import EVENTS_OF, METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from muster.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_TIMED_OUT = ApiError(ErrorCode.REQUEST_TIMED_OUT)
_DUPLICATE = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
_TOO_MANY = ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
_PLACES: Final = {
    name: "transactional ids" if TRANSACTION_STATE_TOPIC in (name, EVENTS_OF.get(name)) else "groups"
    for name in (*EVENTS_OF, *EVENTS_OF.values())
}
"""Topics whose number of partitions cannot be increased, and what is placed in these partitions."""


@in_steps(forwarded=True)
def handle_create_topics(
    node: Node, context: RequestContext, request: CreateTopicsRequest
) -> Job[CreateTopicsResponse]:
    """Create the topics with a valid row. A topic that is named twice is not created."""
    rows: list[CreatableTopicResult] = []
    if timed_out(request.timeout_ms):
        for topic in request.topics:
            rows.append(_refused(topic, _TIMED_OUT))
            yield None
        return CreateTopicsResponse(topics=rows)
    counts: Counter[str] = Counter()
    partitions = 0
    for topic in request.topics:
        counts[topic.name] += 1
        partitions += _wanted_partitions(node, topic)
        yield None
    new_configs = _ConfigsOfNewTopics(node)
    refused_by_broker: dict[str, CreatableTopicResult] = {}
    twice: dict[str, None] = {}
    for topic in request.topics:
        yield None
        if counts[topic.name] > 1:
            twice[topic.name] = None
            continue
        refusal = _broker_refusal(node, context, topic.name)
        if refusal is not None:
            refused_by_broker[topic.name] = _refused(topic, refusal)
        elif partitions > MAX_PARTITIONS_PER_REQUEST:
            rows.append(_refused(topic, _TOO_MANY))
        else:
            row = yield from _create(node, context, topic, request.validate_only)
            rows.append(row)
            yield from new_configs.fill_in(row, topic)
    # rows that Kafka's controller would not get are last, in the order of hash tables
    for name in in_hash_order(twice):
        rows.append(_refused(CreatableTopic(name), _DUPLICATE))
        yield None
    if refused_by_broker:
        for name in in_hash_order(counts):
            if name in refused_by_broker:
                rows.append(refused_by_broker[name])
            yield None
    if not request.validate_only:
        yield from until_durable(node, rows)
    return CreateTopicsResponse(topics=rows)


class _ConfigsOfNewTopics:
    """The configs of new topics in the answer. Most topics of one request have the same configs."""

    __slots__ = ("_known", "_node")

    def __init__(self, node: Node) -> None:
        self._node = node
        self._known: dict[tuple[tuple[str, str | None], ...], Sequence[CreatableTopicConfigs]] = {}

    def fill_in(self, row: CreatableTopicResult, topic: CreatableTopic) -> Job[None]:
        if row.error_code or row.topic_config_error_code:
            return
        given = tuple([(config.name, config.value) for config in topic.configs])
        if given not in self._known:
            self._known[given] = _created_configs(self._node, dict(given))
        row.configs = self._known[given]
        for _ in row.configs:
            yield None  # one step for each row that is encoded


def _created_configs(node: Node, configs: Mapping[str, str | None]) -> list[CreatableTopicConfigs]:
    given = {name: text for name, text in configs.items() if text is not None}
    return [
        CreatableTopicConfigs(entry.name, entry.value, entry.read_only, entry.source, entry.sensitive)
        for entry in describe.created(given, node.config)
    ]


def _wanted_partitions(node: Node, topic: CreatableTopic) -> int:
    default = node.topics.settings.num_partitions
    return len(topic.assignments) or (default if topic.num_partitions == -1 else max(topic.num_partitions, 0))


def _create(node: Node, context: RequestContext, row: CreatableTopic, validate_only: bool) -> Job[CreatableTopicResult]:
    topics = node.topics
    configs: dict[str, str | None] = {}
    for config in row.configs:
        configs[config.name] = config.value
        yield None
    try:
        wanted = NewTopic(
            row.name,
            node.draw_uuid(),
            row.num_partitions,
            row.replication_factor,
            [(assignment.partition_index, assignment.broker_ids) for assignment in row.assignments],
            configs,
        )
        numbers = yield from topics.creating(wanted, validate_only=validate_only, charge=charge_of(context))
    except ApiError as refusal:
        return _refused(row, refusal)
    answer = CreatableTopicResult(name=row.name, topic_id=wanted.topic_id, error_message=None)
    if node.authorizer.allows(context, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, row.name):
        answer.num_partitions, answer.replication_factor = numbers
    else:
        answer.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        answer.configs = ()
    return answer


def _broker_refusal(node: Node, context: RequestContext, name: str) -> ApiError | None:
    """Why Kafka's broker refuses a topic of this name without asking the controller. None: the broker asks."""
    if name == METADATA_TOPIC:
        return ApiError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
    if not may_create_topic(node.authorizer, context, name):
        return ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    return None


def _refused(row: CreatableTopic, refusal: ApiError) -> CreatableTopicResult:
    return CreatableTopicResult(name=row.name, error_code=refusal.error_code, error_message=refusal.message, configs=())


@in_steps(forwarded=True)
def handle_create_partitions(
    node: Node, context: RequestContext, request: CreatePartitionsRequest
) -> Job[CreatePartitionsResponse]:
    """Enlarge the topics with a valid row, but no topic that is named twice. The answer has Kafka's hash order."""
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
                f"The number of partitions of {topic.name} is fixed, as it decides where {_PLACES[topic.name]} are.",
            )
        yield from node.topics.growing(
            topic.name, topic.count, assignments, validate_only=validate_only, charge=charge_of(context)
        )
    except ApiError as refusal:
        return CreatePartitionsTopicResult(topic.name, refusal.error_code, refusal.message)
    return CreatePartitionsTopicResult(topic.name)
