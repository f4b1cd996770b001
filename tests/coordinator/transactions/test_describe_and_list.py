"""DescribeTransactions and ListTransactions. The answers are those of Kafka 4.3 to the same requests."""

from __future__ import annotations

from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_transactions import TopicData, TransactionState
from tests.coordinator.transactions.harness import TransactionHarness


def three() -> TransactionHarness:
    harness = TransactionHarness()
    harness.init("a")
    harness.init("b", timeout_ms=5_000)
    harness.init("c")
    harness.advance(1_000)
    harness.add((1_002, 0), {"t": [4]}, transactional_id="b")
    harness.add((1_003, 0), transactional_id="c")
    harness.end((1_003, 0), transactional_id="c")
    harness.advance(1_000)
    return harness


def test_describe_transactions_answers_as_kafka() -> None:
    harness = three()
    start_ms = harness.now.wall_ms - 1_000
    assert harness.describe("b", "", "unknown", "a", "b") == [
        TransactionState(0, "b", "Ongoing", 5_000, start_ms, 1_002, 0, [TopicData("t", [4])]),
        TransactionState(ErrorCode.INVALID_REQUEST, ""),
        TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "unknown"),
        TransactionState(0, "a", "Empty", 60_000, -1, 1_001, 0, []),
        TransactionState(0, "b", "Ongoing", 5_000, start_ms, 1_002, 0, [TopicData("t", [4])]),
    ]
    harness.written("c")
    assert harness.describe("c") == [TransactionState(0, "c", "CompleteCommit", 60_000, start_ms, 1_003, 1, [])]


def found(harness: TransactionHarness, *args: object, **kwargs: object) -> list[str]:
    got = harness.list(*args, **kwargs)
    assert got.error_code == 0
    return [row.transactional_id for row in got.transaction_states]


def test_list_transactions_answers_as_kafka() -> None:
    harness = three()
    rows = harness.list().transaction_states
    assert [(row.transactional_id, row.producer_id, row.transaction_state) for row in rows] == [
        ("a", 1_001, "Empty"),
        ("b", 1_002, "Ongoing"),
        ("c", 1_003, "PrepareCommit"),
    ]


def test_list_transactions_filters_by_state_and_producer() -> None:
    harness = three()
    assert found(harness, ["Ongoing", "PrepareCommit"]) == ["b", "c"]
    assert found(harness, ["Dead", "PrepareEpochFence"]) == []
    assert found(harness, [], [1_001, 1_003, 7]) == ["a", "c"]
    assert found(harness, ["Empty"], [1_003]) == []


def test_unknown_states_are_named_once() -> None:
    got = three().list(["Ongoing", "bogus", "bogus", "ongoing"])
    assert got.unknown_state_filters == ["bogus", "ongoing"]
    assert [row.transactional_id for row in got.transaction_states] == ["b"]
    assert found(three(), ["bogus"]) == []


def test_list_transactions_filters_by_duration() -> None:
    harness = three()
    assert found(harness, duration_ms=-5) == ["a", "b", "c"]
    # a transaction that never began counts as open since 1970, as on Kafka
    assert found(harness, duration_ms=0) == ["a", "b", "c"]
    assert found(harness, duration_ms=999) == ["a", "b", "c"]
    assert found(harness, duration_ms=1_000) == ["a"]
    assert found(harness, duration_ms=2**62) == []


def test_the_core_ignores_the_pattern_of_list_transactions() -> None:
    assert found(three(), pattern="nothing") == ["a", "b", "c"]
