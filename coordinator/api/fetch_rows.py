"""Reading the rows of a Fetch request: which partition each means, what stands there, and what is refused.

Serves within the request's limits: the first records found are returned whatever their size, after that nothing goes
over them (KIP-74).
"""

from __future__ import annotations

from collections.abc import Sequence

from muster.coordinator.api.context import TOPIC, Operation, RequestContext, Resource, authorize
from muster.coordinator.api.node import Node
from muster.coordinator.log import LogError
from muster.coordinator.topics.partition import Partition
from muster.coordinator.topics.refusal import Refused
from muster.coordinator.topics.sessions import FetchRow
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    LeaderIdAndEpoch,
    PartitionData,
)


class RowsRead:
    """What came of reading: rows and data, how many bytes of records, and the partitions that may have more later.

    `failed`: a partition that is there could not be read, which is told without waiting.
    """

    __slots__ = ("bytes", "failed", "partitions", "results")

    def __init__(self) -> None:
        self.results: list[tuple[FetchRow, PartitionData]] = []
        self.bytes = 0
        self.failed = False
        self.partitions: list[Partition] = []


def read_rows(
    node: Node, context: RequestContext, rows: Sequence[FetchRow], max_bytes: int, committed: bool, by_id: bool
) -> RowsRead:
    """Read every row, in order, together at most `max_bytes` of records (but for the first batch found)."""
    read = RowsRead()
    left = max_bytes
    for row in rows:
        try:
            partition = _find(node, context, row, by_id)
        except Refused as refusal:
            data = refused_row(row, refusal.error_code)
            data.aborted_transactions = ()
            read.results.append((row, data))
            continue
        try:
            data = _read(row, partition, left, read.bytes == 0, committed)
        except (Refused, LogError) as refusal:
            data = refused_row(row, refusal.error_code)
            if refusal.error_code == ErrorCode.FENCED_LEADER_EPOCH:
                data.current_leader = LeaderIdAndEpoch(leader_id=node.node_id, leader_epoch=partition.leader_epoch)
            read.failed = True
        else:
            size = len(data.records) if data.records else 0
            read.bytes += size
            left = max(left - size, 0)
            read.failed = read.failed or data.diverging_epoch is not None
        read.partitions.append(partition)
        read.results.append((row, data))
    return read


def _find(node: Node, context: RequestContext, row: FetchRow, by_id: bool) -> Partition:
    """The partition that a row means.

    Raises `Refused`: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, KAFKA_STORAGE_ERROR.
    """
    name, topic_id, index = row.key
    topics = node.topics
    topic = topics.by_id.get(topic_id) if by_id else topics.by_name.get(name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not authorize(context, Operation.READ, Resource(TOPIC, topic.name)):
        raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return topic.existing(index)


def _read(row: FetchRow, partition: Partition, left: int, min_one: bool, committed: bool) -> PartitionData:
    """The data of one row; raises `Refused` or an error of the log."""
    partition.check_leader_epoch(row.current_leader_epoch)
    log = partition.log
    data = PartitionData(
        partition_index=row.key[2], high_watermark=log.durable_offset, log_start_offset=log.start_offset
    )
    data.last_stable_offset = partition.last_stable_offset() if committed else log.durable_offset
    if row.last_fetched_epoch >= 0:
        epoch, end_offset = log.epoch_end_offset(row.last_fetched_epoch)
        if epoch < 0 or end_offset < 0:
            raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch < row.last_fetched_epoch or end_offset < row.fetch_offset:
            data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
            data.records = b""
            return data
    records, aborted = partition.read(row.fetch_offset, min(row.max_bytes, left), min_one, committed)
    data.records = records
    data.aborted_transactions = (
        None if aborted is None else [AbortedTransaction(t.producer_id, t.first_offset) for t in aborted]
    )
    return data


def refused_row(row: FetchRow, error_code: int) -> PartitionData:
    """What is told of a partition that cannot be read."""
    return PartitionData(
        partition_index=row.key[2],
        error_code=error_code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=None,
        records=b"",
    )
