"""Produce: batches of clients appended to partitions, answered when they are as safe as `acks` asks (KIP-98, KIP-467).

A batch is refused or appended by the partition; here rows are found, refusals told, and the answer held until the logs
are durable. Without an answer (acks=0) a refusal can only end the connection, which makes the client ask for metadata
anew.
"""

from __future__ import annotations

from muster.coordinator.api.capabilities import produce_allows_zstd, produce_by_topic_id
from muster.coordinator.api.context import TOPIC, TRANSACTIONAL_ID, Operation, RequestContext, Resource, authorize
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.api.refused import Refused as ConnectionRefused
from muster.coordinator.log import LogError, LogOffline
from muster.coordinator.topics.partition import Partition
from muster.coordinator.topics.refusal import Refused
from muster.coordinator.topics.topic import Topic
from muster.protocol.errors import ErrorCode, error_name
from muster.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

ACKS_NONE = 0
ACKS_LEADER = 1
ACKS_ALL = -1


def handle_produce(node: Node, context: RequestContext, request: ProduceRequest, respond: Respond) -> None:
    """Append each partition's batch; the answer leaves when every append is as durable as the topic asks for."""
    produce = _Produce(node, context, request.acks, request.transactional_id is not None, respond)
    refusal: Refused | None = None
    if request.acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
        refusal = Refused(ErrorCode.INVALID_REQUIRED_ACKS)
    elif request.transactional_id is not None and not authorize(
        context, Operation.WRITE, Resource(TRANSACTIONAL_ID, request.transactional_id)
    ):
        refusal = Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    for topic in request.topic_data:
        produce.add(topic, refusal)
    produce.one_done()


class _Produce:
    """One request on its way: its rows, and what must happen before it is answered."""

    __slots__ = ("_acks", "_context", "_node", "_now", "_pending", "_respond", "_topics", "_transactional")

    def __init__(self, node: Node, context: RequestContext, acks: int, transactional: bool, respond: Respond) -> None:
        self._node = node
        self._context = context
        self._acks = acks
        self._transactional = transactional
        self._respond = respond
        self._now = node.clock.now()
        self._topics: list[TopicProduceResponse] = []
        self._pending = 1
        """Appends that are not durable yet, and one for the request itself while it is being read."""

    def add(self, data: TopicProduceData, refusal: Refused | None) -> None:
        """Append the batches of one topic, or refuse them all."""
        by_id = produce_by_topic_id(self._context.api_version)
        topics = self._node.topics
        topic = topics.by_id.get(data.topic_id) if by_id else topics.by_name.get(data.name)
        if refusal is None:
            refusal = self._refusal(topic, by_id)
        rows = []
        for row in data.partition_data:
            try:
                if refusal is not None or topic is None:
                    raise refusal or Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                rows.append(self._append(topic.existing(row.index), row))
            except (Refused, LogError) as error:
                rows.append(_refused(row.index, error))
        self._topics.append(TopicProduceResponse(data.name, data.topic_id, rows))

    def _refusal(self, topic: Topic | None, by_id: bool) -> Refused | None:
        """Why nothing may be appended to a topic, if so."""
        if topic is None:
            return Refused(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not authorize(self._context, Operation.WRITE, Resource(TOPIC, topic.name)):
            return Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if topic.internal:
            return Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}")
        return None

    def _append(self, partition: Partition, row: PartitionProduceData) -> PartitionProduceResponse:
        """Raises `Refused` or an error of the log."""
        allow_zstd = produce_allows_zstd(self._context.api_version)
        appended = partition.append(
            row.records or b"", self._now, allow_zstd=allow_zstd, transactional=self._transactional
        )
        answer = PartitionProduceResponse(
            row.index,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.log_append_time_ms,
            log_start_offset=partition.log.start_offset,
        )
        if self._acks != ACKS_NONE:
            self._pending += 1

            def durable(failure: LogOffline | None) -> None:
                if failure is not None:
                    _fail(answer, failure)
                self.one_done()

            partition.log.when_flushed(appended.end_offset, durable)
        return answer

    def one_done(self) -> None:
        """One thing less to wait for; the answer leaves after the last."""
        self._pending -= 1
        if self._pending:
            return
        if self._acks == ACKS_NONE:
            self._end_connection_on_error()
            self._respond(None)
        else:
            self._respond(ProduceResponse(self._topics))

    def _end_connection_on_error(self) -> None:
        """As KafkaApis.sendResponseCallback of Produce: nobody listens to an answer, so one refused row costs all."""
        failed = [(topic, row) for topic in self._topics for row in topic.partition_responses if row.error_code]
        if failed:
            topic, row = failed[0]
            refused = ConnectionRefused(
                "a Produce request with acks=0 was refused",
                topic=topic.name or self._name(topic.topic_id),
                partition=row.index,
                error=error_name(row.error_code),
                refused_partitions=len(failed),
                client_id=self._context.client.client_id,
            )
            self._context.channel.end(refused)

    def _name(self, topic_id: bytes) -> str:
        topic = self._node.topics.by_id.get(topic_id)
        return topic_id.hex() if topic is None else topic.name


def _refused(index: int, error: Refused | LogError) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(index)
    _fail(answer, error)
    records = getattr(error, "record_errors", ())
    answer.record_errors = [BatchIndexAndErrorMessage(at, message) for at, message in records]
    return answer


def _fail(answer: PartitionProduceResponse, error: Refused | LogError) -> None:
    answer.error_code = error.error_code
    answer.error_message = error.message if isinstance(error, Refused) else str(error)
    answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
