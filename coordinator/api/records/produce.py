"""Produce: append the batches of clients to partitions, and answer when they are as safe as `acks` asks (KIP-98,
KIP-467).

As on Kafka, the first batches of all rows are checked first, and then each row. Only after that the batches are
appended. The partition accepts or refuses a batch. This module finds the rows, reports refusals, and answers when the
logs are durable. With acks=0 a client gets no answer: a refusal can only end its connection. The client then asks for
metadata again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from muster.coordinator.api.close_connection import CloseConnection
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, Respond, in_slices
from muster.coordinator.api.records.led_here import led_here
from muster.coordinator.api.records.produce_answers import NO_OFFSET, WITHOUT_START, fail, refused, with_leaders
from muster.coordinator.api.version_rules import (
    produce_adds_partitions,
    produce_allows_zstd,
    produce_by_topic_id,
    produce_knows_abortable,
)
from muster.coordinator.log import BatchHeader, CorruptBatch, LogError, LogOffline, first_batch, only_batch
from muster.coordinator.log.errors import MoreThanAllowed
from muster.coordinator.log.producers.verification import Guard
from muster.coordinator.log.records.compression import LITTLE, Allowed, Unpacking
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.state_machine.interface import Producer
from muster.coordinator.system.jobs import Job, OffloadedWork, PendingResult
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.partition import Partition
from muster.coordinator.topics.topic import Topic
from muster.coordinator.topics.validation import Batch, Checked, is_little
from muster.protocol.errors import ErrorCode, error_name
from muster.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

_VERIFICATION = "muster.coordinator.api.transactions.verification"
"""This module is imported with the first batch of a transaction."""
ROWS_AT_ONCE = 50
"""So many topics and partitions are checked without a pause. The checks of each before the append take some
microseconds.
"""
ACKS_NONE = 0
ACKS_LEADER = 1
ACKS_ALL = -1


def handle_produce(node: Node, context: RequestContext, request: ProduceRequest, respond: Respond) -> None:
    """Append each partition's batch. (`api.short` does the same for one batch of a transaction.)"""
    transactional_id = request.transactional_id
    if transactional_id is None or not node.short_ways or not _short_way()(node, context, request, respond):
        produce(node, context, request, respond)


@cache
def _short_way() -> Any:
    return import_module("muster.coordinator.api.short.produce").take


@in_slices
def produce(node: Node, context: RequestContext, request: ProduceRequest) -> Job[ProduceResponse | None]:
    """Append each partition's batch. The answer leaves when every append is as durable as the topic requires."""
    on_its_way = _Produce(node, context, request.acks)
    rows = len(request.topic_data)
    for topic in request.topic_data:
        rows += len(topic.partition_data)
    many = rows > ROWS_AT_ONCE
    try:
        firsts, transactional_id = yield from _first_batches(node, context, request, many)
        accepted = yield from on_its_way.look_at(request, firsts, many)
        if transactional_id is not None:
            accepted = yield from on_its_way.verify(transactional_id, accepted)
    except (ApiError, CorruptBatch) as refusal:
        yield from on_its_way.refuse_all(request, refusal)
    else:
        yield from on_its_way.append(accepted)
    on_its_way.one_done()
    if not on_its_way.all_done.is_there:
        yield on_its_way.all_done
    topics = (yield from on_its_way.collecting()) if many else None
    return on_its_way.answer(topics)


def _first_batches(
    node: Node, context: RequestContext, request: ProduceRequest, many: bool
) -> Job[tuple[list[BatchHeader | None], str | None]]:
    """The header of the first batch of each row, in order. Also the transactional id, if one of the batches is in a
    transaction.

    `many`: the rows are so many that the job must pause.

    Raises what refuses the whole request: CorruptBatch, and `ApiError`. TRANSACTIONAL_ID_AUTHORIZATION_FAILED is for a
    batch of a transaction from a client that gave no transactional id.
    """
    firsts: list[BatchHeader | None] = []
    transactional_id, is_transactional = request.transactional_id, False
    for topic in request.topic_data:
        for row in topic.partition_data:
            header = first_batch(row.records or b"")
            firsts.append(header)
            is_transactional = is_transactional or (header is not None and header.is_transactional)
            if many:
                yield None
        if many:
            yield None
    if not is_transactional:
        return firsts, None
    if transactional_id is None or not node.authorizer.allows(
        context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    ):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return firsts, transactional_id


class _Accepted:
    """A row whose batch will be appended, and its answer. `guard`: for a batch that was verified to be part of its
    transaction.
    """

    __slots__ = ("answer", "guard", "header", "records", "topic")

    def __init__(self, topic: Topic, records: Batch, header: BatchHeader, answer: PartitionProduceResponse) -> None:
        self.topic = topic
        self.records = records
        self.header = header
        self.answer = answer
        self.guard: Guard | None = None


