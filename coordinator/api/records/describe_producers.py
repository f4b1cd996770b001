"""DescribeProducers: the producers that partitions know (KIP-664)."""

from __future__ import annotations

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.many_rows import TOO_LARGE, TOO_LARGE_TEXT, AnswerSize
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.api.records.offsets import led_here
from muster.coordinator.log import LogError
from muster.coordinator.log.producers.state import Producer, Producers
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import name_fault
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

NO_TRANSACTION = -1
_ROW_BYTES = 40


@in_steps
def handle_describe_producers(
    node: Node, context: RequestContext, request: DescribeProducersRequest
) -> Job[DescribeProducersResponse]:
    """Answer each partition by itself."""
    room = AnswerSize(node, context)
    topics = []
    for topic in request.topics:
        rows = []
        for index in topic.partition_indexes:
            try:
                known = yield from _producers(node, context, topic.name, index)
                if not room.add(_ROW_BYTES * (1 + len(known))):
                    raise ApiError(TOO_LARGE, TOO_LARGE_TEXT)
                producers = []
                for producer in known.all():
                    producers.append(_row(producer))
                    yield None  # one step for each row that is encoded
                rows.append(PartitionResponse(index, active_producers=producers))
            except ApiError as refusal:
                rows.append(PartitionResponse(index, refusal.error_code, refusal.message))
            except LogError as refusal:
                rows.append(PartitionResponse(index, refusal.error_code, str(refusal)))
            yield room.pause()
        yield None
        topics.append(TopicResponse(topic.name, rows))
    return DescribeProducersResponse(topics=topics)


def _producers(node: Node, context: RequestContext, name: str, index: int) -> Job[Producers]:
    fault = name_fault(name)
    if fault is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")
    topic, code = node.topics.by_name.get(name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not node.authorizer.allows(context, Operation.READ, ResourceType.TOPIC, name):
        topic, code = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if topic is None:
        raise ApiError(code, error_message(code))
    partition = led_here(node, topic, index)
    yield from partition.loading_producers()
    return partition.producers()


def _row(producer: Producer) -> ProducerState:
    start = producer.transaction_start
    return ProducerState(
        producer.producer_id,
        producer.epoch,
        producer.last_sequence,
        producer.last_timestamp_ms,
        producer.coordinator_epoch,
        NO_TRANSACTION if start is None else start,
    )
