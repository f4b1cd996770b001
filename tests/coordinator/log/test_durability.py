"""What durable means under both promises, and that nothing is acknowledged after a failure."""

from __future__ import annotations

import asyncio
import errno
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog

from muster.coordinator.log import FileStorage, FilesystemSync, LogOffline, MemoryStorage, SharedSync, UnifiedLog
from muster.coordinator.log.storage.shared_sync import GATHER_MS, Waiters
from tests.coordinator.log.support import NOW, SMALL, PendingResult, batch, everything, fill, manage


class Calls(list[tuple[str, LogOffline | None]]):
    def named(self, name: str):
        return lambda outcome: self.append((name, outcome))


def synced_log(later: PendingResult, storage: MemoryStorage | None = None) -> UnifiedLog:
    manager = manage(storage or MemoryStorage(), sync=later.sync)
    return manager.open_log("t", 0, config=SMALL, wait_for_sync=True)


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


# -- failures


class FailingFile:
    """A file whose writes or syncs fail when a test sets them to fail."""

    def __init__(self, storage: MemoryStorage, path: str) -> None:
        self._file = MemoryStorage.file(storage, path)
        self.failing: str | None = None
        self.short = 0
        self.syncs = 0

    def __getattr__(self, name: str):
        return getattr(self._file, name)

    def pwrite(self, data: bytes, position: int) -> None:
        if self.failing == "write":
            self._file.pwrite(bytes(data)[: self.short], position)
            raise OSError(errno.ENOSPC, "No space left on device")
        self._file.pwrite(data, position)

    def pwrite_parts(self, parts: list[bytes], position: int) -> None:
        self.pwrite(b"".join(parts), position)

    def sync(self) -> None:
        self.syncs += 1
        if self.failing == "sync":
            raise OSError(errno.EIO, "Input/output error")

    def pread(self, count: int, position: int) -> bytes:
        if self.failing == "read":
            raise OSError(errno.EIO, "Input/output error")
        return self._file.pread(count, position)


class FailingStorage(MemoryStorage):
    def __init__(self) -> None:
        super().__init__()
        self.made: list[FailingFile] = []

    def file(self, path: str) -> FailingFile:
        self.made.append(FailingFile(self, path))
        return self.made[-1]


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


# -- real threads and a real loop


