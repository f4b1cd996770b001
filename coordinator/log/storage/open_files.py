"""A bound on the files of logs that are open at once. Each partition that is written or read has one; beyond the bound
those that were not used lately are closed, and opened again at their next use. Without it partitions and connections
would take the descriptors from each other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Protocol

TRIES: Final = 2_000
"""How many files are looked at to find one that can be closed; when there is none the bound is exceeded."""


class Open(Protocol):
    """A file that is open."""

    used: bool
    """It was used again since it was opened, or since this was last reset."""

    def put_away(self) -> bool:
        """Close it until its next use; whether that is possible now."""


class OpenFiles:
    """Those of this process. `most()`: how many there may be now; None is no bound. Files may be opened in any thread;
    they are put away only in the thread that made this, that of the event loop, which uses no file at that moment.
    """

    def __init__(self, most: Callable[[], int] | None = None) -> None:
        self.most = most
        self._thread = threading.get_ident()
        self._guard = threading.Lock()
        self._open: dict[Open, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, file: Open) -> None:
        """`file` has just been opened, for its first use."""
        file.used = False
        with self._guard:
            self._open[file] = None
            if self.most is not None and threading.get_ident() == self._thread:
                over = len(self._open) - self.most()
                # two at a time, so that they become fewer when connections need more
                for _ in range(min(over, 2)):
                    self._put_one_away(file)

    def closed(self, file: Open) -> None:
        """It was closed; harmless when it was not open."""
        with self._guard:
            self._open.pop(file, None)

    def _put_one_away(self, newest: Open) -> None:
        # the oldest that was not used since it was last looked at; one that was used goes to the end once more
        for _ in range(min(TRIES, 2 * len(self._open))):
            file = next(iter(self._open))
            del self._open[file]
            if file is not newest and not file.used and file.put_away():
                return
            file.used = False
            self._open[file] = None


OF_THIS_PROCESS: Final = OpenFiles()
"""Descriptors are the process's: all its data directories share them."""
