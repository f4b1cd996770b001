"""A data directory disappears while the server runs. Nothing is acknowledged that is lost with it, nothing is written
into another directory, and the server continues when the directory is back.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from muster.coordinator.log import DamagedLog, FileStorage, LogManager, LogOffline, UnifiedLog, maintenance
from muster.coordinator.log.maintenance import CHECK_EVERY_MS, DirectoryMonitor, monitoring
from muster.coordinator.system.clock import ManualClock
from tests.coordinator.log.support import NOW, PendingResult, batch, everything, manage


class Running:
    """A manager on a directory that is monitored."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.later, self.clock = PendingResult(), ManualClock(0, NOW)
        self.manager: LogManager = manage(FileStorage(root), sync=self.later.sync)
        self.monitor = DirectoryMonitor(self.manager, self.clock, self.later.sync)
        self.monitor.start()

    def log(self, index: int = 0, *, synced: bool) -> UnifiedLog:
        return self.manager.open_log("t", index, topic_id=b"t" * 16, wait_for_sync=synced)

    def look(self) -> list[str]:
        """Run one check; the lines that it logged."""
        with capture_logs() as logged:
            self.clock.advance(CHECK_EVERY_MS)
            self.later.settle()
        return [line["event"] for line in logged]


def removed(root: Path) -> None:
    shutil.rmtree(root)


def moved(root: Path) -> None:
    root.rename(root.with_name("elsewhere"))


def replaced(root: Path) -> None:
    moved(root)
    root.mkdir()


@pytest.mark.parametrize("synced", [True, False])
@pytest.mark.parametrize("away", [removed, moved, replaced])
def test_every_log_goes_offline_with_its_directory_in_one_log_line(
    tmp_path: Path, away: Callable[[Path], None], synced: bool
) -> None:
    running = Running(tmp_path / "data")
    logs = [running.log(index, synced=synced) for index in range(3)]
    assert running.look() == []
    away(running.root)
    assert running.look() == ["the data directory is gone"]
    assert running.look() == []
    for log in logs:
        with pytest.raises(LogOffline):
            log.append(0, batch(b"x"), wall_ms=NOW)
    with pytest.raises(LogOffline):
        running.log(7, synced=synced)
    with pytest.raises(LogOffline):
        running.manager.reopen("t", 0)
    running.manager.close()
    if away is replaced:
        assert list(running.root.iterdir()) == []


@pytest.mark.parametrize("away", [removed, moved, replaced])
def test_a_sync_acknowledges_nothing_once_the_directory_is_gone(tmp_path: Path, away: Callable[[Path], None]) -> None:
    running = Running(tmp_path / "data")
    log = running.log(synced=True)
    reported: list[LogOffline | None] = []
    log.append(0, batch(b"1"), wall_ms=NOW)
    log.when_durable(1, reported.append)
    running.later.settle()
    assert reported == [None]
    away(running.root)
    log.append(0, batch(b"2"), wall_ms=NOW)
    log.when_durable(2, reported.append)
    with capture_logs() as lines:
        running.later.settle()
    assert isinstance(reported[1], LogOffline)
    assert lines == []  # the check logs it, for all logs
    assert running.look() == ["the data directory is gone"]
    running.manager.close()


def test_a_sync_of_many_logs_fails_when_the_directory_is_gone(tmp_path: Path) -> None:
    running = Running(tmp_path / "data")
    running.later.share(lambda: None)
    running.manager.share_sync(lambda: None, running.later.clock)
    logs = [running.log(index, synced=True) for index in range(5)]
    moved(running.root)
    reported: list[LogOffline | None] = []
    for log in logs:
        log.append(0, batch(b"2"), wall_ms=NOW)
        log.when_durable(1, reported.append)
    running.later.settle()
    assert [type(one) for one in reported] == [LogOffline] * 5
    running.manager.close()


