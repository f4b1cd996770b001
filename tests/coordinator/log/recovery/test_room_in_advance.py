"""Segments whose space is reserved in advance (log.preallocate): writes, stops and recovery."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from muster.coordinator.log import FileStorage, LogConfig, LogManager, UnifiedLog
from muster.coordinator.log.disk_durability import RESERVED_BYTES
from muster.coordinator.log.storage.files import DiskFile
from tests.coordinator.log.support import SMALL, PendingResult, batch, everything, fill, manage


def files_of(folder: Path) -> list[int]:
    return [path.stat().st_size for path in sorted(folder.glob("*.log"))]


class TestRoomInAdvance:
    """A log that waits for its syncs writes into space that its file already has."""

    def manager(self, folder: Path) -> tuple[LogManager, PendingResult]:
        later = PendingResult()
        return manage(FileStorage(folder), sync=later.sync), later

    def synced(self, manager: LogManager, later: PendingResult, config: LogConfig = SMALL) -> UnifiedLog:
        log = manager.open_log("t", 0, config=config, wait_for_sync=True)
        log.when_durable(log.end_offset, lambda _: None)
        later.settle()
        return log

    def write(self, log: UnifiedLog, later: PendingResult, count: int) -> list[bytes]:
        content = []
        for value in fill(log, count):
            content.append(value)
            log.when_durable(log.end_offset, lambda _: None)
            later.settle()
        return content

    def test_space_is_reserved_for_many_writes_at_once(self, tmp_path: Path) -> None:
        manager, later = self.manager(tmp_path)
        log = self.synced(manager, later, replace(SMALL, segment_bytes=10_000_000))
        self.write(log, later, 1)
        sizes = files_of(tmp_path / "t-0")
        assert sizes == [log.size_bytes + RESERVED_BYTES]
        self.write(log, later, 100)
        assert files_of(tmp_path / "t-0") == sizes
        while log.size_bytes < RESERVED_BYTES:
            list(fill(log, 1, size=20_000))
        self.write(log, later, 1)
        (size,) = files_of(tmp_path / "t-0")
        assert size >= log.size_bytes + RESERVED_BYTES * 3 // 4

    def test_no_more_space_is_reserved_than_a_segment_needs(self, tmp_path: Path) -> None:
        manager, later = self.manager(tmp_path)
        log = self.synced(manager, later)
        self.write(log, later, 60)
        assert files_of(tmp_path / "t-0") == [segment.size for segment in log.segments[:-1]] + [SMALL.segment_bytes]

    def test_a_stop_releases_the_reserved_space(self, tmp_path: Path) -> None:
        manager, later = self.manager(tmp_path)
        content = self.write(log := self.synced(manager, later), later, 60)
        manager.close()
        assert sum(files_of(tmp_path / "t-0")) == log.size_bytes
        again = self.synced(*self.manager(tmp_path))
        assert [value for _, value in everything(again)] == content

    def test_reserved_space_left_by_a_killed_process_is_not_reported(self, tmp_path: Path) -> None:
        manager, later = self.manager(tmp_path)
        content = self.write(log := self.synced(manager, later), later, 60)
        manager.close(clean=False)
        assert sum(files_of(tmp_path / "t-0")) > log.size_bytes
        with structlog.testing.capture_logs() as logged:
            manager, later = self.manager(tmp_path)
            log = self.synced(manager, later)
        assert logged == []
        content += self.write(log, later, 60)
        assert [value for _, value in everything(log)] == content

    @pytest.mark.parametrize("rolled", [False, True])
    def test_a_partial_write_in_reserved_space_is_cut_off(self, tmp_path: Path, rolled: bool) -> None:
        manager, later = self.manager(tmp_path)
        content = self.write(log := self.synced(manager, later), later, 5)
        manager.close(clean=False)
        (path,) = (tmp_path / "t-0").glob("*.log")
        with path.open("r+b") as file:
            file.seek(log.size_bytes)
            file.write(batch(b"x" * 300)[:100])
        if rolled:  # the next segment has only allocated space yet
            (tmp_path / "t-0" / f"{6:020d}.log").write_bytes(bytes(1000))
        log = self.synced(*self.manager(tmp_path))
        assert [value for _, value in everything(log)] == content

    def test_a_disk_without_space_to_reserve_fails_only_at_a_write(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        manager, later = self.manager(tmp_path)
        log = self.synced(manager, later)

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(DiskFile, "allocate", full)
        content = self.write(log, later, 3)
        assert log.failure is None
        assert [value for _, value in everything(log)] == content
