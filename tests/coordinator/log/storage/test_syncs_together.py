"""Syncs of many logs: in threads, for the whole file system, and with their results together."""

from __future__ import annotations

import asyncio
import errno
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from muster.coordinator.log import FileStorage, FilesystemSync, LogOffline, SharedSync
from muster.coordinator.log.storage.shared_sync import GATHER_MS
from tests.coordinator.log.durability_harness import Calls, synced_log
from tests.coordinator.log.support import PendingResult, fill, manage

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
