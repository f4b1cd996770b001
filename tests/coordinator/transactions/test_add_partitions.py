"""AddPartitionsToTxn: partitions are added to a transaction, or only verified."""

from __future__ import annotations

import pytest

from muster.coordinator.transactions import events
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tests.coordinator.transactions.harness import START, TransactionHarness

P = (1_001, 0)


def opened(version: int = 2) -> TransactionHarness:
    harness = TransactionHarness()
    harness.init()
    harness.add(P, version=version)
    return harness


@pytest.mark.parametrize("verify", [False, True])
def test_add_partitions_refuses_unknown_ids_and_old_producers(verify: bool) -> None:
    harness = opened()
    for transactional_id, producer, error in [
        ("", P, ErrorCode.INVALID_REQUEST),
        ("unknown", P, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("x", (1_002, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("x", (1_001, 1), ErrorCode.PRODUCER_FENCED),
        ("x", (1_001, -1), ErrorCode.PRODUCER_FENCED),
    ]:
        records = len(harness.records)
        topics = {"t": [0, 1], "u": [2]}
        assert harness.add(producer, topics, transactional_id=transactional_id, verify=verify) == error
        assert len(harness.records) == records
    kinds = harness.kinds()[-5:]
    assert kinds == [events.REQUEST_REFUSED] * 2 + [events.FENCED] * 3


def test_add_partitions_is_refused_while_markers_are_written() -> None:
    harness = opened()
    harness.end(P)
    # Kafka checks that first; a verifying request has its epoch checked before
    assert harness.add((9, 9)) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert harness.add((1_001, 1), verify=True) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert harness.add(P, verify=True) == ErrorCode.PRODUCER_FENCED
    reported = len(harness.events)
    assert harness.add((1_001, 1)) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert len(harness.events) == reported


def test_partitions_added_twice_write_no_record() -> None:
    harness = opened()
    records, reported = len(harness.records), len(harness.events)
    assert harness.add(P, {"t": [0, 0]}) == 0
    assert (len(harness.records), len(harness.events)) == (records, reported)
    assert harness.add(P, {"t": [0, 1], "u": [5]}) == 0
    assert len(harness.records) == records + 1
    assert harness.events[-1].facts == {"topics": {"t": [1], "u": [5]}, "start_ms": START.wall_ms, "partitions": 3}


def test_a_verification_finds_partitions_only_in_an_open_transaction() -> None:
    harness = opened()
    assert harness.add(P, {"t": [0, 1]}, verify=True) == {("t", 0): 0, ("t", 1): ErrorCode.TRANSACTION_ABORTABLE}
    harness.end(P)
    harness.written()
    assert harness.add((1_001, 1), verify=True) == ErrorCode.TRANSACTION_ABORTABLE
    assert harness.events[-1].kind == events.COMMITTED, "that is no refusal of the whole"


def test_a_transaction_begins_when_its_first_partitions_are_added() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.advance(500)
    harness.add(P, version=2)
    began = harness.now.wall_ms
    harness.advance(500)
    harness.add(P, {"t": [1]}, version=0)
    assert (harness.one().start_ms, harness.one().updated_ms) == (began, began + 500)
    assert harness.one().version == 0, "that of the last one who added"
    harness.end(P, version=0)
    harness.written()
    harness.advance(500)
    harness.add(P)
    assert harness.one().start_ms == began + 1_000


def test_adding_no_partitions_begins_a_transaction_too() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.ask(AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction("x", *P)]))
    assert (harness.one().state, dict(harness.one().partitions)) == ("Ongoing", {})
    assert harness.end(P) == (0, 1_001, 1)
    assert harness.one().state == "CompleteCommit"


def test_each_transaction_of_a_request_has_its_own_answer() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.init("y")
    topics = [AddPartitionsToTxnTopic("t", [0, 1])]
    asked = [
        AddPartitionsToTxnTransaction("y", 1_002, 5, False, topics),
        AddPartitionsToTxnTransaction("x", 1_001, 0, False, topics),
        AddPartitionsToTxnTransaction("x", 1_001, 0, True, topics),
    ]
    rows = harness.ask(AddPartitionsToTxnRequest(asked), 2).results_by_transaction
    assert [
        (row.transactional_id, [one.partition_error_code for one in row.topic_results[0].results_by_partition])
        for row in rows
    ] == [("y", [ErrorCode.PRODUCER_FENCED] * 2), ("x", [0, 0]), ("x", [0, 0])]


def test_partitions_that_do_not_fit_into_a_batch_are_refused() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.init("y")
    harness.max_bytes = 2_000
    assert harness.add(P, {"t": range(1_000)}) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert harness.one().state == "Empty"
    topics = [AddPartitionsToTxnTopic("t", range(300))]
    asked = [
        AddPartitionsToTxnTransaction(name, producer, 0, False, topics)
        for name, producer in (("x", 1_001), ("y", 1_002))
    ]
    rows = harness.ask(AddPartitionsToTxnRequest(asked)).results_by_transaction
    errors = [row.topic_results[0].results_by_partition[0].partition_error_code for row in rows]
    assert errors == [0, ErrorCode.CONCURRENT_TRANSACTIONS]


def test_the_number_of_partitions_of_a_transaction_is_limited() -> None:
    harness = TransactionHarness()
    harness.init()
    assert harness.add(P, {"t": range(50_001)}) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert harness.add(P, {"t": range(30_000)}) == 0
    assert harness.add(P, {"t": range(30_000)}) == 0
    assert harness.add(P, {"t": [7], "u": range(20_001)}) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert harness.add(P, {"u": range(20_000)}) == 0
    assert harness.one().partition_count == 50_000
    assert harness.end(P) == (0, 1_001, 1)
