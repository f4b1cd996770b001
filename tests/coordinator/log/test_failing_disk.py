"""What a log does when its disk fails: nothing is acknowledged that may be lost."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest
import structlog

from muster.coordinator.log import LogOffline, MemoryStorage
from tests.coordinator.log.durability_harness import Calls, FailingStorage
from tests.coordinator.log.support import NOW, SMALL, PendingResult, batch, everything, fill, manage


@pytest.mark.parametrize("how", ["sync", "closed"])
def test_a_failed_sync_of_flush_messages_acknowledges_nothing(how: str) -> None:
    later, calls = PendingResult(), Calls()
    manager = manage(MemoryStorage(), sync=later.sync)
    log = manager.open_log("t", 0, config=replace(SMALL, flush_messages=1))
    list(fill(log, 1))
    log.when_flushed(1, calls.named("early"))
    if how == "sync":
        log.go_offline("x", OSError(errno.EIO, "Input/output error"))
    else:
        log.abandon()
    log.when_flushed(1, calls.named("late"))
    assert [(name, outcome is not None) for name, outcome in calls] == [("early", True), ("late", True)]
    # a client that asks again gets the answer once the record is synced
    later.settle()
    again = manager.reopen("t", 0)
    again.when_flushed(1, calls.named("again"))
    assert len(calls) == 2
    later.settle()
    assert calls[2:] == [("again", None)]


@pytest.mark.parametrize("size", [10, 40_000])
def test_a_failed_write_takes_the_log_offline_until_it_is_reopened(size: int) -> None:
    storage = FailingStorage()
    manager = manage(storage)
    log = manager.open_log("t", 0)
    content = list(fill(log, 3))
    storage.made[-1].failing, storage.made[-1].short = "write", 30
    with structlog.testing.capture_logs() as logged, pytest.raises(LogOffline, match="No space left") as failed:
        log.append(0, batch(b"x" * size), wall_ms=NOW)
    assert failed.value.error_code == 56
    assert [line["event"] for line in logged] == ["a log is offline"]
    storage.made[-1].failing = None
    with pytest.raises(LogOffline, match="No space left"):
        log.append(0, batch(b"y"), wall_ms=NOW)
    assert log.end_offset == 3
    assert [value for _, value in everything(log)] == content, "what is there can still be read"
    again = manager.reopen("t", 0)
    assert again is manager.get("t", 0)
    assert again is not log
    assert [value for _, value in everything(again)] == content
    assert again.append(0, batch(b"z"), wall_ms=NOW).base_offset == 3


def test_a_failed_sync_acknowledges_nothing() -> None:
    later, calls, storage = PendingResult(), Calls(), FailingStorage()
    manager = manage(storage, sync=later.sync)
    log = manager.open_log("t", 0, wait_for_sync=True)
    list(fill(log, 2))
    log.when_durable(1, calls.named("a"))
    log.when_durable(2, calls.named("b"))
    storage.made[-1].failing = "sync"
    later.settle()
    assert [(name, type(outcome)) for name, outcome in calls] == [("a", LogOffline), ("b", LogOffline)]
    assert log.durable_offset == 0
    log.when_durable(2, calls.named("c"))
    assert calls[-1][1] is log.failure
    with pytest.raises(LogOffline):
        list(fill(log, 1))
    storage.made[-1].failing = None
    again = manager.reopen("t", 0)
    assert again.durability.waits_for_sync
    # the system may call bytes clean that a failed sync has lost: bytes that were never acknowledged are gone
    assert again.end_offset == again.durable_offset == 0


def test_a_reopened_log_is_not_made_durable_by_an_old_sync() -> None:
    later, calls, storage = PendingResult(), Calls(), FailingStorage()
    manager = manage(storage, sync=later.sync)
    log = manager.open_log("t", 0, wait_for_sync=True)
    list(fill(log, 2))
    log.when_durable(2, calls.named("a"))
    again = manager.reopen("t", 0)
    list(fill(again, 1))
    before = [file.syncs for file in storage.made]
    later.settle()  # the older writer syncs now: nobody would get the error that it met
    assert [file.syncs for file in storage.made] == before
    again.when_durable(1, calls.named("b"))
    later.settle()
    assert [(name, type(outcome)) for name, outcome in calls] == [("a", LogOffline), ("b", type(None))]


def test_records_found_at_the_start_are_kept_if_the_first_sync_fails() -> None:
    later, calls, storage = PendingResult(), Calls(), FailingStorage()
    manager = manage(storage, sync=later.sync)
    kept = list(fill(manager.open_log("t", 0, wait_for_sync=True), 3))
    manager.close(clean=False)
    later = PendingResult()
    manager = manage(storage, sync=later.sync)
    log = manager.open_log("t", 0, wait_for_sync=True)
    for expected in (kept, kept):
        list(fill(log, 2))
        log.when_durable(log.end_offset, calls.named("a"))
        for file in storage.made:
            file.failing = "sync"
        later.settle()
        for file in storage.made:
            file.failing = None
        log = manager.reopen("t", 0)
        assert [value for _, value in everything(log)] == expected
    log.when_durable(3, calls.named("b"))
    later.settle()
    assert calls[-1] == ("b", None)


def test_a_failed_flush_makes_the_stop_unclean() -> None:
    storage = FailingStorage()
    manager = manage(storage)
    list(fill(manager.open_log("t", 0), 2))
    storage.made[-1].failing = "sync"
    manager.close()
    assert storage.load(".kafka_cleanshutdown") is None
    assert not storage.locked


def test_the_error_of_a_failed_read_names_the_place() -> None:
    storage = FailingStorage()
    log = manage(storage).open_log("t", 0)
    list(fill(log, 2))
    storage.made[-1].failing = "read"
    with pytest.raises(LogOffline, match="Input/output error"):
        log.read(0, 100)
    assert log.failure is None


def test_a_failed_roll_takes_the_log_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    log = manage(storage).open_log("t", 0, config=SMALL)
    list(fill(log, 2))

    def full(path: str, data: bytes, *, sync: bool = False) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(storage, "save", full)
    with pytest.raises(LogOffline):
        log.roll(NOW)
    with pytest.raises(LogOffline):
        log.append(0, batch(b"x"), wall_ms=NOW)


def test_a_leader_epoch_that_cannot_be_written_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    log = manage(storage).open_log("t", 0, config=SMALL)
    monkeypatch.setattr(storage, "save", lambda *args, **more: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with pytest.raises(LogOffline):
        log.begin_epoch(3)
    assert log.failure is not None
