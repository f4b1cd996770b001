"""The share coordinator's core: its answers and records are those of Kafka 4.4's ShareCoordinatorShard."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.share.in_flight import Row
from muster.coordinator.share_state.persister import StateKey, StateResponse, Summary
from muster.coordinator.share_state.requests import BACKWARDS
from muster.coordinator.state_machine.interface import EndTransaction, TransactionalBatch
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.share_records.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from muster.protocol.messages.share_records.share_update import ShareUpdateKey, ShareUpdateValue
from muster.protocol.messages.transaction_records.transaction_log import TransactionLogKey
from tests.coordinator.share_state.harness import KEY, START, TOPIC_ID, StateHarness

OK = StateResponse()
OTHER = StateKey("h", TOPIC_ID, 1)


def initialized(**settings: int) -> StateHarness:
    harness = StateHarness(**settings)
    assert harness.initialize() == OK
    return harness


def last_value(harness: StateHarness) -> Any:
    return harness.records[-1].value


# ---- the records


def test_an_initialized_state_is_a_snapshot() -> None:
    harness = StateHarness()
    assert harness.initialize(3, -1) == OK
    ((key, value, version),) = harness.records
    assert key == ShareSnapshotKey("g", TOPIC_ID, 0)
    assert value == ShareSnapshotValue(0, 3, 0, -1, -1, START.wall_ms, START.wall_ms, [])
    assert version == 0
    assert harness.initialize(3, 7) == OK
    assert last_value(harness) == ShareSnapshotValue(1, 3, 0, 7, 0, START.wall_ms, START.wall_ms, [])


def test_a_write_is_an_update_with_only_its_own_rows() -> None:
    harness = initialized()
    assert harness.write((0, 4, 2, 1), (5, 9, 2, 1), done=10) == OK
    assert harness.records[-1].key == ShareUpdateKey("g", TOPIC_ID, 0)
    value = last_value(harness)
    assert (value.snapshot_epoch, value.leader_epoch, value.start_offset) == (0, 0, 0)
    assert [(one.first_offset, one.last_offset) for one in value.state_batches] == [(0, 9)]
    harness.write((20, 20, 0, 2))
    assert harness.read().rows == [Row(0, 9, 2, 1), Row(20, 20, 0, 2)]


def test_after_enough_updates_a_snapshot_has_the_whole_state() -> None:
    harness = initialized(share_coordinator_snapshot_update_records_per_snapshot=2)
    for first in (0, 10, 20, 30):
        harness.write((first, first, 2, 1))
    kinds = [type(record.key) for record in harness.records]
    assert kinds == [ShareSnapshotKey, ShareUpdateKey, ShareUpdateKey, ShareSnapshotKey, ShareUpdateKey]
    value: Any = harness.records[3].value
    assert (value.snapshot_epoch, [one.first_offset for one in value.state_batches]) == (1, [0, 10, 20])


def test_the_start_offset_never_goes_back_and_cuts_off_rows() -> None:
    harness = initialized()
    harness.write((0, 9, 2, 1), start=5, done=5)
    assert harness.summary() == Summary(0, None, 1, 0, 5, 5)
    harness.write(start=3, done=1)
    harness.write(start=5, done=2)
    assert harness.summary() == Summary(0, None, 1, 0, 5, 5)
    assert harness.read().rows == [Row(5, 9, 2, 1)]
    harness.write(start=8, done=1)
    assert harness.summary() == Summary(0, None, 1, 0, 8, 1)


def test_the_leader_of_the_partition_may_choose_the_start_offset() -> None:
    harness = StateHarness()
    harness.initialize(1, -1)
    harness.write((3, 4, 2, 1), done=-1)
    assert harness.read().rows == [Row(3, 4, 2, 1)]
    harness.write(start=4, done=1)
    assert harness.summary() == Summary(0, None, 1, 0, 4, 1)


def test_a_read_with_a_new_leader_epoch_fences_earlier_leaders() -> None:
    harness = initialized()
    harness.write((0, 3, 0, 1), done=0)
    before = len(harness.records)
    loaded = harness.read(4)
    assert (loaded.state_epoch, loaded.start_offset, loaded.rows) == (1, 0, [Row(0, 3, 0, 1)])
    assert last_value(harness) == ShareUpdateValue(0, 4, 0, 0, [])
    assert harness.read(4) == loaded
    assert len(harness.records) == before + 1
    assert harness.write((0, 0, 2, 1), leader_epoch=3).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert harness.read(3).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert harness.write((0, 0, 2, 1), leader_epoch=4) == OK
    assert harness.summary().leader_epoch == 4


def test_a_deleted_state_has_a_tombstone() -> None:
    harness = initialized()
    assert harness.delete() == OK
    assert tuple(harness.records[-1]) == (ShareSnapshotKey("g", TOPIC_ID, 0), None, 0)
    assert harness.delete() == OK
    assert len(harness.records) == 2
    assert harness.summary() == Summary()


def test_states_of_deleted_topics_are_forgotten() -> None:
    harness = initialized()
    harness.forget(KEY, OTHER)
    assert harness.records[-1].value is None
    assert len(harness.records) == 2


# ---- refusals


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda h: h.initialize(key=KEY._replace(partition=-1)), 42, "The partition id cannot be a negative number."),
        (lambda h: h.initialize(-1), 42, "The state epoch cannot be a negative number."),
        (lambda h: h.initialize(0), 124, "The coordinator rejected the request because the state epoch did not match."),
        (lambda h: h.read(-1), 42, "The leader epoch cannot be a negative number."),
        (lambda h: h.read(key=OTHER), 42, "Read operation on uninitialized share partition not allowed."),
        (lambda h: h.write(key=OTHER), 42, "Write operation on uninitialized share partition not allowed."),
        (lambda h: h.write(leader_epoch=-1), 42, "The leader epoch cannot be a negative number."),
        (lambda h: h.write(state_epoch=-1), 42, "The state epoch cannot be a negative number."),
        (lambda h: h.write(state_epoch=0), 124, None),
        (lambda h: h.write((5, 4, 0, 1)), 42, BACKWARDS),
        (lambda h: h.delete(KEY._replace(partition=-1)), 42, "The partition id cannot be a negative number."),
        (lambda h: h.delete(KEY._replace(partition=2)), 3, "This server does not host this topic-partition."),
        (lambda h: h.summary(KEY._replace(partition=2)), 3, "This server does not host this topic-partition."),
        (lambda h: h.initialize(key=KEY._replace(partition=2)), 3, None),
    ],
)  # fmt: skip
def test_a_refusal_writes_nothing(ask: Any, error: int, message: str | None) -> None:
    harness = initialized()
    answer = ask(harness)
    assert answer.error_code == error
    assert message is None or answer.error_message == message
    assert len(harness.records) == 1


def test_a_state_that_does_not_fit_into_a_record_is_refused() -> None:
    harness = initialized()
    harness.max_bytes = 1_000
    rows = [(first, first, 2, 1) for first in range(0, 100, 2)]
    assert harness.write(*rows).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert harness.write(*rows[:20]) == OK


# ---- periodic work


def test_unneeded_records_are_deleted_once_a_new_snapshot_stands_behind_them() -> None:
    harness = initialized(share_coordinator_snapshot_update_records_per_snapshot=1)
    harness.write((0, 0, 2, 1))
    harness.advance(300_000)
    assert harness.pruned_to == 0
    harness.write((1, 1, 2, 1))
    harness.advance(600_000)
    assert harness.pruned_to >= 2
    before = harness.state()
    harness.load(harness.pruned_to)
    kept = {name: place for place, name in enumerate(harness.core.states.partitions[KEY].__slots__)}
    for name in ("start_offset", "rows", "state_epoch", "snapshot_epoch", "done_count"):
        assert harness.state()[KEY][kept[name]] == before[KEY][kept[name]]


def test_cold_partitions_get_new_snapshots_as_long_as_others_change() -> None:
    harness = initialized()
    harness.initialize(key=OTHER)
    harness.write((0, 4, 2, 1), (9, 9, 0, 1))
    harness.advance(300_000)
    snapshots = harness.records[3:]
    assert [record.key for record in snapshots] == [ShareSnapshotKey(*KEY), ShareSnapshotKey(*OTHER)]
    value: Any = snapshots[0].value
    assert (value.snapshot_epoch, len(value.state_batches)) == (1, 2)
    assert value.write_timestamp - value.create_timestamp == 300_000
    harness.advance(900_000)
    assert len(harness.records) == 5
    assert harness.pruned_to == 3


def test_a_partition_with_a_new_snapshot_is_not_cold() -> None:
    harness = initialized()
    harness.advance(200_000)
    harness.initialize(key=OTHER)
    harness.advance(100_000)
    assert [record.key for record in harness.records[2:]] == [ShareSnapshotKey(*KEY)]


def test_many_cold_partitions_are_checked_in_several_steps() -> None:
    harness = StateHarness()
    harness.partitions = 5_000
    for partition in range(2_500):
        harness.initialize(key=StateKey("g", TOPIC_ID, partition))
    harness.advance(299_999)
    harness._move(harness.now.mono_ms + 1)
    harness.collect(harness.core.advance(harness.now))
    assert len(harness.records) < 4_000
    harness.delete(StateKey("g", TOPIC_ID, 2_499))
    harness.advance(10)
    assert len(harness.records) == 2_500 + 1 + 2_499


# ---- loading


def test_updates_without_their_snapshot_are_a_state() -> None:
    harness = initialized()
    harness.write((0, 4, 2, 1), start=0, done=5)
    harness.load(1)
    assert harness.read().rows == [Row(0, 4, 2, 1)]
    assert harness.summary() == Summary(0, None, 0, 0, 0, 5)
    harness.advance(700_000)


def test_other_records_change_nothing() -> None:
    harness = initialized()
    foreign = (TransactionLogKey("x"), None)
    update: Any = (ShareUpdateKey(*KEY), ShareUpdateValue(0, -1, -1, 7, []))
    assert harness.core.replay([foreign, (ShareUpdateKey(*KEY), None)], START) == 2
    assert harness.core.replay_transactional(TransactionalBatch(1, 0, 0, [update]), START) == 1
    assert list(harness.core.end_transaction(EndTransaction(1, 0, True), START)) == []
    assert harness.summary() == Summary(0, None, 1, 0, 0, 7)
    assert harness.core.states.next_offset == 4
    assert harness.core.resign(16).replies == []
    assert harness.core.next_deadline_ms() is None
