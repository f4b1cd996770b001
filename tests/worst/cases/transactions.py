"""The largest requests about transactions, and of the states of share partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from muster.protocol.message import Message
from muster.protocol.messages import add_offsets_to_txn as aott
from muster.protocol.messages import add_partitions_to_txn as apt
from muster.protocol.messages import delete_share_group_state as dss
from muster.protocol.messages import describe_transactions as det
from muster.protocol.messages import end_txn as et
from muster.protocol.messages import find_coordinator as fc
from muster.protocol.messages import init_producer_id as ipi
from muster.protocol.messages import initialize_share_group_state as iss
from muster.protocol.messages import list_transactions as lt
from muster.protocol.messages import read_share_group_state as rss
from muster.protocol.messages import read_share_group_state_summary as rsss
from muster.protocol.messages import txn_offset_commit as toc
from muster.protocol.messages import write_share_group_state as wss
from muster.protocol.messages import write_txn_markers as wtm
from tests.worst.cases.case import BYTES, CAPTURES, ELEMENTS, LONG_GROUPS, MANY, Case, fresh, wide
from tests.worst.state import (
    WIDE,
    State,
    group_name,
    long,
)


def found(s: State, n: int) -> Iterator[Message]:
    for kind in (0, 1):
        yield fc.FindCoordinatorRequest("g", kind, [group_name(i) for i in range(n)])


def begun(s: State, n: int) -> Iterator[Message]:
    yield ipi.InitProducerIdRequest(long("x", fresh(1)[0], 30_000), 1_000)


def added(s: State, n: int) -> Iterator[Message]:
    producer_id, epoch = s.producers[0]
    topics = [apt.AddPartitionsToTxnTopic(WIDE, [*wide(n)])]
    name = long("x", 0, 200)
    rows = [apt.AddPartitionsToTxnTransaction(name, producer_id, epoch, False, topics)]
    yield apt.AddPartitionsToTxnRequest(rows, name, producer_id, epoch, topics)


def verified(s: State, n: int) -> Iterator[Message]:
    rows = [
        apt.AddPartitionsToTxnTransaction(
            long("x", i % s.size, 200), *s.producers[i % s.size], True, [apt.AddPartitionsToTxnTopic(WIDE, [0, 1])]
        )
        for i in range(n)
    ]
    yield apt.AddPartitionsToTxnRequest(rows)


def added_offsets(s: State, n: int) -> Iterator[Message]:
    yield aott.AddOffsetsToTxnRequest(long("x", 1, 200), *s.producers[1], long("g", 1, 30_000))


def committed_in_transaction(s: State, n: int) -> Iterator[Message]:
    name, (producer_id, epoch) = long("x", 2, 200), s.producers[2]
    yield aott.AddOffsetsToTxnRequest(name, producer_id, epoch, "in-transaction")
    rows = [toc.TxnOffsetCommitRequestPartition(i % s.size, 1, -1, "m" * 100) for i in wide(n)]
    topics = [toc.TxnOffsetCommitRequestTopic(WIDE, partitions=rows)]
    yield toc.TxnOffsetCommitRequest(name, "in-transaction", producer_id, epoch, topics=topics)


def ended(s: State, n: int) -> Iterator[Message]:
    name = f"ended-{fresh(1)[0]}"
    yield ipi.InitProducerIdRequest(name, 60_000)
    got = s.node.link.answers[-1]
    if hasattr(got, "producer_epoch"):
        topics = [apt.AddPartitionsToTxnTopic(WIDE, [*wide(min(n, s.size))])]
        yield apt.AddPartitionsToTxnRequest(
            [apt.AddPartitionsToTxnTransaction(name, got.producer_id, got.producer_epoch, False, topics)],
            name, got.producer_id, got.producer_epoch, topics,
        )  # fmt: skip
        yield et.EndTxnRequest(name, got.producer_id, got.producer_epoch, True)


def marked(s: State, n: int) -> Iterator[Message]:
    topics = [wtm.WritableTxnMarkerTopic(WIDE, [i % s.size for i in wide(n)])]
    yield wtm.WriteTxnMarkersRequest([wtm.WritableTxnMarker(1, 0, False, topics)])


def states(module: Any, request: str, topic: str, **row: Any) -> Callable[[State, int], Iterator[Message]]:
    """A request about the states of many share partitions, which exist."""

    def asked(s: State, n: int) -> Iterator[Message]:
        if module is not iss:
            yield from states(iss, "InitializeShareGroupStateRequest", "InitializeStateData")(s, min(n, s.size))
        rows = [module.PartitionData(i % s.size, **row) for i in wide(n)]
        yield getattr(module, request)("share", [getattr(module, topic)(s.wide_id, rows)])

    return asked


def written_batches(s: State, n: int) -> Iterator[Message]:
    yield iss.InitializeShareGroupStateRequest("rows", [iss.InitializeStateData(s.wide_id, [iss.PartitionData()])])
    batches = [wss.StateBatch(2 * i, 2 * i, 2, 1) for i in range(n)]
    topics = [wss.WriteStateData(s.wide_id, [wss.PartitionData(state_batches=batches)])]
    yield wss.WriteShareGroupStateRequest("rows", topics)
    yield rss.ReadShareGroupStateRequest("rows", [rss.ReadStateData(s.wide_id, [rss.PartitionData()])])


def described_transactions(s: State, n: int) -> Iterator[Message]:
    yield det.DescribeTransactionsRequest([long("x", i, 200) for i in range(n)])


def listed_transactions(s: State, n: int) -> Iterator[Message]:
    yield lt.ListTransactionsRequest()
    yield lt.ListTransactionsRequest([f"state-{i}" for i in range(n)], [*range(n)])


def listed_transactions_by_pattern(s: State, n: int) -> Iterator[Message]:
    yield lt.ListTransactionsRequest(transactional_id_pattern=CAPTURES)


CASES: Final[dict[str, tuple[Case, ...]]] = {
    "FindCoordinator": (Case("keys", LONG_GROUPS, found),),
    "InitProducerId": (Case("nothing", 1, begun),),
    "AddPartitionsToTxn": (Case("partitions", ELEMENTS, added), Case("transactions", 80_000, verified, 4)),
    "AddOffsetsToTxn": (Case("nothing", 1, added_offsets),),
    "EndTxn": (Case("partitions", 20_000, ended),),
    "WriteTxnMarkers": (Case("partitions", ELEMENTS, marked),),
    "TxnOffsetCommit": (Case("partitions", ELEMENTS, committed_in_transaction),),
    "DescribeTransactions": (Case("ids", BYTES // 210, described_transactions),),
    "ListTransactions": (
        Case("transactions", MANY, listed_transactions),
        Case("transactions by a pattern", MANY, listed_transactions_by_pattern, 2),
    ),
    "InitializeShareGroupState": (
        Case("partitions", ELEMENTS, states(iss, "InitializeShareGroupStateRequest", "InitializeStateData")),
    ),
    "ReadShareGroupState": (Case("partitions", ELEMENTS, states(rss, "ReadShareGroupStateRequest", "ReadStateData")),),
    "WriteShareGroupState": (
        Case("partitions", ELEMENTS, states(wss, "WriteShareGroupStateRequest", "WriteStateData")),
        Case("batches", 10_000, written_batches),
    ),
    "DeleteShareGroupState": (
        Case("partitions", ELEMENTS, states(dss, "DeleteShareGroupStateRequest", "DeleteStateData")),
    ),
    "ReadShareGroupStateSummary": (
        Case("partitions", ELEMENTS, states(rsss, "ReadShareGroupStateSummaryRequest", "ReadStateSummaryData")),
    ),
}  # fmt: skip
"""The cases by the API's name."""
