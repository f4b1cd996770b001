"""The life of transactions through the core."""

from __future__ import annotations

import pytest

from muster.coordinator.state_machine.interface import Client, Command, Now
from muster.coordinator.transactions import events
from muster.coordinator.transactions.commands import TransactionSettings
from muster.coordinator.transactions.core import TransactionCore
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.transaction_records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from muster.protocol.messages.write_txn_markers import WritableTxnMarker
from tests.coordinator.transactions.harness import START, TransactionHarness


def test_a_client_of_the_old_protocol_completes_a_transaction() -> None:
    harness = TransactionHarness()
    assert harness.init() == (0, 1_001, 0)
    assert harness.add((1_001, 0), {"t": [0, 1]}) == 0
    assert harness.end((1_001, 0), version=0) == (0, -1, -1)
    marker = harness.markers["x"]
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (1_001, 0, True)
    assert marker.transaction_version == 0
    assert {topic.name: sorted(topic.partition_indexes) for topic in marker.topics} == {"t": [0, 1]}
    assert harness.one().state == "PrepareCommit"
    harness.written()
    assert (harness.one().state, harness.one().producer_epoch) == ("CompleteCommit", 0)
    assert [record.value.transaction_status for record in harness.records if record.value] == [0, 1, 2, 4]
    assert harness.kinds() == [
        events.INITIALIZED,
        events.BEGUN,
        events.PARTITIONS_ADDED,
        events.ENDING,
        events.COMMITTED,
    ]


def test_a_client_of_the_new_protocol_gets_the_next_epoch_at_the_end() -> None:
    harness = TransactionHarness()
    harness.init()
    assert harness.add((1_001, 0), version=2) == 0
    assert harness.end((1_001, 0)) == (0, 1_001, 1)
    marker = harness.markers["x"]
    assert (marker.producer_epoch, marker.transaction_version) == (1, 2)
    harness.written()
    assert harness.add((1_001, 1), version=2) == 0
    assert harness.add((1_001, 0), version=2) == ErrorCode.PRODUCER_FENCED
    assert harness.end((1_001, 1), commit=False) == (0, 1_001, 2)
    assert harness.markers["x"].transaction_result is False
    harness.written()
    assert harness.one().state == "CompleteAbort"


def test_markers_of_another_transaction_are_ignored() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.add((1_001, 0), version=2)
    harness.end((1_001, 0))
    harness.markers["x"].producer_epoch = 0
    harness.written()
    assert harness.one().state == "PrepareCommit"
    harness.markers["gone"] = WritableTxnMarker()
    harness.written("gone")
    assert harness.core.transactional_id_count == 1


def test_a_decided_transaction_sends_its_markers_again_after_a_load() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.add((1_001, 0), {"t": [0], "u": [3]})
    harness.end((1_001, 0), version=0)
    harness.init("y")
    harness.restart()
    marker = harness.markers["x"]
    assert marker.transaction_result is True
    harness.written()
    assert harness.one().state == "CompleteCommit"
    assert harness.events[-1].facts["cause"] is None
    harness.restart()
    assert harness.markers == {}


def test_a_decided_transaction_without_partitions_is_complete_after_a_load() -> None:
    value = TransactionLogValue(5, 5, -1, 1, -1, 60_000, 3, [], 1, 1, 2)
    harness = TransactionHarness([(TransactionLogKey("x"), value)])
    assert harness.markers == {}
    assert harness.one().state == "CompleteAbort"
    assert [record.value.transaction_status for record in harness.records if record.value] == [5]


def test_a_core_without_spare_producer_ids_asks_for_none() -> None:
    core = TransactionCore(TransactionSettings(), lambda _: lambda _: None)
    value = TransactionLogValue(5, 5, -1, 32_766, -1, 1_000, 1, [PartitionsSchema("t", [0])], 1, 1, 2)
    core.replay([(TransactionLogKey("x"), value)], START)
    core.loaded(START)
    due = core.next_deadline_ms()
    assert due is not None
    assert core.advance(Now(due, START.wall_ms + due)).records == []


def test_the_core_knows_the_producer_ids_of_its_transactions() -> None:
    value = TransactionLogValue(5, 4, 6, 1, -1, 60_000, 2, [PartitionsSchema("t", [0])], 1, 1, 2)
    harness = TransactionHarness([(TransactionLogKey("x"), value)])
    harness.init("y")
    assert harness.core.producers_among([3, 4, 5, 6, 7, 1_001, -1]) >= {4, 5, 6, 1_001}
    assert harness.core.producers_among([3, 7]) == set()


def test_a_resigned_core_has_no_deadlines() -> None:
    harness = TransactionHarness()
    assert harness.core.next_deadline_ms() is not None
    assert not harness.core.resign(16).replies
    assert harness.core.next_deadline_ms() is None


def test_a_request_that_the_core_does_not_handle_raises_an_error() -> None:
    core = TransactionCore(TransactionSettings(), lambda _: lambda _: None)
    with pytest.raises(TypeError):
        core.handle(Command(HeartbeatRequest(), lambda _: None, Client("", "")), START)


def test_timeouts_are_checked_independently_of_expired_ids() -> None:
    core = TransactionCore(TransactionSettings(), TransactionHarness().send_markers, first_check_ms=3_600_000)
    core.loaded(START)
    harness = TransactionHarness()
    harness.core = core
    harness.init(timeout_ms=5_000)
    harness.add((1_001, 0), {"t": [0]})
    due_ms = core.next_deadline_ms()
    assert due_ms is not None
    assert due_ms <= START.mono_ms + 10_000
