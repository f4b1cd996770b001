"""Produce: append clients' batches to partitions, and answer when the batches are as safe as `acks` asks (KIP-98,
KIP-467).

As on Kafka, the first batches of all rows are checked first, and then each row. After the checks all accepted batches
are appended. With acks=0 a client gets no answer: a refusal can only end the connection. The client then asks for
metadata again.

`_Produce.run` handles a request of at most `PLAIN_ROWS` rows within its call. A request of more rows is a job
(`_Produce.in_steps`), which calls the same methods for some rows in each step. A large batch, or a log whose producers
are not loaded, needs a job too (`_Produce._appending`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from muster.coordinator.api.context import RequestContext, produce_allows_zstd, produce_by_topic_id
from muster.coordinator.api.layers import CloseConnection
from muster.coordinator.api.node import PLAIN_ROWS, Node, Respond, parts
from muster.coordinator.api.records.offsets import led_here
from muster.coordinator.api.records.produce_answers import NO_OFFSET, WITHOUT_START, fail, refused, with_leaders
from muster.coordinator.api.transactions.verification import (
    Verification,
    Wanted,
    as_produce_error,
    produce_knows,
    verdict_of,
)
from muster.coordinator.log import BatchHeader, CorruptBatch, LogError, LogOffline
from muster.coordinator.log.errors import MoreThanAllowed
from muster.coordinator.log.records.compression import Unpacking
from muster.coordinator.log.records.headers import TRANSACTIONAL
from muster.coordinator.log.unified_log import UnifiedLog
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.state_machine.interface import Producer
from muster.coordinator.system.jobs import Job, OffloadedWork, PendingResult
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.open_topics import Topic
from muster.coordinator.topics.partition import Partition
from muster.coordinator.topics.validation import Batch, Checked, first_batch, is_small, only_batch
from muster.protocol.errors import ErrorCode, error_name
from muster.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1
ACKS = ACKS_NONE, ACKS_LEADER, ACKS_ALL


def handle_produce(
    node: Node, context: RequestContext, request: ProduceRequest, respond: Respond
) -> ProduceResponse | None:
    """Append each partition's batch. The answer leaves when every append is as durable as the topic requires."""
    produce = _Produce(node, context, request, respond)
    rows = len(request.topic_data)
    for topic in request.topic_data:
        rows += len(topic.partition_data)
    if rows > PLAIN_ROWS:
        node.run(context, respond, produce.in_steps())
        return None
    return produce.run()


class _Row:
    """A row of a request. Of several rows of a partition, the last accepted one is appended."""

    __slots__ = (
        "answer", "checked", "header", "log", "log_start_offset", "partition", "produce", "records", "refusal", "topic",
        "wanted",
    )  # fmt: skip

    def __init__(
        self, produce: _Produce, topic: Topic, records: Batch, header: BatchHeader, answer: PartitionProduceResponse
    ) -> None:
        self.produce = produce
        self.topic = topic
        self.records = records
        self.header = header
        self.answer = answer
        self.partition: Partition | None = None
        self.log_start_offset = NO_OFFSET
        self.wanted: Wanted | None = None
        """The partition's part of the question to the transaction coordinator, if the row needs one."""
        self.log: UnifiedLog | None = None
        """The log that was asked for the row's transaction; None for a row without transaction."""
        self.refusal: ApiError | None = None
        """Why no log could be asked for the row's transaction; None when a log was asked, or needs not be."""
        self.checked: Checked | None = None
        """The batch for the log, when the records were checked."""

    def flushed(self, failure: LogOffline | None) -> None:
        if failure is not None:
            fail(self.answer, failure)
        self.produce.one_done()


_Key = tuple[str, bytes]
"""Name and id of a topic in the request. Either the name or the id is empty."""


