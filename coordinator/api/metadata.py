"""Metadata: the nodes, the topics and who leads their partitions; topics asked for may be created on the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from muster.coordinator.api.capabilities import metadata_by_topic_id
from muster.coordinator.api.context import (
    THE_CLUSTER,
    TOPIC,
    Operation,
    RequestContext,
    Resource,
    authorize,
)
from muster.coordinator.api.durable import respond_when_durable
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.api.operations import NOT_ASKED, authorized_operations
from muster.coordinator.topics.names import INTERNAL_TOPICS, name_fault
from muster.coordinator.topics.refusal import Refused
from muster.coordinator.topics.topic import Topic
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

NO_LEADER = -1


def handle_metadata(node: Node, context: RequestContext, request: MetadataRequest, respond: Respond) -> None:
    """All topics when none are named (null), else those named, in their order."""
    if not metadata_by_topic_id(context.api_version) and any(
        topic.name is None or topic.topic_id != ZERO_UUID for topic in request.topics or ()
    ):
        respond(_without_ids(request.topics or ()))
        return
    tell_operations = request.include_topic_authorized_operations
    made: list[MetadataResponseTopic] = []
    if request.topics is None:
        rows = [_present(node, context, topic, tell_operations) for topic in _describable(node, context)]
    else:
        there = len(node.topics.by_name)
        rows = _asked(node, context, request.topics, request.allow_auto_topic_creation, tell_operations)
        names = set(islice(reversed(node.topics.by_name), len(node.topics.by_name) - there))  # the newest are the last
        made = [row for row in rows if row.name in names]
    host, port = node.endpoint(context)
    operations = NOT_ASKED
    if request.include_cluster_authorized_operations:
        operations = authorized_operations(context, THE_CLUSTER)
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(node.node_id, host, port, node.rack)],
        cluster_id=node.cluster_id,
        controller_id=node.node_id,
        topics=rows,
        cluster_authorized_operations=operations,
    )
    respond_when_durable(node, respond, response, made)


def _describable(node: Node, context: RequestContext) -> Iterable[Topic]:
    for topic in node.topics.by_name.values():
        if authorize(context, Operation.DESCRIBE, Resource(TOPIC, topic.name)):
            yield topic


def _asked(
    node: Node,
    context: RequestContext,
    wanted: Sequence[MetadataRequestTopic],
    may_create: bool,
    tell_operations: bool,
) -> list[MetadataResponseTopic]:
    """One row for each topic that is meant. Where one is asked for by its id, names count for nothing, as on Kafka."""
    ids = dict.fromkeys(topic.topic_id for topic in wanted if topic.topic_id != ZERO_UUID)
    meant = [(None, one) for one in ids] or dict.fromkeys((topic.name, topic.topic_id) for topic in wanted)
    rows = []
    for name, topic_id in meant:
        try:
            topic = _find(node, context, name, topic_id, may_create)
        except Refused as refusal:
            rows.append(_refused(context, refusal.error_code, name, topic_id, tell_operations))
        else:
            rows.append(_present(node, context, topic, tell_operations))
    return rows


def _without_ids(wanted: Sequence[MetadataRequestTopic]) -> MetadataResponse:
    """The answer to versions 10 and 11, which have a place for ids that may not be used: nothing but refusals."""
    rows = [
        MetadataResponseTopic(
            ErrorCode.INVALID_REQUEST, topic.name or "", topic.topic_id, topic_authorized_operations=NOT_ASKED
        )
        for topic in wanted
    ]
    return MetadataResponse(topics=rows, error_code=ErrorCode.INVALID_REQUEST)


def _refused(
    context: RequestContext, error_code: int, name: str | None, topic_id: bytes, tell_operations: bool
) -> MetadataResponseTopic:
    """A topic that is not there may be asked about all the same, if it has a name: what one might do to it."""
    operations = NOT_ASKED
    if tell_operations and name is not None:
        operations = authorized_operations(context, Resource(TOPIC, name))
    return MetadataResponseTopic(error_code, name, topic_id, name in INTERNAL_TOPICS, [], operations)


def _find(node: Node, context: RequestContext, name: str | None, topic_id: bytes, may_create: bool) -> Topic:
    """The topic that is meant. Raises `Refused`."""
    if topic_id != ZERO_UUID or name is None:
        topic = node.topics.by_id.get(topic_id)
        if topic is None or not authorize(context, Operation.DESCRIBE, Resource(TOPIC, topic.name)):
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
        return topic
    if not authorize(context, Operation.DESCRIBE, Resource(TOPIC, name)):
        raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    topic = node.topics.by_name.get(name)
    if topic is not None:
        return topic
    if name_fault(name) is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not may_create or not node.topics.settings.auto_create_topics_enable:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not authorize(context, Operation.CREATE, Resource(TOPIC, name)):
        raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    try:
        return node.topics.ensure_topic(name)
    except Refused as refusal:
        # what cannot be made is simply not there; that the disk is to blame may be told
        storage = refusal.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        raise refusal if storage else Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from refusal


def _present(node: Node, context: RequestContext, topic: Topic, tell_operations: bool) -> MetadataResponseTopic:
    operations = NOT_ASKED
    if tell_operations:
        operations = authorized_operations(context, Resource(TOPIC, topic.name))
    return MetadataResponseTopic(0, topic.name, topic.topic_id, topic.internal, _partitions(node, topic), operations)


def _partitions(node: Node, topic: Topic) -> list[MetadataResponsePartition]:
    rows = []
    for index, state in enumerate(topic.state.partitions):
        epoch, replicas = topic.leader_epoch(index), list(state.replicas)
        if not topic.is_online(index):
            error_code = ErrorCode.LEADER_NOT_AVAILABLE
            rows.append(MetadataResponsePartition(error_code, index, NO_LEADER, epoch, replicas, [], replicas))
        else:
            rows.append(MetadataResponsePartition(0, index, node.node_id, epoch, replicas, list(state.isr)))
    return rows
