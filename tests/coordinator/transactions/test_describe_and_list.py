"""DescribeTransactions and ListTransactions. The answers are those of Kafka 4.3, asked the same."""

from __future__ import annotations

from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_transactions import TopicData, TransactionState
from tests.coordinator.transactions.harness import Bench


def three() -> Bench:
    bench = Bench()
    bench.init("a")
    bench.init("b", timeout_ms=5_000)
    bench.init("c")
    bench.advance(1_000)
    bench.add((1_002, 0), {"t": [4]}, transactional_id="b")
    bench.add((1_003, 0), transactional_id="c")
    bench.end((1_003, 0), transactional_id="c")
    bench.advance(1_000)
    return bench


def test_describe() -> None:
    bench = three()
    start_ms = bench.now.wall_ms - 1_000
    assert bench.describe("b", "", "unknown", "a", "b") == [
        TransactionState(0, "b", "Ongoing", 5_000, start_ms, 1_002, 0, [TopicData("t", [4])]),
        TransactionState(ErrorCode.INVALID_REQUEST, ""),
        TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "unknown"),
        TransactionState(0, "a", "Empty", 60_000, -1, 1_001, 0, []),
        TransactionState(0, "b", "Ongoing", 5_000, start_ms, 1_002, 0, [TopicData("t", [4])]),
    ]
    bench.written("c")
    assert bench.describe("c") == [TransactionState(0, "c", "CompleteCommit", 60_000, start_ms, 1_003, 1, [])]


def found(bench: Bench, *args: object, **kwargs: object) -> list[str]:
    got = bench.list(*args, **kwargs)  # type: ignore[arg-type]
    assert got.error_code == 0
    return [row.transactional_id for row in got.transaction_states]


def test_list() -> None:
    bench = three()
    rows = bench.list().transaction_states
    assert [(row.transactional_id, row.producer_id, row.transaction_state) for row in rows] == [
        ("a", 1_001, "Empty"),
        ("b", 1_002, "Ongoing"),
        ("c", 1_003, "PrepareCommit"),
    ]


def test_filters() -> None:
    bench = three()
    assert found(bench, ["Ongoing", "PrepareCommit"]) == ["b", "c"]
    assert found(bench, ["Dead", "PrepareEpochFence"]) == []
    assert found(bench, [], [1_001, 1_003, 7]) == ["a", "c"]
    assert found(bench, ["Empty"], [1_003]) == []


def test_unknown_states_are_named_once() -> None:
    got = three().list(["Ongoing", "bogus", "bogus", "ongoing"])
    assert got.unknown_state_filters == ["bogus", "ongoing"]
    assert [row.transactional_id for row in got.transaction_states] == ["b"]
    assert found(three(), ["bogus"]) == []


def test_how_long_it_is_open() -> None:
    bench = three()
    assert found(bench, duration_ms=-5) == ["a", "b", "c"]
    # a transaction that never began counts as open since 1970, as on Kafka
    assert found(bench, duration_ms=0) == ["a", "b", "c"]
    assert found(bench, duration_ms=999) == ["a", "b", "c"]
    assert found(bench, duration_ms=1_000) == ["a"]
    assert found(bench, duration_ms=2**62) == []


def test_a_pattern_is_not_for_the_core() -> None:
    assert found(three(), pattern="nothing") == ["a", "b", "c"]
