"""The largest requests about records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster.protocol.message import Message
from muster.protocol.messages import delete_records as dr
from muster.protocol.messages import describe_producers as dp
from muster.protocol.messages import fetch as fe
from muster.protocol.messages import list_offsets as lo
from muster.protocol.messages import offset_for_leader_epoch as ofle
from muster.protocol.messages import produce as pr
from muster.protocol.messages import share_acknowledge as shack
from muster.protocol.messages import share_fetch as shf
from tests.coordinator.topics.support import batch
from tests.worst.cases.case import ELEMENTS, Case, wide
from tests.worst.state import (
    WIDE,
    State,
    topic_name,
)


def produced(s: State, n: int) -> Iterator[Message]:
    data = batch()
    rows = [pr.PartitionProduceData(i % s.size, data) for i in wide(n)]
    yield pr.ProduceRequest(None, -1, 1_000, [pr.TopicProduceData(WIDE, s.wide_id, rows)])


def produced_to_topics(s: State, n: int) -> Iterator[Message]:
    rows = [pr.PartitionProduceData(0, batch())]
    topics = [pr.TopicProduceData(topic_name(i % s.size), s.topic_ids[i % s.size], rows) for i in range(n)]
    yield pr.ProduceRequest(None, -1, 1_000, topics)


def large_batch(s: State, n: int) -> Iterator[Message]:
    data = batch(*[b"v%d" % i for i in range(n)])
    yield pr.ProduceRequest(None, -1, 1_000, [pr.TopicProduceData(WIDE, s.wide_id, [pr.PartitionProduceData(0, data)])])


def fetched(s: State, n: int) -> Iterator[Message]:
    rows = [fe.FetchPartition(i % s.size, partition_max_bytes=1_000) for i in wide(n)]
    topics = [fe.FetchTopic(WIDE, s.wide_id, rows)]
    yield fe.FetchRequest(topics=topics, max_bytes=1_000_000, session_epoch=0)


def fetched_topics(s: State, n: int) -> Iterator[Message]:
    rows = [fe.FetchPartition(0, partition_max_bytes=1_000)]
    topics = [fe.FetchTopic(topic_name(i % s.size), s.topic_ids[i % s.size], rows) for i in range(n)]
    yield fe.FetchRequest(topics=topics, max_bytes=1_000_000, isolation_level=1)


def waited(s: State, n: int) -> Iterator[Message]:
    rows = [fe.FetchPartition(i % s.size, fetch_offset=0, partition_max_bytes=1_000) for i in wide(n)]
    topics = [fe.FetchTopic(WIDE, s.wide_id, rows)]
    yield fe.FetchRequest(topics=topics, max_bytes=1_000_000, max_wait_ms=10, min_bytes=1_000_000_000)


def shared(s: State, n: int) -> Iterator[Message]:
    rows = [shf.FetchPartition(i % s.size) for i in wide(n)]
    yield shf.ShareFetchRequest(
        "g", "m", max_bytes=1_000_000, max_records=500, topics=[shf.FetchTopic(s.wide_id, rows)]
    )
    some = [shf.AcknowledgementBatch(i, i, [1]) for i in range(n)]
    topics = [shf.FetchTopic(s.wide_id, [shf.FetchPartition(0, 0, some)])]
    yield shf.ShareFetchRequest("g", "m", 1, max_bytes=1_000_000, max_records=500, topics=topics)


def acknowledged(s: State, n: int) -> Iterator[Message]:
    yield shf.ShareFetchRequest("g", "m", max_records=500, topics=[shf.FetchTopic(s.wide_id, [shf.FetchPartition(0)])])
    some = [shack.AcknowledgementBatch(i, i, [1]) for i in range(n)]
    rows = [
        shack.AcknowledgePartition(0, some),
        shack.AcknowledgePartition(1, [shack.AcknowledgementBatch(0, n - 1, [1] * n)]),
    ]
    yield shack.ShareAcknowledgeRequest("g", "m", 1, topics=[shack.AcknowledgeTopic(s.wide_id, rows)])
    rows = [shack.AcknowledgePartition(i % s.size, [shack.AcknowledgementBatch(0, 0, [1])]) for i in wide(n)]
    yield shack.ShareAcknowledgeRequest("g", "m", 2, topics=[shack.AcknowledgeTopic(s.wide_id, rows)])


def listed_offsets(s: State, n: int) -> Iterator[Message]:
    for timestamp in (-1, 1_700_000_000_000):
        rows = [lo.ListOffsetsPartition(i % s.size, -1, timestamp) for i in wide(n)]
        yield lo.ListOffsetsRequest(-1, 0, [lo.ListOffsetsTopic(WIDE, rows)])


def ended_epochs(s: State, n: int) -> Iterator[Message]:
    rows = [ofle.OffsetForLeaderPartition(i % s.size, -1, 0) for i in wide(n)]
    yield ofle.OffsetForLeaderEpochRequest(-1, [ofle.OffsetForLeaderTopic(WIDE, rows)])


def deleted_records(s: State, n: int) -> Iterator[Message]:
    rows = [dr.DeleteRecordsPartition(i % s.size, 0) for i in wide(n)]
    yield dr.DeleteRecordsRequest([dr.DeleteRecordsTopic(WIDE, rows)], 1_000)


def described_producers(s: State, n: int) -> Iterator[Message]:
    yield dp.DescribeProducersRequest([dp.TopicRequest(WIDE, [0])] * min(n, 20))
    yield dp.DescribeProducersRequest([dp.TopicRequest(WIDE, [i % s.size for i in range(1, n)])])


CASES: Final[dict[str, tuple[Case, ...]]] = {
    "Produce": (
        Case("partitions", ELEMENTS, produced), Case("topics", ELEMENTS // 2, produced_to_topics),
        Case("records", 16_000, large_batch),
    ),
    "Fetch": (
        Case("partitions of a session", 20_000, fetched), Case("topics", ELEMENTS // 2, fetched_topics),
        Case("waiting partitions", ELEMENTS, waited),
    ),
    "ShareFetch": (Case("partitions", 20_000, shared),),
    "ShareAcknowledge": (Case("acknowledgements", ELEMENTS // 2, acknowledged),),
    "ListOffsets": (Case("partitions", ELEMENTS, listed_offsets),),
    "DeleteRecords": (Case("partitions", ELEMENTS, deleted_records),),
    "OffsetForLeaderEpoch": (Case("partitions", ELEMENTS, ended_epochs),),
    "DescribeProducers": (Case("producers", ELEMENTS, described_producers),),
}  # fmt: skip
"""The cases by the API's name."""
