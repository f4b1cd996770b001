"""The life of transactions through the core."""

from __future__ import annotations

import pytest

from muster.coordinator.core.interface import Client, Command, Now
from muster.coordinator.transactions import events
from muster.coordinator.transactions.core import TransactionCore
from muster.coordinator.transactions.settings import TransactionSettings
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.transaction_records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from muster.protocol.messages.write_txn_markers import WritableTxnMarker
from tests.coordinator.transactions.harness import START, Desk


def test_a_transaction_of_an_old_client() -> None:
    desk = Desk()
    assert desk.init() == (0, 1_001, 0)
    assert desk.add((1_001, 0), {"t": [0, 1]}) == 0
    assert desk.end((1_001, 0), version=0) == (0, -1, -1)
    marker = desk.markers["x"]
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (1_001, 0, True)
    assert marker.transaction_version == 0
    assert {topic.name: sorted(topic.partition_indexes) for topic in marker.topics} == {"t": [0, 1]}
    assert desk.one().state == "PrepareCommit"
    desk.written()
    assert (desk.one().state, desk.one().producer_epoch) == ("CompleteCommit", 0)
    assert [record.value.transaction_status for record in desk.records if record.value] == [0, 1, 2, 4]
    assert desk.kinds() == [
        events.INITIALIZED,
        events.BEGUN,
        events.PARTITIONS_ADDED,
        events.ENDING,
        events.COMMITTED,
    ]


def test_a_transaction_of_a_new_client_gives_the_next_epoch() -> None:
    desk = Desk()
    desk.init()
    assert desk.add((1_001, 0), version=2) == 0
    assert desk.end((1_001, 0)) == (0, 1_001, 1)
    marker = desk.markers["x"]
    assert (marker.producer_epoch, marker.transaction_version) == (1, 2)
    desk.written()
    assert desk.add((1_001, 1), version=2) == 0
    assert desk.add((1_001, 0), version=2) == ErrorCode.PRODUCER_FENCED
    assert desk.end((1_001, 1), commit=False) == (0, 1_001, 2)
    assert desk.markers["x"].transaction_result is False
    desk.written()
    assert desk.one().state == "CompleteAbort"


def test_markers_of_another_transaction_are_ignored() -> None:
    desk = Desk()
    desk.init()
    desk.add((1_001, 0), version=2)
    desk.end((1_001, 0))
    desk.markers["x"].producer_epoch = 0
    desk.written()
    assert desk.one().state == "PrepareCommit"
    desk.markers["gone"] = WritableTxnMarker()
    desk.written("gone")
    assert desk.core.transactional_id_count == 1


def test_what_was_about_to_end_gets_its_markers_again_after_a_load() -> None:
    desk = Desk()
    desk.init()
    desk.add((1_001, 0), {"t": [0], "u": [3]})
    desk.end((1_001, 0), version=0)
    desk.init("y")
    desk.restart()
    marker = desk.markers["x"]
    assert marker.transaction_result is True
    desk.written()
    assert desk.one().state == "CompleteCommit"
    assert desk.events[-1].facts["cause"] is None
    desk.restart()
    assert desk.markers == {}


def test_what_was_about_to_end_without_partitions_is_complete_after_a_load() -> None:
    value = TransactionLogValue(5, 5, -1, 1, -1, 60_000, 3, [], 1, 1, 2)
    desk = Desk([(TransactionLogKey("x"), value)])
    assert desk.markers == {}
    assert desk.one().state == "CompleteAbort"
    assert [record.value.transaction_status for record in desk.records if record.value] == [5]


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
    desk = Desk([(TransactionLogKey("x"), value)])
    desk.init("y")
    assert desk.core.producers_among([3, 4, 5, 6, 7, 1_001, -1]) >= {4, 5, 6, 1_001}
    assert desk.core.producers_among([3, 7]) == set()


def test_after_resigning_nothing_falls_due() -> None:
    desk = Desk()
    assert desk.core.next_deadline_ms() is not None
    assert desk.core.resign(16).replies == ()
    assert desk.core.next_deadline_ms() is None


def test_a_request_of_another_kind_is_a_mistake() -> None:
    core = TransactionCore(TransactionSettings(), lambda _: lambda _: None)
    with pytest.raises(TypeError):
        core.handle(Command(HeartbeatRequest(), lambda _: None, Client("", "")), START)  # type: ignore[arg-type]


def test_timeouts_are_looked_for_soon_when_expired_ids_are_not() -> None:
    core = TransactionCore(TransactionSettings(), Desk().send_markers, first_check_ms=3_600_000)
    core.loaded(START)
    desk = Desk()
    desk.core = core
    desk.init(timeout_ms=5_000)
    desk.add((1_001, 0), {"t": [0]})
    due_ms = core.next_deadline_ms()
    assert due_ms is not None
    assert due_ms <= START.mono_ms + 10_000
