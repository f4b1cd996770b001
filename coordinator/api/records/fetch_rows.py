"""Reads the rows of a Fetch request: the partition of each row, the records, and the refusals.

The first batch is returned whatever its size. All further batches must be within the limits of the request (KIP-74).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from muster.coordinator.api.context import (
    RequestContext,
    fetch_by_topic_id,
    fetch_knows_storage_error,
    fetch_names_leader,
)
from muster.coordinator.api.node import PLAIN_ROWS, Node
from muster.coordinator.api.records.offsets import led_here
from muster.coordinator.api.unsent import Taken
from muster.coordinator.log import FilePart, LogError, SegmentAbsent, UnifiedLog
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.fetch_sessions import FetchRow
from muster.coordinator.topics.open_topics import Topic
from muster.coordinator.topics.partition import Partition
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.fetch import EpochEndOffset, LeaderIdAndEpoch, PartitionData

MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""With these errors, an answer says where the leader is (KIP-951)."""

Reads = Callable[[Partition, int, int, bool, int], bytes | FilePart]
"""`Partition.read`; or `Partition.read_for_socket`, for an answer that is sent at once."""
Result = tuple[FetchRow, PartitionData]
"""A row and what the answer says of it."""


class FetchTerms(NamedTuple):
    """The fields of a Fetch request that count for all rows."""

    version: int
    max_bytes: int
    committed: bool
    """Whether to read only records of committed transactions, and records outside of transactions (read_committed)."""
    from_follower: bool
    """Whether the client is a broker that keeps a replica. No partition has such a replica, so no partition is read."""


class RowsReader:
    """Reads the rows of one Fetch, in order, into `results`. All rows together get at most `max_bytes` of records; only
    the first batch may exceed this limit.

    With little memory for answers, fewer records are read, or none. `taken` counts the bytes that were read, `bytes`.
    `failed`: a partition cannot be read or has diverged, so the answer must not wait. `partitions`: those that may have
    more records later. `absent`: segments, by base offset, that the local replica does not have yet. The answer is as
    if these segments had no records. `reads`: the method that reads the records.
    """

    __slots__ = (
        "_by_id", "_context", "_left", "_missing", "_nameless", "_node", "_taken", "_terms", "absent", "bytes",
        "failed", "partitions", "reads", "results",
    )  # fmt: skip

    def __init__(self, node: Node, context: RequestContext, terms: FetchTerms, taken: Taken) -> None:
        self._node = node
        self._context = context
        self._terms = terms
        self._taken = taken
        self._left = terms.max_bytes
        self._by_id = fetch_by_topic_id(terms.version)
        self._nameless: list[Result] = []
        self._missing: list[Result] = []
        self.absent: list[tuple[UnifiedLog, int]] = []
        self.results: list[Result] = []
        self.bytes = 0
        self.failed = False
        self.reads: Reads = Partition.read
        self.partitions: list[Partition] = []

    def read(self, row: FetchRow) -> Job[None] | None:
        """Read the next row. A returned job reads the rest of the row: it must run before the next call."""
        node, terms = self._node, self._terms
        try:
            topic = _find(node, self._context, row, self._by_id, terms.from_follower)
        except ApiError as refusal:
            data = refused_row(row, refusal.error_code)
            data.aborted_transactions = ()
            is_nameless = refusal.error_code == ErrorCode.UNKNOWN_TOPIC_ID
            (self._nameless if is_nameless else self._missing).append((row, data))
            return None
        try:
            if self._by_id and topic.topic_id != row.key[1]:
                raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
            partition = led_here(node, topic, row.key[2])
            self.partitions.append(partition)
            if terms.committed and not partition.log.knows_producers:
                return self._after_loading(row, topic, partition)
            return self._read(row, topic, partition)
        except (ApiError, LogError) as failure:
            self._fail(row, topic, failure.error_code)
            return None

    def end(self) -> None:
        """All rows were read. As on Kafka, rows of unknown topics and partitions are last. Among these, rows of unknown
        topic ids are first.
        """
        if self._nameless or self._missing:
            self.results += self._nameless + self._missing

    def copy(self) -> None:
        """Replace parts of files with copies, because the answer is made later."""
        self.reads = Partition.read
        for _, data in self.results:
            without_parts(data)

    def _after_loading(self, row: FetchRow, topic: Topic, partition: Partition) -> Job[None]:
        try:
            yield from partition.loading_producers()
            rest = self._read(row, topic, partition)
            if rest is not None:
                yield from rest
        except (ApiError, LogError) as failure:
            self._fail(row, topic, failure.error_code)

    def _read(self, row: FetchRow, topic: Topic, partition: Partition) -> Job[None] | None:
        terms, known_epoch = self._terms, row.current_leader_epoch
        if known_epoch >= 0:
            partition.check_leader_epoch(known_epoch)
        if terms.from_follower:
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH if known_epoch >= 0 else ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log, room = partition.log, self._node.unsent.room()
        high_watermark = stable = log.durable_offset
        # every answer has this field, but producers are loaded only for read_committed
        if terms.committed or log.knows_producers:
            stable = partition.last_stable_offset()
        data = PartitionData(row.key[2], 0, high_watermark, stable, log.start_offset, aborted_transactions=None)
        if row.last_fetched_epoch >= 0:
            epoch, end_offset = partition.epoch_end_offset(row.last_fetched_epoch)
            if epoch < 0 or end_offset < 0:
                raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
            if epoch < row.last_fetched_epoch or end_offset < row.fetch_offset:
                data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
                data.records = b""
                self.failed = True
                self._keep(row, data)
                return None
        min_one = room > 0 and self.bytes == 0
        room = min(room, self._left, row.max_bytes)
        up_to = stable if terms.committed else high_watermark
        try:
            records = self.reads(partition, row.fetch_offset, room, min_one, up_to)
            data.records = records  # type: ignore[assignment]  # the encoder asks only for the length
        except SegmentAbsent as found:
            self.absent.append((log, found.base_offset))
            data.records = b""
            data.aborted_transactions = [] if terms.committed else None
        else:
            # Kafka drops a first batch above the limit, and also this batch's aborted transactions.
            if terms.committed and (records or room <= 0 or row.fetch_offset >= stable):
                aborted = partition.aborted_in_memory(row.fetch_offset, records)
                if aborted is None:
                    without_parts(data)
                    return self._with_aborted(row, topic, partition, data)
                data.aborted_transactions = aborted  # type: ignore[assignment]  # its rows have the encoded fields
        self._keep(row, data)
        return None

    def _with_aborted(self, row: FetchRow, topic: Topic, partition: Partition, data: PartitionData) -> Job[None]:
        try:
            aborted = yield from partition.aborted(row.fetch_offset, data.records or b"")
        except SegmentAbsent as found:
            self.absent.append((partition.log, found.base_offset))
            data.records, data.aborted_transactions = b"", []
        except (ApiError, LogError) as failure:
            self._fail(row, topic, failure.error_code)
            return
        else:
            data.aborted_transactions = aborted  # type: ignore[assignment]  # as in `_read`
        self._keep(row, data)

    def _keep(self, row: FetchRow, data: PartitionData) -> None:
        size = len(data.records) if data.records else 0
        self.bytes += size
        self._taken.set(self.bytes)
        self._left = max(self._left - size, 0)
        self.results.append((row, data))

    def _fail(self, row: FetchRow, topic: Topic, error_code: int) -> None:
        self.failed = True
        self.results.append((row, _failed_row(self._node, row, topic, error_code, self._terms.version)))


