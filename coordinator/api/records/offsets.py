"""Offsets and producers of partitions that this node leads.

The requests are ListOffsets (KIP-79, KIP-734), OffsetForLeaderEpoch (KIP-101, KIP-320), DeleteRecords (KIP-107) and
DescribeProducers (KIP-664).
"""

from __future__ import annotations

from collections import Counter

from muster.coordinator.api.context import RequestContext, knows_timestamp
from muster.coordinator.api.many_rows import TOO_LARGE, TOO_LARGE_TEXT, AnswerSize
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.log import LogError
from muster.coordinator.log.producers.state import Producer, Producers
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import name_fault
from muster.coordinator.topics.open_topics import Topic
from muster.coordinator.topics.partition import Partition
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.messages import describe_producers
from muster.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from muster.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from muster.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def led_here(node: Node, topic: Topic, index: int) -> Partition:
    """A partition that this node leads. Raises `ApiError`: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER (another
    broker leads it, or see `Topic.existing`), KAFKA_STORAGE_ERROR.
    """
    if node.cluster.is_led_elsewhere(topic.name, index):
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return topic.existing(index)


def named_here(node: Node, name: str, index: int) -> Partition:
    """`led_here` for the name of a topic. UNKNOWN_TOPIC_OR_PARTITION: the topic or the partition does not exist."""
    topic = node.topics.by_name.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return led_here(node, topic, index)


LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
READ_COMMITTED = 1


@in_steps
def handle_list_offsets(node: Node, context: RequestContext, request: ListOffsetsRequest) -> Job[ListOffsetsResponse]:
    """Answer a ListOffsets. A partition that is named twice is refused. Refused topics are last."""
    committed = request.isolation_level == READ_COMMITTED
    asked: Counter[tuple[str, int]] = Counter()
    for topic in request.topics:
        for row in topic.partitions:
            asked[topic.name, row.partition_index] += 1
            yield None
    topics: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    refused: list[ListOffsetsTopicResponse] = []
    for topic in request.topics:
        if not node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            refused.append((yield from _refused(topic)))
            continue
        for row in topic.partitions:
            twice = asked[topic.name, row.partition_index] > 1
            try:
                answer = yield from _answer(node, context, topic.name, row, committed, twice)
            except (ApiError, LogError) as error:
                answer = ListOffsetsPartitionResponse(row.partition_index, error.error_code)
            topics.setdefault(topic.name, {})[row.partition_index] = answer
            yield None
        yield None
    answered = [ListOffsetsTopicResponse(name, list(rows.values())) for name, rows in topics.items()]
    return ListOffsetsResponse(topics=answered + refused)


