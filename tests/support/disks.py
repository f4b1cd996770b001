"""Disks in memory that become full or break at the command of a test."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from muster.coordinator.log.storage.memory import MemoryFile, MemoryStorage

Buffer = bytes | bytearray | memoryview


class FullDisk(MemoryStorage):
    """A disk that, while it is `full`, writes the first half of the bytes, and creates no file and no directory."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False

    def file(self, path: str) -> _File:
        return _File(self, path)

    def take(self) -> None:
        """Write the bytes. Raises OSError while the disk is full."""
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")

    def make_directory(self, path: str) -> None:
        if path not in self.directories:
            self.take()
        super().make_directory(path)

    def save(self, path: str, data: bytes, *, sync: bool = False) -> None:
        self.take()
        super().save(path, data, sync=sync)

    def rename(self, old: str, new: str) -> None:
        self.take()
        super().rename(old, new)


class _File(MemoryFile):
    __slots__ = ("_disk", "_name")

    def __init__(self, disk: FullDisk, path: str) -> None:
        super().__init__(disk.files, path)
        self._disk = disk
        self._name = path

    def pwrite(self, data: Buffer, position: int) -> None:
        if self._disk.full:
            super().pwrite(bytes(data)[: len(data) // 2], position)
        self._disk.take()
        super().pwrite(data, position)

    def pwrite_parts(self, parts: Sequence[Buffer], position: int) -> None:
        self.pwrite(b"".join(parts), position)

    def truncate(self, size: int) -> None:
        if self._name not in self._disk.files:
            self._disk.take()
        super().truncate(size)
