"""One server per data directory: Kafka's `.lock` file and kind of lock, so that Kafka respects it too."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from muster.coordinator.log.errors import DirectoryLocked

LOCK_FILE = ".lock"

# POSIX record locks belong to a process, and do not stop a second holder in the same process. The locks end when the
# process closes any descriptor of the file.
_locked_here: set[str] = set()


class DirectoryLock:
    """A data directory held by this process until `release`."""

    def __init__(self, directory: str, released: Callable[[], object] = lambda: None) -> None:
        """Raises DirectoryLocked when another server, in this process or elsewhere, holds `directory`."""
        self._released = released
        self._key = os.path.realpath(directory)
        if self._key in _locked_here:
            raise DirectoryLocked(directory, os.getpid())
        path = Path(directory) / LOCK_FILE
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid = _holder(self._descriptor)
            os.close(self._descriptor)
            if not isinstance(error, BlockingIOError | PermissionError):
                raise
            raise DirectoryLocked(directory, pid) from error
        _locked_here.add(self._key)
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        """Release the directory. A second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            _locked_here.discard(self._key)
            self._released()


def _holder(descriptor: int) -> int | None:
    """The pid that the holder has written into the lock file; Kafka writes none."""
    text = os.pread(descriptor, 32, 0).strip()
    return int(text) if text.isdigit() else None