def _refused(topic: ListOffsetsTopic) -> Job[ListOffsetsTopicResponse]:
    rows = []
    for row in topic.partitions:
        rows.append(ListOffsetsPartitionResponse(row.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        yield None
    return ListOffsetsTopicResponse(topic.name, rows)


def _answer(
    node: Node, context: RequestContext, name: str, row: ListOffsetsPartition, committed: bool, twice: bool
) -> Job[ListOffsetsPartitionResponse]:
    if twice:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if not knows_timestamp(context.api_version, row.timestamp):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    partition = named_here(node, name, row.partition_index)
    partition.check_leader_epoch(row.current_leader_epoch)
    timestamp, offset, epoch = yield from _look_up(partition, row.timestamp, committed)
    return ListOffsetsPartitionResponse(row.partition_index, 0, timestamp, offset, epoch)


def _look_up(partition: Partition, timestamp: int, committed: bool) -> Job[tuple[int, int, int]]:
    """Return (timestamp, offset, leader epoch). A missing value is -1."""
    log = partition.log
    if committed:
        yield from partition.loading_producers()
    end = partition.last_stable_offset() if committed else log.durable_offset
    if timestamp == LATEST:
        return -1, end, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.start_offset, partition.epoch_for_offset(log.start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return -1, -1, -1  # no segment is in tiered storage
    look = log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    try:
        found = yield from look
    except OSError as error:
        # retention or compaction has removed a segment meanwhile; when the client asks again, it gets the new state
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
    if found is None or found.offset >= end:
        return -1, -1, -1
    return found.timestamp_ms, found.offset, found.leader_epoch


@in_steps
def handle_offset_for_leader_epoch(
    node: Node, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> Job[OffsetForLeaderEpochResponse]:
    """Answer an OffsetForLeaderEpoch. As on Kafka, topics that the client may not describe are last."""
    allows = node.authorizer.allows
    is_broker = allows(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    topics: list[OffsetForLeaderTopicResult] = []
    refused: list[OffsetForLeaderTopicResult] = []
    for topic in request.topics:
        is_allowed = is_broker or allows(context, Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        rows = []
        for row in topic.partitions:
            try:
                if not is_allowed:
                    raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                rows.append(_epoch_end(node, topic.topic, row))
            except ApiError as refusal:
                rows.append(EpochEndOffset(refusal.error_code, row.partition))
            yield None
        yield None
        (topics if is_allowed else refused).append(OffsetForLeaderTopicResult(topic.topic, rows))
    return OffsetForLeaderEpochResponse(topics=topics + refused)


def _epoch_end(node: Node, name: str, row: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = named_here(node, name, row.partition)
    partition.check_leader_epoch(row.current_leader_epoch)
    epoch, end_offset = partition.epoch_end_offset(row.leader_epoch)
    return EpochEndOffset(0, row.partition, epoch, end_offset)


NO_LOW_WATERMARK = -1


@in_steps
def handle_delete_records(
    node: Node, context: RequestContext, request: DeleteRecordsRequest
) -> Job[DeleteRecordsResponse]:
    """Answer a DeleteRecords. If a partition is named twice, its last offset counts, as on Kafka."""
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        for row in topic.partitions:
            wanted.setdefault(topic.name, {})[row.partition_index] = row.offset
            yield None
        yield None
    topics = []
    for name, offsets in wanted.items():
        rows = []
        for index, offset in offsets.items():
            try:
                rows.append(DeleteRecordsPartitionResult(index, _delete(node, context, name, index, offset)))
            except (ApiError, LogError) as error:
                rows.append(DeleteRecordsPartitionResult(index, NO_LOW_WATERMARK, error.error_code))
            yield None
        topics.append(DeleteRecordsTopicResult(name, rows))
    return DeleteRecordsResponse(topics=topics)


def _delete(node: Node, context: RequestContext, name: str, index: int, offset: int) -> int:
    """Delete the records of one partition. Returns the new log start offset."""
    if not node.authorizer.allows(context, Operation.DELETE, ResourceType.TOPIC, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    topic = node.topics.by_name.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = led_here(node, topic, index)
    if topic.internal:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    return partition.delete_records(offset)


NO_TRANSACTION = -1
_ROW_BYTES = 40


@in_steps
def handle_describe_producers(
    node: Node, context: RequestContext, request: describe_producers.DescribeProducersRequest
) -> Job[describe_producers.DescribeProducersResponse]:
    """Answer a DescribeProducers. Each partition has its own error."""
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
                rows.append(describe_producers.PartitionResponse(index, active_producers=producers))
            except ApiError as refusal:
                rows.append(describe_producers.PartitionResponse(index, refusal.error_code, refusal.message))
            except LogError as refusal:
                rows.append(describe_producers.PartitionResponse(index, refusal.error_code, str(refusal)))
            yield room.pause()
        yield None
        topics.append(describe_producers.TopicResponse(topic.name, rows))
    return describe_producers.DescribeProducersResponse(topics=topics)


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


def _row(producer: Producer) -> describe_producers.ProducerState:
    start = producer.transaction_start
    return describe_producers.ProducerState(
        producer.producer_id,
        producer.epoch,
        producer.last_sequence,
        producer.last_timestamp_ms,
        producer.coordinator_epoch,
        NO_TRANSACTION if start is None else start,
    )
