"""Writes lines to a pipe or a terminal that may not be read.

A thread writes the waiting lines, whose number is limited. Further lines are only counted. The number of lost lines is
logged when lines flow again. A closed stream does not stop the server.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

MAX_LINES: Final = 10_000
MAX_BYTES: Final = 1024 * 1024
CHUNK_BYTES: Final = 64 * 1024
CLOSE_S: Final = 2.0
"""How long the end of the process waits for the stream to be read."""

Write = Callable[[bytes], object]
"""Writes all bytes, however long that takes. Raises OSError or ValueError when the stream is closed."""


class LineWriter:
    """See the module."""

    def __init__(
        self,
        write: Write,
        lost: Callable[[int], object] = lambda _: None,
        tick: Callable[[], float | None] = lambda: None,
    ) -> None:
        """The thread calls `lost` with the number of lost lines, when lines flow again.

        After each write the thread calls `tick`, which returns in how many seconds the next call is due, or None.
        """
        self._write = write
        self._report_lost = lost
        self._tick = tick
        self._lock = threading.Lock()
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._lost = 0
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._closing = self._gone = False

    def put(self, line: str) -> None:
        """Take one line, without its line end. The call never waits for the stream."""
        data = (line + "\n").encode("utf-8", "backslashreplace")
        with self._lock:
            if self._gone:
                return
            if self._lines and (len(self._lines) >= MAX_LINES or self._bytes + len(data) > MAX_BYTES):
                self._lost += 1
                return
            self._lines.append(data)
            self._bytes += len(data)
            if self._thread is None:
                # the thread is a daemon, so the process can end while a write hangs
                self._thread = threading.Thread(target=self._run, name="muster-lines", daemon=True)
                self._thread.start()
        self._wake.set()

    def wake(self) -> None:
        """Let `tick` be called soon."""
        self._wake.set()

    def close(self, timeout_s: float = CLOSE_S) -> bool:
        """Wait until all lines are written, at most for `timeout_s`. False: some lines are lost."""
        self._closing = True
        self._wake.set()
        thread = self._thread
        if thread is not None:
            thread.join(timeout_s)
        with self._lock:
            self._gone = True
            return not (self._lines or self._lost or (thread is not None and thread.is_alive()))

    def _run(self) -> None:
        timeout_s: float | None = None
        while True:
            closing = self._closing
            if not closing:
                self._wake.wait(timeout_s)
                self._wake.clear()
            if not self._write_all():
                return
            timeout_s = self._tick()
            if closing and not self._lines:
                return

    def _write_all(self) -> bool:
        """Write the waiting lines. False: the stream is closed."""
        while True:
            with self._lock:
                some: list[bytes] = []
                size = 0
                while self._lines and size < CHUNK_BYTES:
                    some.append(self._lines.popleft())
                    size += len(some[-1])
                self._bytes -= size
                lost = 0
                if not some:
                    lost, self._lost = self._lost, 0
            if lost:
                self._report_lost(lost)
            elif not some:
                return True
            else:
                try:
                    self._write(b"".join(some))
                except (OSError, ValueError):
                    # the reader of the stream has ended; the server continues
                    with self._lock:
                        self._gone = True
                        self._lines.clear()
                        self._lost = 0
                    return False


def writer(stream: Any) -> Write:
    """Return a function that writes to a text stream (or None) past its buffer: the buffer could hang a thread."""
    if stream is None:
        return lambda _: None
    try:
        number: int = stream.fileno()
    except (OSError, ValueError, AttributeError):
        # the stream is in memory
        def write(data: bytes) -> None:
            stream.write(data.decode())
            stream.flush()

        return write
    return lambda data: write_all(number, data)


def write_all(number: int, data: bytes) -> None:
    """Write everything to a file descriptor; another process may have made it non-blocking."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(number, left) :]
        except BlockingIOError:
            select.select((), (number,), ())


def open_standard_files() -> None:
    """Open the null device for missing stdin, stdout or stderr: no other file may get their numbers."""
    while True:
        number = os.open(os.devnull, os.O_RDWR)
        if number > 2:
            os.close(number)
            return
