"""Records for a socket that are not copied: the system takes them from its cache of the file's pages.

Without this module the system copies records twice, into a buffer and into the socket. With a few windows into files it
copies them once. The first use of a page in a window takes as long as a copy, each later use takes nothing.

Only the system may read a window (`os.writev`). Such a call returns an error when the disk fails, or when other
programs cut the file. A read by Python would end the process.
"""

from __future__ import annotations

import mmap
import os
import threading
from typing import Final

LEAST_BYTES: Final = 128 << 10
"""Fewer bytes are copied. For 64 KB a window saves nothing, for 256 KB a quarter of the CPU time."""
MOST_BYTES: Final = 2 << 20
"""More bytes are copied: a connection does not get them in one piece. A window has so many bytes of the next one."""
WINDOW_BYTES: Final = 8 << 20
MOST_WINDOWS: Final = 8
"""The windows of a process. Their pages count as its resident memory, which so grows by 80 MB at most."""
ASKS_EACH: Final = 8
"""With all windows in use, one of so many reads may get a new window. This takes longer than a copy of 1 MB."""
PROBE_BYTES: Final = 512 << 10
"""How far apart the bytes are that are looked for in the cache. One look takes a microsecond."""
_NO_WAIT: Final = getattr(os, "RWF_NOWAIT", None)
"""Linux's flag for reads that do not wait for the disk; None means that the system has no such reads."""
_ONE_BYTE: Final = (bytearray(1),)


class Windows:
    """The windows into files. Any thread may call the methods."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._open: dict[tuple[object, int], memoryview] = {}
        """The windows by file and number, the last used one at the end."""
        self._asks = 0
        self._replaced_at = 0

    def __len__(self) -> int:
        return len(self._open)

    def view(self, file: object, descriptor: int, count: int, position: int) -> memoryview | None:
        """The bytes of an open file; None means that they have no window now."""
        number = position // WINDOW_BYTES
        begin = number * WINDOW_BYTES
        key, end = (file, number), position - begin + count
        with self._guard:
            self._asks += 1
            window = self._open.pop(key, None)
            if window is None or len(window) < end:
                found = self._opened(descriptor, begin, end, replaces=window is not None)
                if found is None:
                    if window is not None:
                        self._open[key] = window
                    return None
                window = found
            self._open[key] = window
            return window[position - begin : end]

    def _opened(self, descriptor: int, begin: int, end: int, *, replaces: bool) -> memoryview | None:
        """A new window; None means that the system cannot, or that windows were replaced too lately."""
        is_full = len(self._open) >= MOST_WINDOWS
        if is_full or replaces:
            if self._asks - self._replaced_at < ASKS_EACH:
                return None
            self._replaced_at = self._asks
        try:
            size = min(os.fstat(descriptor).st_size - begin, WINDOW_BYTES + MOST_BYTES)
            if size < end:
                return None
            window = memoryview(mmap.mmap(descriptor, size, prot=mmap.PROT_READ, offset=begin))
        except OSError:
            return None
        if is_full:
            del self._open[next(iter(self._open))]
        return window

    def forget(self, file: object) -> None:
        """Close the windows into a file, which is closed: a removed file needs the disk while a window is open."""
        if self._open:
            with self._guard:
                for key in [key for key in self._open if key[0] is file]:
                    del self._open[key]


WINDOWS: Final = Windows()
"""The windows of this process, for all its data directories."""


def is_cached(descriptor: int, count: int, position: int) -> bool:
    """Whether the system has the bytes in memory, as far as a few looks show. Otherwise a send waits for the disk."""
    if _NO_WAIT is None:
        return False
    last = position + count - 1
    try:
        for at in (*range(position, last, PROBE_BYTES), last):
            if os.preadv(descriptor, _ONE_BYTE, at, _NO_WAIT) != 1:
                return False
    except OSError:
        return False  # BlockingIOError: some bytes are only on the disk; others: the file system cannot say
    return True
