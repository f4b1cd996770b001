"""Records change the state, the same live and in replay. Unexpected records of a log are tested too."""

from __future__ import annotations

import sys
import tracemalloc

import pytest

from muster.coordinator.state_machine.interface import EndTransaction, TransactionalBatch
from muster.coordinator.system.jobs import at_once
from muster.coordinator.transactions.commands import TransactionSettings
from muster.coordinator.transactions.core import TransactionCore
from muster.coordinator.transactions.transaction import (
    EVENTS,
    IDLE,
    IN_RECORDS,
    STATES,
    STATUS,
    TRANSITIONS,
    IllegalTransition,
    after,
)
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey
from muster.protocol.messages.transaction_records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from muster.protocol.records import TRANSACTION_STATE
from tests.coordinator.transactions.harness import START, TransactionHarness

KEY = TransactionLogKey("x")


def core() -> TransactionCore:
    return TransactionCore(TransactionSettings(), lambda _: lambda _: None)


def test_each_transaction_state_has_kafkas_number_in_records() -> None:
    # Kafka's TransactionState
    assert [STATUS[state] for state in ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort")] == [0, 1, 2, 3]
    assert [STATUS[state] for state in ("CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence")] == [4, 5, 6, 7]
    assert STATES[:6] == IN_RECORDS
    assert {state for state, _ in TRANSITIONS} == set(STATES) - {"Dead"}
    assert {event for _, event in TRANSITIONS} == set(EVENTS)
    assert {state for state, event in TRANSITIONS if TRANSITIONS[state, event] == "Dead"} == IDLE


def test_a_transition_that_is_not_in_the_table_raises_an_error() -> None:
    for state in STATES:
        for event in EVENTS:
            if (state, event) not in TRANSITIONS:
                with pytest.raises(IllegalTransition, match=state):
                    after("x", state, event)


def test_records_of_later_kafka_versions_are_skipped() -> None:
    one = core()
    records = [
        (GroupMetadataKey("g"), None),
        (KEY, TransactionLogValue(transaction_status=6)),
        (KEY, TransactionLogValue(transaction_status=7)),
        (KEY, TransactionLogValue(transaction_status=8)),
        (KEY, TransactionLogValue(transaction_status=-1)),
    ]
    assert one.replay(records, START) == 5
    assert one.transactional_id_count == 0


def test_values_of_version_0_and_without_partitions_are_read() -> None:
    old = TRANSACTION_STATE.encode_value(
        TransactionLogValue(
            5, -1, -1, 3, -1, 60_000, 1, [PartitionsSchema("t", [1, 0]), PartitionsSchema("t", [2])], 7, 6
        ),
        0,
    )
    _, value = TRANSACTION_STATE.decode_value(0, old)
    one = core()
    one.replay(
        [
            (KEY, value),
            (TransactionLogKey("y"), TransactionLogValue(transaction_status=1, transaction_partitions=None)),
        ],
        START,
    )
    first = one.state.transactions["x"]
    assert {topic: list(ids) for topic, ids in first.partitions.items()} == {"t": [1, 0, 2]}
    assert (first.previous_producer_id, first.version, first.start_ms, first.updated_ms) == (-1, 0, 6, 7)
    assert one.state.transactions["y"].partition_count == 0
    assert set(one.state.ongoing) == {"x", "y"}


def test_a_tombstone_removes_an_id_completely() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.add((1_001, 0))
    harness.core.replay([(KEY, None), (KEY, None)], START)
    state = harness.core.state
    assert (state.transactions, state.ongoing, state.endings) == ({}, {}, {})


def test_transactional_batches_are_replayed_as_plain_records() -> None:
    one = core()
    assert one.replay_transactional(TransactionalBatch(1, 0, 0, [(KEY, TransactionLogValue())]), START) == 1
    at_once(one.end_transaction(EndTransaction(1, 0, False), START))
    assert one.transactional_id_count == 1


def test_an_idle_transactional_id_takes_little_memory() -> None:
    """100,000 ids must fit into 60 MB. The test measures the state that the log's bytes become, without the bytes."""
    count = 2_000
    encoded = [
        (
            TRANSACTION_STATE.encode_key(TransactionLogKey(f"order-service-{number}")),
            TRANSACTION_STATE.encode_value(
                TransactionLogValue(
                    10**6 + number,
                    10**6 + number,
                    -1,
                    300 + number,
                    -1,
                    60_000,
                    4,
                    [],
                    10**12 + number,
                    10**11 + number,
                    2,
                ),
                1,
            ),
        )
        for number in range(count)
    ]
    one = core()
    tracemalloc.start()
    try:
        for key, value in encoded:
            one.replay([(TRANSACTION_STATE.decode_key(key)[1], TRANSACTION_STATE.decode_value(0, value)[1])], START)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert one.transactional_id_count == count
    assert used / count < 600
    assert sys.getsizeof(one.state.transactions["order-service-1"]) < 200
