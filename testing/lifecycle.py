"""Who may start and end a server: one thread at a time, and only in the process that started it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from muster.testcontrol.errors import CannotBeDone
from muster.testing.loop_bridge import FORKED


class Lifecycle:
    """See the module. Several threads may start one server at once: the others wait, and hear that it runs."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pid = 0

    @property
    def is_elsewhere(self) -> bool:
        """Whether the server belongs to the process that this one was forked from."""
        return self._pid not in (0, os.getpid())

    @contextmanager
    def changing(self) -> Iterator[None]:
        """While the server is started or ended. Raises CannotBeDone in a process that was forked meanwhile."""
        # first of all: the lock of a forked process may be held by a thread that it does not have
        if self.is_elsewhere:
            raise CannotBeDone(FORKED)
        with self._lock:
            yield

    def began(self) -> None:
        """The server runs, and belongs to this process."""
        self._pid = os.getpid()

    def ended(self) -> None:
        """It does not run."""
        self._pid = 0