@pytest.mark.parametrize("synced", [True, False])
@pytest.mark.parametrize("away", [moved, replaced])
def test_logs_continue_when_the_directory_returns(tmp_path: Path, away: Callable[[Path], None], synced: bool) -> None:
    running = Running(tmp_path / "data")
    log = running.log(synced=synced)
    log.append(0, batch(b"before"), wall_ms=NOW)
    running.later.settle()
    away(running.root)
    log.append(0, batch(b"unseen"), wall_ms=NOW)  # no check has run yet: the write goes where the directory went
    assert running.look() == ["the data directory is gone"]
    if away is replaced:
        running.root.rmdir()
    running.root.with_name("elsewhere").rename(running.root)
    assert running.look() == ["the data directory is back"]
    log.append(0, batch(b"after"), wall_ms=NOW)
    running.later.settle()
    running.manager.close()
    again = manage(FileStorage(running.root))
    assert not again.needs_recovery
    assert [value for _, value in everything(again.open_log("t", 0))] == [b"before", b"unseen", b"after"]
    again.close()


@pytest.mark.parametrize("synced", [True, False])
def test_a_log_whose_files_were_removed_stays_offline(tmp_path: Path, synced: bool) -> None:
    running = Running(tmp_path / "data")
    gone, kept = running.log(0, synced=synced), running.log(1, synced=synced)
    gone.append(0, batch(b"x"), wall_ms=NOW)
    running.later.settle()
    shutil.rmtree(running.root / "t-0")
    reported: list[LogOffline | None] = []
    gone.append(0, batch(b"y"), wall_ms=NOW)
    gone.when_durable(2, reported.append)
    running.later.settle()
    assert [type(one) for one in reported] == ([LogOffline] if synced else [type(None)])
    assert running.look() == ([] if synced else ["a log is offline"])
    assert gone.failure is not None
    assert kept.failure is None
    with pytest.raises(DamagedLog, match="removed while the server ran"):
        running.manager.reopen("t", 0)
    assert not (running.root / "t-0").exists()
    assert ("t", 0) in running.manager.offline
    running.manager.close()


def test_the_monitor_checks_a_few_logs_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "LOGS_EACH", 3)
    running = Running(tmp_path / "data")
    logs = [running.log(index, synced=False) for index in range(5)]
    shutil.rmtree(running.root / "t-0")
    shutil.rmtree(running.root / "t-4")
    assert running.look() == ["a log is offline"]
    assert [log.failure is None for log in (logs[0], logs[-1])] == [False, True]
    assert running.look() == ["a log is offline"]
    running.manager.close()


def test_the_monitor_goes_on_with_its_walk_and_copies_no_list_of_all_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The monitor once copied the list of 60,000 logs each second, which blocked the event loop for 12 ms."""
    monkeypatch.setattr(maintenance, "LOGS_EACH", 2)
    running = Running(tmp_path / "data")
    logs = [running.log(index, synced=False) for index in range(10)]
    walk, seen = running.manager.logs, list[list[UnifiedLog]]()

    def watched() -> Iterator[UnifiedLog]:
        seen.append([])
        for log in walk():
            seen[-1].append(log)
            yield log

    monkeypatch.setattr(running.manager, "logs", watched)
    for number in range(1, 11):
        assert running.look() == []
        assert sum(map(len, seen)) == 2 * number  # no log more than the check needs
    assert seen == [logs, logs]
    running.manager.close()


def test_the_monitor_leaves_out_logs_that_were_deleted_during_its_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "LOGS_EACH", 1)
    running = Running(tmp_path / "data")
    for index in range(3):
        running.log(index, synced=False)
    assert running.look() == []
    running.manager.delete("t", 1)
    for _ in range(5):
        assert running.look() == []
    running.manager.close()


def test_a_log_with_a_new_segment_is_not_treated_as_removed(tmp_path: Path) -> None:
    running = Running(tmp_path / "data")
    log = running.log(synced=True)
    log.append(0, batch(b"x"), wall_ms=NOW)
    running.clock.advance(CHECK_EVERY_MS)  # a check has begun
    log.restart_at(5)
    running.later.settle()
    assert log.failure is None
    running.manager.close()


def test_the_monitor_does_nothing_after_the_end(tmp_path: Path) -> None:
    running = Running(tmp_path / "data")
    running.clock.advance(CHECK_EVERY_MS)
    running.monitor.stop()
    moved(running.root)
    running.later.settle()
    assert running.look() == []
    running.manager.close()
    monitoring(running.manager, running.clock, None)()