class _Produce:
    """One request in progress: the rows, and the appends that the answer waits for."""

    __slots__ = (
        "_accepted", "_all_done", "_answers", "_context", "_has_moved", "_headers", "_is_transactional",
        "_node", "_now", "_pending", "_request", "_respond", "_unpacking",
    )  # fmt: skip

    def __init__(self, node: Node, context: RequestContext, request: ProduceRequest, respond: Respond) -> None:
        self._node = node
        self._context = context
        self._request = request
        self._respond = respond
        self._now = node.clock.now()
        self._unpacking = Unpacking()
        self._headers: list[BatchHeader | None] = []
        """The headers of the first batches of rows that were read, but not checked yet."""
        self._is_transactional = False
        """Whether one of the first batches is in a transaction."""
        self._answers: dict[_Key, dict[int, PartitionProduceResponse]] = {}
        """One answer for each partition, however often the request names it."""
        self._accepted: dict[tuple[_Key, int], _Row] = {}
        self._pending = 1
        """The number of appends that are not durable yet, plus one while the request is being handled."""
        self._all_done: PendingResult | None = None
        """The pending result of a job that waits for the appends. None: without a job, `one_done` sends the answer."""
        self._has_moved = False
        """Whether another node leads one of the partitions."""

    # ---- the order of the work: at once, or in steps

    def run(self) -> ProduceResponse | None:
        topics = self._request.topic_data
        try:
            for data in topics:
                self._read(data.partition_data)
            if self._is_transactional:
                self._check_transactional_id()
            self._headers.reverse()
            for data in topics:
                self._check(data, self._find(data), data.partition_data)
            verification = self._verification() if self._is_transactional else None
        except (ApiError, CorruptBatch) as refusal:
            for data in topics:
                self._refuse(data, data.partition_data, refusal)
            return self._all_begun()
        if verification is None:
            return self._append_all()
        verification.ask()
        return None

    def _append_verified(self) -> None:
        if not self._context.channel.closed:
            response = self._append_all()
            if response is not None:
                self._respond(response)

    def _append_all(self) -> ProduceResponse | None:
        for row in self._accepted.values():
            if not self._append(row):
                rows = [*self._accepted.values()]
                rest = self._appending(rows[rows.index(row) :])
                self._node.run(self._context, lambda _: self.one_done(), rest)
                return None
        return self._all_begun()

    def _all_begun(self) -> ProduceResponse | None:
        """The answer, if every append is durable already. None: `one_done` sends the answer, or `respond` has it."""
        if self._pending > 1 or self._request.acks == ACKS_NONE:
            self.one_done()
            return None
        return self._response()

    def in_steps(self) -> Job[ProduceResponse | None]:
        """`run` for a request of many rows."""
        topics, self._all_done = self._request.topic_data, PendingResult()
        try:
            for data in topics:
                for rows in parts(data.partition_data):
                    self._read(rows)
                    yield None
                yield None
            if self._is_transactional:
                self._check_transactional_id()
            self._headers.reverse()
            for data in topics:
                topic = self._find(data)
                for rows in parts(data.partition_data):
                    self._check(data, topic, rows)
                    yield None
                yield None
            verification = self._verification() if self._is_transactional else None
        except (ApiError, CorruptBatch) as refusal:
            for data in topics:
                for rows in parts(data.partition_data):
                    self._refuse(data, rows, refusal)
                    yield None
        else:
            if verification is not None:
                yield from verification.asking()
            yield from self._appending(self._accepted.values())
        self.one_done()
        if not self._all_done.is_there:
            yield self._all_done
        for answers in self._answers.values():
            for _ in answers:
                yield None  # one step for each row that is encoded
        return self._response()

    def _appending(self, rows: Iterable[_Row]) -> Job[None]:
        for row in rows:
            while not self._append(row):
                try:
                    yield from self._prepare(row)
                except (ApiError, LogError) as error:
                    self._fail(row, error)
                    break
            yield None

    # ---- the checks before any append

    def _read(self, rows: Sequence[PartitionProduceData]) -> None:
        """Read the first batches of rows. Raises CorruptBatch, which refuses the whole request."""
        for row in rows:
            header = first_batch(row.records or b"")
            self._headers.append(header)
            if header is not None and header.attributes & TRANSACTIONAL:
                self._is_transactional = True

    def _check_transactional_id(self) -> None:
        """Raise `ApiError` unless the request has a transactional id with which the client may write."""
        transactional_id = self._request.transactional_id
        if transactional_id is None or not self._node.authorizer.allows(
            self._context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
        ):
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

    def _find(self, data: TopicProduceData) -> Topic | int:
        """The topic, or the error of its rows. Only a client that may write to the topic learns whether it exists."""
        topics, context = self._node.topics, self._context
        if produce_by_topic_id(context.api_version):
            topic = topics.by_id.get(data.topic_id)
            if topic is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
        else:
            topic = topics.by_name.get(data.name)
        name = data.name if topic is None else topic.name
        if not self._node.authorizer.allows(context, Operation.WRITE, ResourceType.TOPIC, name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return topic or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _check(self, data: TopicProduceData, topic: Topic | int, rows: Sequence[PartitionProduceData]) -> None:
        """Accept or refuse rows of a topic. If a partition is named twice, its last row is appended. But as on Kafka
        the answer is a refusal, if one of these rows is refused.
        """
        key = data.name, data.topic_id
        answers = self._answers.setdefault(key, {})
        allow_zstd = produce_allows_zstd(self._context.api_version)
        for row in rows:
            index, records, first = row.index, row.records or b"", self._headers.pop()
            try:
                if isinstance(topic, int):
                    raise ApiError(topic)
                if not 0 <= index < len(topic.partitions):
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                header = only_batch(records, first, allow_zstd=allow_zstd)
            except (ApiError, LogError) as error:
                answers[index] = refused(index, error)
                continue
            answer = PartitionProduceResponse(index)
            if index not in answers or not answers[index].error_code:
                answers[index] = answer
            self._accepted[key, index] = _Row(self, topic, records, header, answer)

    def _refuse(
        self, data: TopicProduceData, rows: Sequence[PartitionProduceData], refusal: ApiError | LogError
    ) -> None:
        answers = self._answers.setdefault((data.name, data.topic_id), {})
        for row in rows:
            answers[row.index] = refused(row.index, refusal)

    # ---- transactions

    def _verification(self) -> Verification | None:
        """The question to the transaction coordinator; None if not needed. Raises `ApiError` for two producers."""
        knows, now_ms = produce_knows(self._context.api_version), self._now.wall_ms
        producer: Producer | None = None
        wanted: list[Wanted] = []
        for row in self._accepted.values():
            header = row.header
            if not header.attributes & TRANSACTIONAL or header.producer_id < 0:
                continue
            if producer is None:
                producer = Producer(header.producer_id, header.producer_epoch)
            elif producer != (header.producer_id, header.producer_epoch):
                what = "Transactional records contained more than one producer ID"
                raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, what)
            index = row.answer.index
            try:
                partition = row.partition = led_here(self._node, row.topic, index)
            except ApiError as refusal:
                # The partition may arrive before the answer of the coordinator, which was not asked about it.
                row.refusal = refusal
                continue
            log, sequence = partition.log, header.base_sequence
            row.log = log
            verdict = verdict_of(log, producer, sequence, knows, now_ms)
            if verdict is not None:
                row.wanted = Wanted(row.topic.name, index, log, sequence, verdict)
                wanted.append(row.wanted)
        if not wanted or producer is None:
            return None
        return Verification(
            self._node, self._context, self._request.transactional_id or "", producer, knows, wanted,
            self._append_verified, waits=True,
        )  # fmt: skip

    # ---- one append

    def _append(self, row: _Row) -> bool:
        """Append a batch, or put the refusal into the answer. False: nothing was done, since `_prepare` is needed."""
        header, checked = row.header, row.checked
        if row.refusal is not None:
            self._fail(row, row.refusal)
            return True
        guard: Any = None
        if row.wanted is not None:
            guard = row.wanted.verdict
            if isinstance(guard, ApiError | LogError):
                fail(row.answer, as_produce_error(guard, produce_knows(self._context.api_version)))
                return True
        try:
            partition = self._partition_of(row)
            log = partition.log
            if row.log is not None and row.log is not log:
                # The log was read again meanwhile, and does not know the guard. The producer has to send again:
                # INVALID_TXN_STATE would end it.
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            row.log_start_offset = log.start_offset
            if checked is None:
                if not is_small(row.records, header):
                    return False
                checked = row.checked = partition.check(row.records, header, self._now, self._unpacking.at_once)
                self._unpacking.note(checked.unpacked_bytes)
            if header.producer_id >= 0 and not log.knows_producers:
                return False
            appended = partition.append(checked.batch, checked.header, self._now, guard)
        except MoreThanAllowed:
            return False  # the compressed batch is small, but the uncompressed one is large
        except (ApiError, LogError) as error:
            self._fail(row, error)
            return True
        answer = row.answer
        answer.base_offset, last_offset, answer.log_append_time_ms, answer.log_start_offset = appended
        if self._request.acks != ACKS_NONE:
            self._pending += 1
            log.when_flushed(last_offset + 1, row.flushed)
        return True

    def _prepare(self, row: _Row) -> Job[None]:
        """Check a large batch in the thread, and load the producers of its log. Raises `ApiError` or `LogError`."""
        partition = self._partition_of(row)
        if row.checked is None:
            most = self._unpacking.allowed(partition.log.config.max_message_bytes)
            try:
                row.checked = yield OffloadedWork(partial(partition.check, row.records, row.header, self._now, most))
            except MoreThanAllowed:
                self._unpacking.note(most.unpacked_bytes)
                raise
            self._unpacking.note(row.checked.unpacked_bytes)
        if row.header.producer_id >= 0:
            yield from partition.loading_producers()

    def _partition_of(self, row: _Row) -> Partition:
        """The partition of a row. Raises `ApiError` if the request may not append to this partition on this node."""
        if self._request.acks not in ACKS:
            raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
        topic, partition = row.topic, row.partition
        if topic.internal:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}")
        if partition is None or partition.closed:
            partition = row.partition = led_here(self._node, topic, row.answer.index)
        return partition

    def _fail(self, row: _Row, error: ApiError | LogError) -> None:
        fail(row.answer, error)
        self._has_moved |= error.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        if error.error_code not in WITHOUT_START:
            row.answer.log_start_offset = row.log_start_offset

    # ---- the answer

    def one_done(self) -> None:
        """Note that an append is durable, or has failed. The answer leaves after the last append."""
        self._pending -= 1
        if not self._pending:
            if self._all_done is None:
                self._respond(self._response())
            else:
                self._all_done(None)

    def _response(self) -> ProduceResponse | None:
        self._accepted = {}  # rows refer to this object: a cycle of references ends here
        if self._request.acks == ACKS_NONE:
            self._end_connection_on_error()
            return None
        response = ProduceResponse(
            [TopicProduceResponse(*key, list(answers.values())) for key, answers in self._answers.items() if answers]
        )
        return with_leaders(self._node, self._context, response) if self._has_moved else response

    def _end_connection_on_error(self) -> None:
        """End the connection if a row was refused, as the client expects no answer (KafkaApis.handleProduceRequest)."""
        failed = [(key, row) for key, rows in self._answers.items() for row in rows.values() if row.error_code]
        if failed:
            (name, topic_id), row = failed[0]
            topic = self._node.topics.by_id.get(topic_id)
            refusal = CloseConnection(
                "a Produce request with acks=0 was refused",
                topic=name or (topic_id.hex() if topic is None else topic.name),
                partition=row.index,
                error=error_name(row.error_code),
                refused_partitions=len(failed),
                client_id=self._context.client.client_id,
            )
            self._context.channel.end(refusal)
