"""Only one thread at a time may start or end a server, and only in the process that started it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from muster.testcontrol.errors import CannotBeDone
from muster.testing.loop_bridge import FORKED


class Lifecycle:
    """See the module. If several threads start one server at once, the others wait until it runs."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pid = 0

    @property
    def is_elsewhere(self) -> bool:
        """Whether the server belongs to the process that this one was forked from."""
        return self._pid not in (0, os.getpid())

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Held while the server is started or ended. Raises CannotBeDone in a process that was forked meanwhile."""
        # first of all, because a thread that a forked process does not have may hold the lock
        if self.is_elsewhere:
            raise CannotBeDone(FORKED)
        with self._lock:
            yield

    def began(self) -> None:
        """The server runs, and belongs to this process."""
        self._pid = os.getpid()

    def ended(self) -> None:
        """The server has stopped."""
        self._pid = 0
