"""Reads the rows of a Fetch request: the partition of each row, the records, and the refusals.

The first batch is returned whatever its size. All further batches must be within the limits of the request (KIP-74).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from muster.coordinator.api.context import (
    RequestContext,
    fetch_by_topic_id,
    fetch_knows_storage_error,
    fetch_names_leader,
)
from muster.coordinator.api.node import PLAIN_ROWS, Node
from muster.coordinator.api.records.offsets import led_here
from muster.coordinator.api.unsent import Taken
from muster.coordinator.log import LogError, SegmentAbsent, UnifiedLog
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.fetch_sessions import FetchRow
from muster.coordinator.topics.open_topics import Topic
from muster.coordinator.topics.partition import Partition
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.fetch import AbortedTransaction, EpochEndOffset, LeaderIdAndEpoch, PartitionData

MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""With these errors, an answer says where the leader is (KIP-951)."""


class FetchTerms(NamedTuple):
    """The fields of a Fetch request that count for all rows."""

    version: int
    max_bytes: int
    committed: bool
    """Whether to read only records of committed transactions, and records outside of transactions (read_committed)."""
    from_follower: bool
    """Whether the client is a broker that keeps a replica. No partition has such a replica, so no partition is read."""


class RowsRead:
    """The rows and their data, the bytes of records, and the partitions that may have more records later.

    As on Kafka, rows of unknown topics and partitions are last. Among these, rows of unknown topic ids are first.
    `failed`: a partition cannot be read or has diverged, so the answer must not wait. `absent`: segments, by base
    offset, that the local replica does not have yet. The answer is as if these segments had no records.
    """

    __slots__ = ("absent", "bytes", "failed", "partitions", "results")

    def __init__(self) -> None:
        self.absent: list[tuple[UnifiedLog, int]] = []
        self.results: list[tuple[FetchRow, PartitionData]] = []
        self.bytes = 0
        self.failed = False
        self.partitions: list[Partition] = []


def read_rows(
    node: Node, context: RequestContext, rows: Sequence[FetchRow], terms: FetchTerms, taken: Taken
) -> Job[RowsRead]:
    """Read every row, in order. All rows together get at most `max_bytes` of records; only the first batch may exceed
    this limit.

    With little memory for answers, fewer records are read, or none. `taken` counts the bytes that were read.
    """
    read = RowsRead()
    left = terms.max_bytes
    by_id = fetch_by_topic_id(terms.version)
    nameless: list[tuple[FetchRow, PartitionData]] = []
    missing: list[tuple[FetchRow, PartitionData]] = []
    for number, row in enumerate(rows):
        if read.bytes or number >= PLAIN_ROWS:
            yield None
        try:
            topic = _find(node, context, row, by_id, terms.from_follower)
        except ApiError as refusal:
            data = refused_row(row, refusal.error_code)
            data.aborted_transactions = ()
            (nameless if refusal.error_code == ErrorCode.UNKNOWN_TOPIC_ID else missing).append((row, data))
            continue
        try:
            if by_id and topic.topic_id != row.key[1]:
                raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
            partition = led_here(node, topic, row.key[2])
            read.partitions.append(partition)
            if terms.committed and not partition.log.knows_producers:
                yield from partition.loading_producers()
            room = node.unsent.room()
            min_one = room > 0 and read.bytes == 0
            data = yield from _read(row, partition, min(left, room), min_one, terms, read.absent)
        except (ApiError, LogError) as failure:
            data = _failed_row(node, row, topic, failure.error_code, terms.version)
            read.failed = True
        else:
            size = len(data.records) if data.records else 0
            read.bytes += size
            taken.set(read.bytes)
            left = max(left - size, 0)
            read.failed = read.failed or data.diverging_epoch is not None
        read.results.append((row, data))
    read.results += nameless + missing
    return read


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


def _read(
    row: FetchRow,
    partition: Partition,
    left: int,
    min_one: bool,
    terms: FetchTerms,
    absent: list[tuple[UnifiedLog, int]],
) -> Job[PartitionData]:
    known_epoch = row.current_leader_epoch
    if known_epoch >= 0:
        partition.check_leader_epoch(known_epoch)
    if terms.from_follower:
        no_replica = ErrorCode.UNKNOWN_LEADER_EPOCH if known_epoch >= 0 else ErrorCode.NOT_LEADER_OR_FOLLOWER
        raise ApiError(no_replica)
    log = partition.log
    data = PartitionData(
        partition_index=row.key[2],
        high_watermark=log.durable_offset,
        log_start_offset=log.start_offset,
        aborted_transactions=None,
    )
    # every answer has this field, but producers are loaded only for read_committed
    knows_producers = terms.committed or log.knows_producers
    data.last_stable_offset = partition.last_stable_offset() if knows_producers else log.durable_offset
    if row.last_fetched_epoch >= 0:
        epoch, end_offset = partition.epoch_end_offset(row.last_fetched_epoch)
        if epoch < 0 or end_offset < 0:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch < row.last_fetched_epoch or end_offset < row.fetch_offset:
            data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
            data.records = b""
            return data
    room = min(row.max_bytes, left)
    up_to = data.last_stable_offset if terms.committed else data.high_watermark
    try:
        data.records = records = partition.read(row.fetch_offset, room, min_one, up_to)
        # Kafka drops a first batch above the limit, and also this batch's aborted transactions.
        has_dropped = not records and room > 0 and row.fetch_offset < data.last_stable_offset
        if terms.committed and not has_dropped:
            aborted = partition.aborted_in_memory(row.fetch_offset, records)
            if aborted is None:
                aborted = yield from partition.aborted(row.fetch_offset, records)
            # The log's objects have the fields that are encoded. To make the protocol's objects would take as long as
            # the search.
            data.aborted_transactions = cast(list[AbortedTransaction], aborted)
    except SegmentAbsent as found:
        absent.append((log, found.base_offset))
        data.records = b""
        data.aborted_transactions = [] if terms.committed else None
    return data


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
