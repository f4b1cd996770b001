"""Metadata: the nodes, the topics and the leaders of partitions. The request may create topics that it names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muster.coordinator.api.context import RequestContext, metadata_by_topic_id
from muster.coordinator.api.many_rows import NO_LIMIT, AnswerSize, until_durable
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.security.authorizer import (
    OPERATIONS_NOT_ASKED,
    Operation,
    ResourceType,
    authorized_operations,
    cluster_operations,
    may_create_topic,
)
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.cluster_image import NO_BROKER
from muster.coordinator.topics.creation import MAX_PARTITIONS_PER_REQUEST
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import INTERNAL_TOPICS, name_fault
from muster.coordinator.topics.open_topics import Topic
from muster.protocol.errors import ErrorCode
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_ROW_BYTES = 35


def handle_metadata(node: Node, context: RequestContext, request: MetadataRequest, respond: Respond) -> None:
    """Answer with the named topics in their order, or with all topics when the request names none (null)."""
    may_create = request.allow_auto_topic_creation and request.topics
    run = node.run_to_end if may_create else node.run
    run(context, respond, _describe(node, context, request))


def _describe(node: Node, context: RequestContext, request: MetadataRequest) -> Job[MetadataResponse]:
    if not metadata_by_topic_id(context.api_version):
        for topic in request.topics or ():
            if topic.name is None or topic.topic_id != ZERO_UUID:
                return (yield from _without_ids(request.topics or ()))
            yield None
    with_operations = request.include_topic_authorized_operations
    rows: list[MetadataResponseTopic] = []
    made: list[MetadataResponseTopic] = []
    if request.topics is None:
        answer_size = AnswerSize(node, context, NO_LIMIT)
        for present in node.topics.open.walk():
            if node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.TOPIC, present.name, log_denied=False):
                rows.append((yield from _present(node, context, present, with_operations)))
                answer_size.add(_size(rows[-1]))
            yield answer_size.pause()
    else:
        asked = _NamedTopics(node, context, request)
        yield from asked.describe()
        rows, made = asked.rows, asked.made
    operations = cluster_operations(node.authorizer, context, request.include_cluster_authorized_operations)
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(broker.broker_id, host, port, broker.rack)
            for broker, (host, port) in node.cluster.reachable(context)
        ],
        cluster_id=node.cluster.cluster_id,
        controller_id=node.cluster.controller_id,
        topics=rows,
        cluster_authorized_operations=operations,
    )
    yield from until_durable(node, made)
    return response


def _size(row: MetadataResponseTopic) -> int:
    return _ROW_BYTES * (1 + len(row.partitions)) + len(row.name or "")


class _NamedTopics:
    __slots__ = ("_answer_size", "_context", "_may_create", "_node", "_wanted", "_with_operations", "made", "rows")

    def __init__(self, node: Node, context: RequestContext, request: MetadataRequest) -> None:
        self._node = node
        self._context = context
        self._wanted = request.topics or ()
        self._may_create = request.allow_auto_topic_creation and node.topics.settings.auto_create_topics_enable
        self._answer_size = AnswerSize(node, context, NO_LIMIT)
        self._with_operations = request.include_topic_authorized_operations
        self.rows: list[MetadataResponseTopic] = []
        self.made: list[MetadataResponseTopic] = []
        """The rows of topics that this request created."""

    def describe(self) -> Job[None]:
        """Find the topics. As on Kafka, names are ignored if the request names any topic by id."""
        ids: dict[tuple[str | None, bytes], None] = {}
        both: dict[tuple[str | None, bytes], None] = {}
        for topic in self._wanted:
            if topic.topic_id != ZERO_UUID:
                ids[None, topic.topic_id] = None
            both[topic.name, topic.topic_id] = None
            yield None
        meant = ids or both
        if self._may_create:
            yield from self._count(meant)
        for name, topic_id in meant:
            try:
                found = self._find(name, topic_id)
                present = (yield from self._create(name or "")) if found is None else found
            except ApiError as refusal:
                self.rows.append(self._refused(refusal.error_code, name, topic_id))
            else:
                row = yield from _present(self._node, self._context, present, self._with_operations)
                self.rows.append(row)
                if found is None:
                    self.made.append(row)
            self._answer_size.add(_size(self.rows[-1]))
            yield self._answer_size.pause()

    def _count(self, meant: Iterable[tuple[str | None, bytes]]) -> Job[None]:
        """Count the partitions to create. Above the limit of Kafka's controller, no topic is created."""
        topics, new = self._node.topics, 0
        for name, _ in meant:
            new += name is not None and name not in topics.by_name and name_fault(name) is None
            yield None
        self._may_create = new * topics.settings.num_partitions <= MAX_PARTITIONS_PER_REQUEST

    def _find(self, name: str | None, topic_id: bytes) -> Topic | None:
        """The named topic. None means that the topic may be created. Raises `ApiError`."""
        node, context = self._node, self._context
        if topic_id != ZERO_UUID or name is None:
            topic = node.topics.by_id.get(topic_id)
            if topic is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
            if not node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            return topic
        if not node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.TOPIC, name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        topic = node.topics.by_name.get(name)
        if topic is not None:
            return topic
        if self._may_create and not may_create_topic(node.authorizer, context, name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if name_fault(name) is not None:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if not self._may_create:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return None

    def _create(self, name: str) -> Job[Topic]:
        try:
            throttle = self._context.channel.throttle
            charge = None if throttle is None or name in INTERNAL_TOPICS else throttle.create
            return (yield from self._node.topics.ensuring(name, charge=charge))
        except ApiError as refusal:
            # an error of the disk is reported; after any other error the topic is unknown
            storage = refusal.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            raise refusal if storage else ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from refusal

    def _refused(self, error_code: int, name: str | None, topic_id: bytes) -> MetadataResponseTopic:
        """The row of a topic that cannot be shown. The row of an unknown topic still has the client's operations."""
        if error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            # the answer must not reveal whether the topic exists
            return MetadataResponseTopic(error_code, name, topic_id, topic_authorized_operations=OPERATIONS_NOT_ASKED)
        operations = OPERATIONS_NOT_ASKED
        if self._with_operations and name is not None:
            operations = authorized_operations(self._node.authorizer, self._context, ResourceType.TOPIC, name)
        return MetadataResponseTopic(error_code, name, topic_id, name in INTERNAL_TOPICS, [], operations)


def _without_ids(wanted: Sequence[MetadataRequestTopic]) -> Job[MetadataResponse]:
    """Refuse every row, because versions 10 and 11 have a field for topic ids that clients must not use."""
    rows = []
    for topic in wanted:
        rows.append(
            MetadataResponseTopic(
                ErrorCode.INVALID_REQUEST,
                topic.name or "",
                topic.topic_id,
                topic_authorized_operations=OPERATIONS_NOT_ASKED,
            )
        )
        yield None
    return MetadataResponse(topics=rows, error_code=ErrorCode.INVALID_REQUEST)


def _present(node: Node, context: RequestContext, topic: Topic, with_operations: bool) -> Job[MetadataResponseTopic]:
    operations = OPERATIONS_NOT_ASKED
    if with_operations:
        operations = authorized_operations(node.authorizer, context, ResourceType.TOPIC, topic.name)
    rows: list[MetadataResponsePartition] = []
    cluster = node.cluster
    leaders = cluster.leaders.get(topic.name, ())  # no leaders if the topic was deleted meanwhile
    for index, ((leader_id, epoch), state) in enumerate(zip(leaders, topic.state.partitions, strict=False)):
        replicas = state.replicas
        if leader_id == NO_BROKER or not topic.is_online(index):
            error_code = ErrorCode.LEADER_NOT_AVAILABLE
            rows.append(MetadataResponsePartition(error_code, index, NO_BROKER, epoch, replicas, (), replicas))
        else:
            error_code, unavailable = 0, cluster.unavailable(replicas)
            if not (cluster.is_whole or cluster.is_alive(leader_id)):
                # The leader was found dead a moment ago, and another broker will soon lead the partition. Clients ask
                # again. No row has the id of a broker that the answer does not list.
                error_code, leader_id = ErrorCode.LEADER_NOT_AVAILABLE, NO_BROKER
            rows.append(
                MetadataResponsePartition(error_code, index, leader_id, epoch, replicas, state.isr, unavailable)
            )
        yield None
    return MetadataResponseTopic(0, topic.name, topic.topic_id, topic.internal, rows, operations)
