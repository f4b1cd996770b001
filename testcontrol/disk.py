"""The disk of a server under test: it can be full, or read-only, for a while."""

from __future__ import annotations

import errno
import os
from typing import Any, Final, cast

from muster.coordinator.log import Storage

_WRITES: Final = ("pwrite", "pwrite_parts", "truncate", "allocate")
_FILE_CALLS: Final = ("size", "pread", "sync", "close", "is_removed")
_CHANGES: Final = ("make_directory", "save", "rename", "remove", "remove_tree")


class Disk:
    """Whether the disk accepts writes. `error`: the errno of refused writes; None: it accepts them."""

    FULL: Final = errno.ENOSPC
    READ_ONLY: Final = errno.EROFS

    def __init__(self) -> None:
        self.error: int | None = None

    def check(self) -> None:
        """Raises OSError while the disk accepts no writes."""
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error))

    def before(self, storage: Storage) -> Storage:
        """The storage with this disk before it."""
        return cast(Storage, _GuardedStorage(self, storage))


class _GuardedStorage:
    """A storage whose changes are checked first."""

    def __init__(self, disk: Disk, storage: Any) -> None:
        self._disk = disk
        self._storage = storage
        for name in _CHANGES:
            setattr(self, name, _guarded(disk, getattr(storage, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def file(self, path: str) -> Any:
        """See `Storage`."""
        return _GuardedFile(self._disk, self._storage.file(path))


class _GuardedFile:
    """A file whose writes are checked first. All other methods are the file's own."""

    __slots__ = ("_file", *_WRITES, *_FILE_CALLS)

    def __init__(self, disk: Disk, file: Any) -> None:
        self._file = file
        for name in _WRITES:
            setattr(self, name, _guarded(disk, getattr(file, name)))
        for name in _FILE_CALLS:
            setattr(self, name, getattr(file, name))

    @property
    def path(self) -> str:
        """See `File`."""
        return str(self._file.path)


def _guarded(disk: Disk, call: Any) -> Any:
    def asked(*given: Any, **named: Any) -> Any:
        if disk.error is not None:
            disk.check()
        return call(*given, **named)

    return asked
