"""What durable means under both promises, and that nothing is acknowledged after a failure."""

from __future__ import annotations

import errno
from dataclasses import replace

from muster.coordinator.log import MemoryStorage
from muster.coordinator.log.storage.shared_sync import Waiters
from tests.coordinator.log.durability_harness import Calls, FailingStorage, synced_log
from tests.coordinator.log.support import SMALL, PendingResult, fill, manage

# -- waiters


def test_waiters_are_released_in_the_order_of_positions() -> None:
    waiters, calls = Waiters(), Calls()
    for name, position in [("b", 2), ("d", 4), ("a", 1), ("c", 2), ("e", 4)]:
        waiters.add(position, calls.named(name))
    waiters.release(0)
    assert calls == []
    waiters.release(3)
    assert [name for name, _ in calls] == ["a", "b", "c"]
    assert len(waiters.queue) == 2
    waiters.release(4)
    assert [name for name, _ in calls] == ["a", "b", "c", "d", "e"]


# -- the page cache's promise


def test_written_records_are_durable_if_syncs_are_not_waited_for() -> None:
    later, calls = PendingResult(), Calls()
    log = manage(MemoryStorage(), sync=later.sync).open_log("t", 0, config=SMALL)
    list(fill(log, 3))
    log.when_durable(3, calls.named("a"))
    assert calls == [("a", None)]
    assert later.jobs == []


# -- the disk's promise


def test_one_sync_serves_all_waiting_callers() -> None:
    later, calls = PendingResult(), Calls()
    log = synced_log(later)
    seen: list[int] = []
    log.on_append(lambda: seen.append(log.durable_offset))
    list(fill(log, 2))
    log.when_durable(1, calls.named("a"))
    log.when_durable(2, calls.named("b"))
    list(fill(log, 1))
    log.when_durable(3, calls.named("c"))
    assert len(later.jobs) == 1
    assert (log.durable_offset, calls) == (0, [])
    later.work()
    assert calls == []
    later.deliver()
    assert [name for name, _ in calls] == ["a", "b"]
    assert log.durable_offset == log.durability.recovery_point == 2
    assert len(later.jobs) == 1, "those that came meanwhile share the next one"
    later.settle()
    assert [name for name, _ in calls] == ["a", "b", "c"]
    assert log.durable_offset == 3
    assert seen == [0, 0, 0, 2, 3]
    log.when_durable(3, calls.named("d"))
    assert calls[-1] == ("d", None)
    assert later.jobs == []


def test_a_rolled_segment_is_synced_with_the_new_one() -> None:
    later, calls = PendingResult(), Calls()
    log = synced_log(later)
    list(fill(log, 60))
    assert len(log.segments) > 1
    log.when_durable(60, calls.named("a"))
    later.settle()
    assert calls == [("a", None)]
    assert log.durability.recovery_point == 60


def test_rolling_moves_the_recovery_point_also_without_waiting_for_syncs() -> None:
    later = PendingResult()
    log = manage(MemoryStorage(), sync=later.sync).open_log("t", 0, config=SMALL)
    list(fill(log, 60))
    later.settle()
    assert log.durability.recovery_point >= log.segments[-1].base_offset
    assert log.durability.recovery_point <= 60


def test_an_acknowledgement_waits_for_the_sync_of_flush_messages() -> None:
    later, calls = PendingResult(), Calls()
    log = manage(MemoryStorage(), sync=later.sync).open_log("t", 0, config=replace(SMALL, flush_messages=2))
    list(fill(log, 1))
    log.when_flushed(1, calls.named("first"))
    assert calls == [("first", None)]
    list(fill(log, 1))
    log.when_flushed(2, calls.named("second"))
    assert later.work() == 1
    list(fill(log, 2))  # while that sync runs, one more is requested
    log.when_flushed(4, calls.named("fourth"))
    later.deliver()
    assert [name for name, _ in calls] == ["first", "second"]
    list(fill(log, 1))
    log.when_flushed(5, calls.named("fifth"))
    assert [name for name, _ in calls] == ["first", "second", "fifth"]
    later.settle()
    assert calls[3:] == [("fourth", None)]
    list(fill(log, 1))
    later.jobs.clear()
    log.when_flushed(6, calls.named("sixth"))
    log.flush()
    assert calls[4:] == [("sixth", None)]


def test_records_that_must_be_on_disk_wait_for_a_sync_in_every_mode() -> None:
    later, calls = PendingResult(), Calls()
    log = manage(MemoryStorage(), sync=later.sync).open_log("t", 0, config=SMALL)
    list(fill(log, 2))
    log.when_durable(2, calls.named("acknowledged"))
    log.when_synced(2, calls.named("synced"))
    log.when_synced(1, calls.named("synced too"))
    assert [name for name, _ in calls] == ["acknowledged"]
    later.settle()
    assert calls[1:] == [("synced too", None), ("synced", None)]
    log.when_synced(2, calls.named("already"))
    list(fill(log, 1))
    log.when_synced(3, calls.named("failed"))
    log.go_offline("x", OSError(errno.EIO, "Input/output error"))
    log.when_synced(3, calls.named("offline"))
    assert calls[3] == ("already", None)
    assert [(name, outcome is not None) for name, outcome in calls[4:]] == [("failed", True), ("offline", True)]


def test_flush_messages_asks_for_a_sync() -> None:
    later = PendingResult()
    log = manage(MemoryStorage(), sync=later.sync).open_log("t", 0, config=replace(SMALL, flush_messages=3))
    list(fill(log, 2))
    assert later.jobs == []
    list(fill(log, 1))
    later.settle()
    assert log.durability.recovery_point == 3


def test_records_truncated_during_a_sync_are_not_durable() -> None:
    later, calls = PendingResult(), Calls()
    log = synced_log(later)
    list(fill(log, 4))
    log.when_durable(4, calls.named("a"))
    log.truncate(2)
    list(fill(log, 4))
    later.work()
    later.deliver()
    assert log.durable_offset == log.durability.recovery_point == 2
    assert calls == []
    later.settle()
    assert log.durable_offset == 6


def test_a_flush_releases_waiting_callers() -> None:
    later, calls = PendingResult(), Calls()
    log = synced_log(later)
    list(fill(log, 2))
    log.when_durable(2, calls.named("a"))
    log.flush()
    assert calls == [("a", None)]
    later.settle()
    assert len(calls) == 1


def test_closing_syncs_a_log_and_abandoning_fails_its_waiting_callers() -> None:
    for clean in (True, False):
        later, calls = PendingResult(), Calls()
        log = synced_log(later)
        list(fill(log, 2))
        log.when_durable(2, calls.named("a"))
        log.close() if clean else log.abandon()
        ((name, outcome),) = calls
        assert name == "a"
        assert (outcome is None) == clean
        later.settle()
        assert len(calls) == 1


def test_records_of_a_killed_process_are_durable_after_the_first_sync() -> None:
    later, calls, storage = PendingResult(), Calls(), FailingStorage()
    manager = manage(storage, sync=later.sync)
    list(fill(manager.open_log("t", 0, wait_for_sync=True), 3))
    manager.close(clean=False)
    later = PendingResult()
    manager = manage(storage, sync=later.sync)
    log = manager.open_log("t", 0, wait_for_sync=True)
    assert (log.end_offset, log.durable_offset) == (3, 0)
    log.when_durable(3, calls.named("a"))
    assert calls == []
    later.settle()
    assert calls == [("a", None)]
    assert log.durable_offset == 3