async def test_syncs_run_in_threads_and_report_on_the_event_loop(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    sync = SharedSync(loop.call_soon_threadsafe)
    log = manage(FileStorage(tmp_path), sync=sync).open_log("t", 0, wait_for_sync=True)
    list(fill(log, 5))
    done: asyncio.Future[tuple[LogOffline | None, str]] = loop.create_future()
    log.when_durable(5, lambda outcome: done.set_result((outcome, threading.current_thread().name)))
    assert log.durable_offset == 0
    assert await asyncio.wait_for(done, 10) == (None, threading.main_thread().name)
    assert log.durable_offset == 5
    sync.close()
    sync.close()


async def test_the_result_of_a_sync_after_the_loops_end_is_ignored(tmp_path: Path) -> None:
    def closed(callback: object) -> None:
        raise RuntimeError("Event loop is closed")

    sync = SharedSync(closed)
    ran = threading.Event()
    sync.run(ran.set, lambda failure: None)
    sync.close()
    assert ran.is_set()


def test_results_of_syncs_are_delivered_together_and_a_fault_in_one_stops_no_other() -> None:
    later, results = PendingResult(), []

    def fail(_: OSError | None) -> None:
        raise RuntimeError("a bug")

    for done in (results.append, fail, results.append):
        later.sync.run(lambda: None, done)
    later.work()
    assert len(later.outcomes) == 1
    with pytest.raises(RuntimeError, match="a bug"):
        later.deliver()
    later.settle()
    assert results == [None, None]


class TestManyAtOnce:
    """Logs with an object that syncs all files at once."""

    def asked(self, later: PendingResult, results: list[Any], names: str, *, bad: str = "") -> list[str]:
        done: list[str] = []

        def job(name: str) -> None:
            done.append(name)
            if name == bad:
                raise OSError(errno.EIO, name)

        for name in names:
            asked = partial(job, name), lambda failure, name=name: results.append((name, failure))
            later.sync.sync(lambda asked=asked: asked)
        return done

    def test_few_files_are_synced_and_fail_separately(self) -> None:
        later, results, all_of_them = PendingResult(), [], []
        later.share(lambda: all_of_them.append(1))
        done = self.asked(later, results, "ab", bad="a")
        later.settle()
        assert (done, all_of_them) == (["a", "b"], [])
        assert [(name, failure is not None) for name, failure in results] == [("a", True), ("b", False)]

    def test_many_files_share_one_filesystem_sync(self) -> None:
        later, results, all_of_them = PendingResult(), [], []
        later.share(lambda: all_of_them.append(1))
        done = self.asked(later, results, "abcd")
        later.settle()
        assert (done, all_of_them) == ([], [1])
        assert results == [(name, None) for name in "abcd"]

    def test_a_failed_filesystem_sync_fails_all_its_files(self) -> None:
        later, results = PendingResult(), []

        def fail() -> None:
            raise OSError(errno.EIO, "Input/output error")

        later.share(fail)
        self.asked(later, results, "abc")
        later.settle()
        assert [(name, type(failure)) for name, failure in results] == [(name, OSError) for name in "abc"]

    def test_a_file_added_during_a_sync_round_is_in_the_next_round(self) -> None:
        later, results, all_of_them = PendingResult(), [], []
        later.share(lambda: all_of_them.append(len(results)))
        self.asked(later, results, "abc")
        later.begin()
        self.asked(later, results, "defg")
        later.work()
        assert (all_of_them, results) == ([0], [])
        later.deliver()
        assert [name for name, _ in results] == ["a", "b", "c"]
        later.settle()
        assert all_of_them == [0, 3]
        assert [name for name, _ in results] == list("abcdefg")
        self.asked(later, results, "h")
        later.settle()
        assert results[-1] == ("h", None)

    def test_a_file_added_during_a_failing_sync_round_fails_too(self) -> None:
        # the system reports a failed write once, to whoever asks first
        later, results, outcomes = PendingResult(), [], iter([OSError(errno.EIO, "Input/output error"), None])

        def sync_all() -> None:
            outcome = next(outcomes)
            if outcome is not None:
                raise outcome

        later.share(sync_all)
        self.asked(later, results, "abc")
        later.begin()
        self.asked(later, results, "def")
        later.settle()
        assert [(name, failure is not None) for name, failure in results] == [(name, True) for name in "abcdef"]
        self.asked(later, results, "ghi")
        later.settle()
        assert results[6:] == [(name, None) for name in "ghi"]

    def test_a_sync_round_waits_shortly_for_further_files(self) -> None:
        later, results, all_of_them = PendingResult(), [], []
        later.share(lambda: all_of_them.append(len(results)))
        for names in ("ab", "c", "", "d", ""):
            self.asked(later, results, names)
            later.deliver()
            assert later.jobs == []
        later.deliver()
        assert len(later.jobs) == 1
        later.settle()
        assert all_of_them == [0]
        assert [name for name, _ in results] == list("abcd")

    def test_a_sync_round_waits_for_further_files_only_shortly(self) -> None:
        later, results, all_of_them = PendingResult(), [], []
        later.share(lambda: all_of_them.append(len(results)))
        for turn in range(GATHER_MS):
            self.asked(later, results, "abc" if turn == 0 else "d")
            later.deliver()
            assert later.jobs == []
            later.clock.advance(1)
        self.asked(later, results, "z")
        later.deliver()
        assert len(later.jobs) == 1

    def test_writes_before_the_start_of_a_sync_are_included(self) -> None:
        later, calls = PendingResult(), Calls()
        later.share(lambda: None)
        log = synced_log(later)
        list(fill(log, 1))
        log.when_durable(1, calls.named("a"))
        later.deliver()
        list(fill(log, 1))
        log.when_durable(2, calls.named("b"))
        later.begin()
        list(fill(log, 1))
        log.when_durable(3, calls.named("c"))
        later.work()
        later.deliver()
        later.deliver()
        assert [name for name, _ in calls] == ["a", "b"]
        later.settle()
        assert [name for name, _ in calls] == ["a", "b", "c"]

    def test_no_sync_begins_after_the_end(self) -> None:
        later, results = PendingResult(), []
        later.share(lambda: None)
        done = self.asked(later, results, "a")
        later.sync.close()
        later.settle()
        assert (done, results) == ([], [])


def test_a_file_system_can_be_synced_as_a_whole(tmp_path: Path) -> None:
    if not FilesystemSync.is_reliable():
        pytest.skip("this system has no syncfs, or one that does not tell of failures")
    filesystem = FilesystemSync(tmp_path)
    (tmp_path / "file").write_bytes(b"x")
    filesystem.sync()
    filesystem.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        filesystem.sync()