_Key = tuple[str, bytes]
"""How a request names a topic: name and id. One of the two is empty."""


class _Produce:
    """One request in progress: its rows, and the appends that its answer waits for."""

    __slots__ = ("_acks", "_context", "_has_moved", "_node", "_now", "_pending", "_rows", "_unpacking", "all_done")

    def __init__(self, node: Node, context: RequestContext, acks: int) -> None:
        self._node = node
        self._context = context
        self._acks = acks
        self._now = node.clock.now()
        self._unpacking = Unpacking()
        self._rows: dict[_Key, dict[int, PartitionProduceResponse]] = {}
        """One answer for each partition, however often the request names it."""
        self._pending = 1
        """The number of appends that are not durable yet, plus one while the request itself is being read."""
        self._has_moved = False
        """Whether another node leads one of the partitions."""
        self.all_done = PendingResult()

    def refuse_all(self, request: ProduceRequest, refusal: ApiError | LogError) -> Job[None]:
        """Append nothing. Every partition gets the same error."""
        for topic in request.topic_data:
            for row in topic.partition_data:
                self._answers(topic)[row.index] = refused(row.index, refusal)
                yield None

    def look_at(
        self, request: ProduceRequest, firsts: Sequence[BatchHeader | None], many: bool
    ) -> Job[Collection[_Accepted]]:
        """The rows to append, after every row was checked. If a partition is named twice, its last row counts. But the
        refusal of any of these rows is the answer for the partition, as on Kafka.
        """
        allow_zstd = produce_allows_zstd(self._context.api_version)
        by_id = produce_by_topic_id(self._context.api_version)
        accepted: dict[tuple[_Key, int], _Accepted] = {}
        headers = iter(firsts)
        for data in request.topic_data:
            key = (data.name, data.topic_id)
            topic = self._find(data, by_id)
            if many:
                yield None
            for row, first in zip(data.partition_data, headers, strict=False):
                answers = self._answers(data)
                if many:
                    yield None
                try:
                    found = _with_partition(topic, row.index)
                    header = only_batch(row.records or b"", first, allow_zstd=allow_zstd)
                except (ApiError, LogError) as error:
                    answers[row.index] = refused(row.index, error)
                    continue
                answer = PartitionProduceResponse(row.index)
                if row.index not in answers or not answers[row.index].error_code:
                    answers[row.index] = answer
                accepted[key, row.index] = _Accepted(found, row.records or b"", header, answer)
        return accepted.values()

    def _answers(self, data: TopicProduceData) -> dict[int, PartitionProduceResponse]:
        return self._rows.setdefault((data.name, data.topic_id), {})

    def _find(self, data: TopicProduceData, by_id: bool) -> Topic | int:
        """The topic, or the error of all its rows. Only a client that may write to the topic learns whether it
        exists.
        """
        topics = self._node.topics
        topic = topics.by_id.get(data.topic_id) if by_id else topics.by_name.get(data.name)
        if topic is None and by_id:
            return ErrorCode.UNKNOWN_TOPIC_ID
        name = data.name if topic is None else topic.name
        if not self._node.authorizer.allows(self._context, Operation.WRITE, ResourceType.TOPIC, name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return topic or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def verify(self, transactional_id: str, accepted: Collection[_Accepted]) -> Job[Collection[_Accepted]]:
        """The batches that may be appended, with guards for those of a transaction. Its coordinator is asked once for
        all of them. Raises `ApiError` for batches of more than one producer.
        """
        theirs = [one for one in accepted if one.header.is_transactional and one.header.producer_id >= 0]
        producers = {Producer(one.header.producer_id, one.header.producer_epoch) for one in theirs}
        if len(producers) > 1:
            what = "Transactional records contained more than one producer ID"
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, what)
        if not theirs:
            return accepted
        verification = import_module(_VERIFICATION)
        version = self._context.api_version
        knows = verification.Knows(produce_adds_partitions(version), produce_knows_abortable(version))
        wanted = [
            verification.Wanted(one.topic.name, one.answer.index, partition.log, one.header.base_sequence)
            for one in theirs
            if (partition := _led_here_or_none(self._node, one.topic, one.answer.index)) is not None
        ]
        found = yield from verification.verifying(
            self._node, self._context.client, transactional_id, producers.pop(), wanted, knows, again=True
        )
        verified = []
        for one in accepted:
            verdict = found.get((one.topic.name, one.answer.index)) if one.header.is_transactional else None
            if isinstance(verdict, ApiError | LogError):
                fail(one.answer, verification.as_produce_error(verdict, knows))
            else:
                one.guard = verdict
                verified.append(one)
        return verified

    def append(self, accepted: Iterable[_Accepted]) -> Job[None]:
        """Append the batches, or put the refusal into the answer."""
        is_first = True
        for one in accepted:
            if not is_first:
                yield None
            is_first = False
            topic, answer = one.topic, one.answer
            log_start_offset = NO_OFFSET
            try:
                if self._acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
                    raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
                if topic.internal:
                    raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}")
                partition = led_here(self._node, topic, answer.index)
                log_start_offset = partition.log.start_offset
                yield from self._append(partition, one)
            except (ApiError, LogError) as error:
                fail(answer, error)
                self._has_moved |= error.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                if error.error_code not in WITHOUT_START:
                    answer.log_start_offset = log_start_offset

    def _append(self, partition: Partition, one: _Accepted) -> Job[None]:
        """Append one batch. Raises `ApiError` or an error of the log."""
        records, header, answer = one.records, one.header, one.answer
        check = partition.check(records, header, self._now)
        most = self._unpacking.allowed(partition.log.config.max_message_bytes)
        stored = _little(check, records, header, most)
        if stored is None:
            try:
                stored = yield OffloadedWork(lambda: check(most))
            except MoreThanAllowed:
                self._unpacking.note(most.unpacked_bytes)
                raise
        self._unpacking.note(stored.unpacked_bytes)
        if header.producer_id >= 0 and not partition.log.knows_producers:
            yield from partition.loading_producers()
        appended = partition.append(stored.batch, stored.header, self._now, one.guard)
        answer.base_offset = appended.base_offset
        answer.log_append_time_ms = appended.log_append_time_ms
        answer.log_start_offset = partition.log.start_offset
        if self._acks != ACKS_NONE:
            self._pending += 1

            def durable(failure: LogOffline | None) -> None:
                if failure is not None:
                    fail(answer, failure)
                self.one_done()

            partition.log.when_flushed(appended.end_offset, durable)

    def one_done(self) -> None:
        """One append fewer to wait for. The answer leaves after the last one."""
        self._pending -= 1
        if not self._pending:
            self.all_done(None)

    def answer(self, topics: list[TopicProduceResponse] | None = None) -> ProduceResponse | None:
        """The answer. It is None for acks=0. `topics`: the result of `collecting`."""
        if self._acks == ACKS_NONE:
            self._end_connection_on_error()
            return None
        response = ProduceResponse(self._topics() if topics is None else topics)
        return with_leaders(self._node, self._context, response) if self._has_moved else response

    def _topics(self) -> list[TopicProduceResponse]:
        return [
            TopicProduceResponse(name, topic_id, list(rows.values())) for (name, topic_id), rows in self._rows.items()
        ]

    def collecting(self) -> Job[list[TopicProduceResponse]]:
        """The rows of an answer to a large request."""
        topics: list[TopicProduceResponse] = []
        for (name, topic_id), rows in self._rows.items():
            topics.append(TopicProduceResponse(name, topic_id, list(rows.values())))
            yield None
        return topics

    def _end_connection_on_error(self) -> None:
        """End the connection if a row was refused, as KafkaApis.sendResponseCallback of Produce does: the client
        expects no answer.
        """
        failed = [(key, row) for key, rows in self._rows.items() for row in rows.values() if row.error_code]
        if failed:
            (name, topic_id), row = failed[0]
            refused = CloseConnection(
                "a Produce request with acks=0 was refused",
                topic=name or self._name(topic_id),
                partition=row.index,
                error=error_name(row.error_code),
                refused_partitions=len(failed),
                client_id=self._context.client.client_id,
            )
            self._context.channel.end(refused)

    def _name(self, topic_id: bytes) -> str:
        topic = self._node.topics.by_id.get(topic_id)
        return topic_id.hex() if topic is None else topic.name


def _with_partition(topic: Topic | int, index: int) -> Topic:
    """The topic, if it has the partition. Raises `ApiError`."""
    if isinstance(topic, int):
        raise ApiError(topic)
    if not 0 <= index < len(topic.partitions):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic


def _led_here_or_none(node: Node, topic: Topic, index: int) -> Partition | None:
    """The partition, if this node leads it. For None, `append` later reports the reason."""
    try:
        return led_here(node, topic, index)
    except ApiError:
        return None


def _little(check: Callable[[Allowed], Checked], batch: Batch, header: BatchHeader, most: Allowed) -> Checked | None:
    """Check a small batch at once. None means that the batch is large, though its compressed size may be small. Raises
    the errors of `check`.
    """
    if not is_little(batch, header):
        return None
    here = min(LITTLE, most)
    try:
        return check(here)
    except MoreThanAllowed:
        if here is most:
            raise
        return None