def without_parts(data: PartitionData) -> None:
    """Copy records that are a part of a file. After an error there are none: the client will ask again."""
    records: object = data.records
    if isinstance(records, FilePart):
        try:
            data.records = records.copied()
        except OSError:
            data.records = b""


def reading(reader: RowsReader, rows: Sequence[FetchRow]) -> Job[None]:
    """A job that reads rows. The job may be interrupted after `PLAIN_ROWS` rows, and when records were read."""
    for number, row in enumerate(rows):
        if reader.bytes or number >= PLAIN_ROWS:
            yield None
        rest = reader.read(row)
        if rest is not None:
            yield from rest


def _find(node: Node, context: RequestContext, row: FetchRow, by_id: bool, from_follower: bool) -> Topic:
    """The topic of a row. If a session's topic id is deleted, the topic that now has the name. Raises `ApiError`."""
    name, topic_id, index = row.key
    topics = node.topics
    if by_id:
        topic = topics.by_id.get(topic_id)
        if topic is not None:
            row.topic = topic.name
        elif row.topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        else:
            topic = topics.by_name.get(row.topic)
    else:
        topic = topics.by_name.get(name)
    if from_follower:
        is_allowed = node.authorizer.allows(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    else:
        wanted = (row.topic or name) if topic is None else topic.name
        is_allowed = node.authorizer.allows(context, Operation.READ, ResourceType.TOPIC, wanted)
    if not is_allowed:
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic


def _failed_row(node: Node, row: FetchRow, topic: Topic, error_code: int, version: int) -> PartitionData:
    if error_code == ErrorCode.KAFKA_STORAGE_ERROR and not fetch_knows_storage_error(version):
        error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    data = refused_row(row, error_code)
    if error_code in MOVED and fetch_names_leader(version):
        leader = node.cluster.leaders[topic.name][row.key[2]]
        data.current_leader = LeaderIdAndEpoch(leader_id=leader.broker_id, leader_epoch=leader.epoch)
    return data


def refused_row(row: FetchRow, error_code: int) -> PartitionData:
    """The data of a partition that cannot be read."""
    return PartitionData(
        partition_index=row.key[2],
        error_code=error_code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=None,
        records=b"",
    )
