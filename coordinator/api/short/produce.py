"""Produce of one small batch of a transaction, without a job. It makes the calls of `api.records.produce`."""

from __future__ import annotations

from functools import cache

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.api.records.led_here import led_here
from muster.coordinator.api.records.produce import ACKS_ALL, produce
from muster.coordinator.api.records.produce_answers import WITHOUT_START, fail, with_leaders
from muster.coordinator.api.transactions.verification import Knows, as_produce_error, heard, question
from muster.coordinator.api.version_rules import (
    produce_adds_partitions,
    produce_allows_zstd,
    produce_by_topic_id,
    produce_knows_abortable,
)
from muster.coordinator.log import LogError, LogOffline, first_batch, only_batch
from muster.coordinator.log.producers.verification import Guard
from muster.coordinator.log.records.compression import LITTLE, allowed
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.state_machine.interface import Now, Producer
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.topic import Topic
from muster.coordinator.topics.validation import Checked, is_little
from muster.coordinator.transactions.commands import PartitionErrors
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)


class _OneBatch:
    """A request whose batch is valid. It waits for the coordinator or for the disk, and receives the coordinator's
    answer.
    """

    __slots__ = ("_answer", "_checked", "_context", "_guard", "_knows", "_node", "_now", "_request", "_respond",
                 "_topic")  # fmt: skip

    def __init__(
        self, node: Node, context: RequestContext, request: ProduceRequest, respond: Respond, knows: Knows,
        topic: Topic, checked: Checked, now: Now, guard: Guard | None,
    ) -> None:  # fmt: skip
        self._node = node
        self._context = context
        self._request = request
        self._respond = respond
        self._knows = knows
        self._topic = topic
        self._checked = checked
        self._now = now
        self._guard = guard
        self._answer = PartitionProduceResponse(request.topic_data[0].partition_data[0].index)

    def __call__(self, response: PartitionErrors) -> None:
        """The coordinator has answered."""
        channel = self._context.channel
        if channel.closed:
            return
        try:
            if response.errors:
                (error,) = response.errors.values()
                self._refused(error)
            else:
                self.append()
        except Exception as error:  # noqa: BLE001 - a bug costs this connection, not those that are answered with it
            channel.fault(error)

    def _refused(self, error: int) -> None:
        knows = self._knows
        if error == ErrorCode.CONCURRENT_TRANSACTIONS and knows.adds:
            self._go_the_plain_way()  # the usual path asks again for a while
            return
        fail(self._answer, as_produce_error(ApiError(heard(error, knows)), knows))
        self._give()

    def _go_the_plain_way(self) -> None:
        produce(self._node, self._context, self._request, self._respond)

    def append(self) -> None:
        """Append the batch: the partition is in the transaction."""
        answer = self._answer
        log_start_offset = -1
        try:
            partition = led_here(self._node, self._topic, answer.index)
            log = partition.log
            log_start_offset = log.start_offset
            if not log.knows_producers:  # the log was opened again
                self._go_the_plain_way()
                return
            checked = self._checked
            appended = partition.append(checked.batch, checked.header, self._now, self._guard)
        except (ApiError, LogError) as error:
            fail(answer, error)
            if error.error_code not in WITHOUT_START:
                answer.log_start_offset = log_start_offset
            self._give()
            return
        answer.base_offset = appended.base_offset
        answer.log_append_time_ms = appended.log_append_time_ms
        answer.log_start_offset = log.start_offset
        log.when_flushed(appended.end_offset, self._durable)

    def _durable(self, failure: LogOffline | None) -> None:
        if failure is not None:
            fail(self._answer, failure)
        self._give()

    def _give(self) -> None:
        data = self._request.topic_data[0]
        response = ProduceResponse([TopicProduceResponse(data.name, data.topic_id, [self._answer])])
        self._respond(with_leaders(self._node, self._context, response) if self._answer.error_code else response)


@cache
def _knows(version: int) -> Knows:
    return Knows(produce_adds_partitions(version), produce_knows_abortable(version))


def take(node: Node, context: RequestContext, request: ProduceRequest, respond: Respond) -> bool:
    """Take a request with one batch of a transaction. It is appended after the coordinator has added its partition."""
    topics, transactional_id = request.topic_data, request.transactional_id
    if request.acks != ACKS_ALL or len(topics) != 1 or len(topics[0].partition_data) != 1 or not transactional_id:
        return False
    (data,), version = topics, context.api_version
    topic = _topic(node, context, data.topic_id if produce_by_topic_id(version) else data.name, transactional_id)
    knows = _knows(version)
    if topic is None or not (knows.adds or node.topics.settings.transaction_partition_verification_enable):
        return False
    (row,) = data.partition_data
    records, now = row.records or b"", node.clock.now()
    try:
        header = first_batch(records)
        if header is None or not header.is_transactional or header.producer_id < 0 or not is_little(records, header):
            return False
        partition = led_here(node, topic, row.index)
        log = partition.log
        if not log.knows_producers:
            return False
        header = only_batch(records, header, allow_zstd=produce_allows_zstd(version))
        checked = partition.check(records, header, now)(min(LITTLE, allowed(log.config.max_message_bytes)))
        producer = Producer(header.producer_id, header.producer_epoch)
        guard = log.producers.verification(
            *producer, header.base_sequence, supports_epoch_bump=knows.adds, now_ms=now.wall_ms
        )
    except (ApiError, LogError):
        return False
    one = _OneBatch(node, context, request, respond, knows, topic, checked, now, guard)
    if guard is None:
        one.append()
    else:
        question(node, context.client, transactional_id, producer, {topic.name: (row.index,)}, knows, one)
    return True


def _topic(node: Node, context: RequestContext, key: str | bytes, transactional_id: str) -> Topic | None:
    """A topic that is not internal, if the client may write to it in transactions of this id. The topic of the
    transactional ids must exist.
    """
    topics, allows = node.topics, node.authorizer.allows
    topic = topics.by_id.get(key) if isinstance(key, bytes) else topics.by_name.get(key)
    if topic is None or topic.internal or not node.transactions.routing.ready:
        return None
    if not allows(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id, log_denied=False):
        return None
    return topic if allows(context, Operation.WRITE, ResourceType.TOPIC, topic.name, log_denied=False) else None
