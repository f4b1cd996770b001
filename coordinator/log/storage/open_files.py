"""A limit for the open files of logs. Above the limit, files that were not used lately are closed until a next use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Protocol

TRIES: Final = 2_000
"""How many files are tried until a file can be closed. If no file can be closed, the limit is exceeded."""


class Open(Protocol):
    """A file that is open."""

    used: bool

    def close_until_used(self) -> bool:
        """Close the file until its next use. False when that is not possible now."""


class OpenFiles:
    """The open files of this process, and their `limit()`; None when no limit exists.

    Files are opened in any thread, and closed only in the event loop's thread, which created this object.
    """

    def __init__(self, limit: Callable[[], int] | None = None) -> None:
        self.limit = limit
        self._thread = threading.get_ident()
        self._guard = threading.Lock()
        self._open: dict[Open, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, file: Open) -> None:
        """Note that `file` has just been opened, for its first use."""
        file.used = False
        with self._guard:
            self._open[file] = None
            if self.limit is not None and threading.get_ident() == self._thread:
                over = len(self._open) - self.limit()
                # up to two files are closed for each file that opens: the number falls when connections need more
                for _ in range(min(over, 2)):
                    self._close_one(file)

    def closed(self, file: Open) -> None:
        """Note that a file was closed. The call does nothing when the file was not open."""
        with self._guard:
            self._open.pop(file, None)

    def _close_one(self, newest: Open) -> None:
        # the oldest file that was not used since its last check; a used file moves to the end once more
        for _ in range(min(TRIES, 2 * len(self._open))):
            file = next(iter(self._open))
            del self._open[file]
            if file is not newest and not file.used and file.close_until_used():
                return
            file.used = False
            self._open[file] = None


OF_THIS_PROCESS: Final = OpenFiles()
"""Descriptors belong to the process: all its data directories share them."""
