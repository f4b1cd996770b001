"""A log whose syncs end when a test wants, and a disk that fails."""

from __future__ import annotations

import errno

from muster.coordinator.log import LogOffline, MemoryStorage, UnifiedLog
from tests.coordinator.log.support import SMALL, PendingResult, manage


class Calls(list[tuple[str, LogOffline | None]]):
    def named(self, name: str):
        return lambda outcome: self.append((name, outcome))


def synced_log(later: PendingResult, storage: MemoryStorage | None = None) -> UnifiedLog:
    manager = manage(storage or MemoryStorage(), sync=later.sync)
    return manager.open_log("t", 0, config=SMALL, wait_for_sync=True)


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
