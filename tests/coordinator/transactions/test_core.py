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
from tests.coordinator.transactions.harness import START, Bench


def test_a_transaction_of_an_old_client() -> None:
    bench = Bench()
    assert bench.init() == (0, 1_001, 0)
    assert bench.add((1_001, 0), {"t": [0, 1]}) == 0
    assert bench.end((1_001, 0), version=0) == (0, -1, -1)
    marker = bench.markers["x"]
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (1_001, 0, True)
    assert marker.transaction_version == 0
    assert {topic.name: sorted(topic.partition_indexes) for topic in marker.topics} == {"t": [0, 1]}
    assert bench.one().state == "PrepareCommit"
    bench.written()
    assert (bench.one().state, bench.one().producer_epoch) == ("CompleteCommit", 0)
    assert [record.value.transaction_status for record in bench.records if record.value] == [0, 1, 2, 4]
    assert bench.kinds() == [
        events.INITIALIZED,
        events.BEGUN,
        events.PARTITIONS_ADDED,
        events.ENDING,
        events.COMMITTED,
    ]


def test_a_transaction_of_a_new_client_gives_the_next_epoch() -> None:
    bench = Bench()
    bench.init()
    assert bench.add((1_001, 0), version=2) == 0
    assert bench.end((1_001, 0)) == (0, 1_001, 1)
    marker = bench.markers["x"]
    assert (marker.producer_epoch, marker.transaction_version) == (1, 2)
    bench.written()
    assert bench.add((1_001, 1), version=2) == 0
    assert bench.add((1_001, 0), version=2) == ErrorCode.PRODUCER_FENCED
    assert bench.end((1_001, 1), commit=False) == (0, 1_001, 2)
    assert bench.markers["x"].transaction_result is False
    bench.written()
    assert bench.one().state == "CompleteAbort"


def test_markers_of_another_transaction_are_ignored() -> None:
    bench = Bench()
    bench.init()
    bench.add((1_001, 0), version=2)
    bench.end((1_001, 0))
    bench.markers["x"].producer_epoch = 0
    bench.written()
    assert bench.one().state == "PrepareCommit"
    bench.markers["gone"] = WritableTxnMarker()
    bench.written("gone")
    assert bench.core.transactional_id_count == 1


def test_what_was_about_to_end_gets_its_markers_again_after_a_load() -> None:
    bench = Bench()
    bench.init()
    bench.add((1_001, 0), {"t": [0], "u": [3]})
    bench.end((1_001, 0), version=0)
    bench.init("y")
    bench.restart()
    marker = bench.markers["x"]
    assert marker.transaction_result is True
    bench.written()
    assert bench.one().state == "CompleteCommit"
    assert bench.events[-1].facts["cause"] is None
    bench.restart()
    assert bench.markers == {}


def test_what_was_about_to_end_without_partitions_is_complete_after_a_load() -> None:
    value = TransactionLogValue(5, 5, -1, 1, -1, 60_000, 3, [], 1, 1, 2)
    bench = Bench([(TransactionLogKey("x"), value)])
    assert bench.markers == {}
    assert bench.one().state == "CompleteAbort"
    assert [record.value.transaction_status for record in bench.records if record.value] == [5]


def test_a_core_alone_has_no_producer_ids_of_its_own() -> None:
    core = TransactionCore(TransactionSettings(), lambda _: lambda _: None)
    value = TransactionLogValue(5, 5, -1, 32_766, -1, 1_000, 1, [PartitionsSchema("t", [0])], 1, 1, 2)
    core.replay([(TransactionLogKey("x"), value)], START)
    core.loaded(START)
    due = core.next_deadline_ms()
    assert due is not None
    assert core.advance(Now(due, START.wall_ms + due)).records == []


def test_whose_producer_ids_these_are() -> None:
    value = TransactionLogValue(5, 4, 6, 1, -1, 60_000, 2, [PartitionsSchema("t", [0])], 1, 1, 2)
    bench = Bench([(TransactionLogKey("x"), value)])
    bench.init("y")
    assert bench.core.producers_among([3, 4, 5, 6, 7, 1_001, -1]) >= {4, 5, 6, 1_001}
    assert bench.core.producers_among([3, 7]) == set()


def test_after_resigning_nothing_falls_due() -> None:
    bench = Bench()
    assert bench.core.next_deadline_ms() is not None
    assert bench.core.resign(16).replies == ()
    assert bench.core.next_deadline_ms() is None


def test_a_request_of_another_kind_is_a_mistake() -> None:
    core = TransactionCore(TransactionSettings(), lambda _: lambda _: None)
    with pytest.raises(TypeError):
        core.handle(Command(HeartbeatRequest(), lambda _: None, Client("", "")), START)  # type: ignore[arg-type]


def test_timeouts_are_looked_for_soon_when_expired_ids_are_not() -> None:
    core = TransactionCore(TransactionSettings(), Bench().send_markers, first_check_ms=3_600_000)
    core.loaded(START)
    bench = Bench()
    bench.core = core
    bench.init(timeout_ms=5_000)
    bench.add((1_001, 0), {"t": [0]})
    due_ms = core.next_deadline_ms()
    assert due_ms is not None
    assert due_ms <= START.mono_ms + 10_000
