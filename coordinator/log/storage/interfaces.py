"""The interface of the place where a log's bytes are: one data directory with files in it.

The interface has three implementations: `files.FileStorage`, `memory.MemoryStorage` (`--in-memory`) and a faulty
storage in the tests. Paths are relative to the data directory, with "/" between their parts; "" is the data directory
itself. Every failure is an OSError.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview


class Entry(NamedTuple):
    """One name in a directory."""

    name: str
    is_directory: bool
    size: int
    modified_ms: int
    """Wall ms of the last change; 0 when the storage does not know."""


class File(Protocol):
    """One file, opened at its first use, and at the next use after `close`. The first write creates the file."""

    @property
    def path(self) -> str:
        """The path of the file for messages; on a disk it is the full path."""

    def size(self) -> int:
        """The length of the file in bytes."""

    def pread(self, count: int, position: int) -> bytes:
        """Return up to `count` bytes from `position`; fewer only at the end of the file."""

    def part(self, count: int, position: int) -> FilePart | None:
        """Return bytes for a socket, which are not copied. None means that `pread` is the way to get them now."""

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of `data` at `position`, or raise OSError (part of it may then be written)."""

    def pwrite_parts(self, parts: Sequence[Buffer], position: int) -> None:
        """Write the parts one after the other, as `pwrite` would write them joined."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size`, or fill it up with zeros."""

    def allocate(self, size: int) -> None:
        """Reserve room up to `size`; unwritten bytes read as zeros. A storage may do nothing."""

    def sync(self) -> None:
        """Wait until everything written is on the disk. Any thread may call this, also while the file is closed."""

    def close(self) -> None:
        """Close the handle of the file."""

    def is_removed(self) -> bool:
        """Whether the name of the file was removed. Any thread may call this."""


class FilePart:
    """Bytes of a file. `view`: the bytes in a window, for a call of the system at once."""

    __slots__ = ("_file", "_position", "view")

    def __init__(self, view: memoryview, file: File, position: int) -> None:
        self.view = view
        self._file = file
        self._position = position

    def __len__(self) -> int:
        return len(self.view)

    def copied(self, start: int = 0) -> bytes:
        """The bytes from `start` on, read from the file. Raises OSError."""
        wanted = len(self.view) - start
        data = self._file.pread(wanted, self._position + start)
        if len(data) != wanted:
            raise OSError(errno.EIO, "the file has become shorter", self._file.path)
        return data


class Lock(Protocol):
    """A data directory held by this server."""

    def release(self) -> None:
        """Release the directory."""


class Storage(Protocol):
    """One data directory."""

    @property
    def root(self) -> str:
        """The data directory, for messages."""

    def file(self, path: str) -> File:
        """The file at `path`, not opened yet."""

    def entries(self, path: str) -> list[Entry]:
        """Return the entries of a directory, by name. Raises FileNotFoundError when the directory does not exist."""

    def verify(self) -> None:
        """Raises DirectoryGone when the data directory is no longer the locked one. Any thread may call this."""

    def is_directory(self, path: str) -> bool:
        """Whether a directory of that name exists."""

    def make_directory(self, path: str) -> None:
        """Create a directory and the directories above it. Do nothing when the directory exists."""

    def load(self, path: str) -> bytes | None:
        """Return a whole small file; None when it does not exist."""

    def save(self, path: str, data: bytes, *, sync: bool = False) -> None:
        """Replace a whole small file: a crash leaves the old bytes or the new. `sync`: wait for the disk."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a directory."""

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory, if it exists, and everything in it."""

    def sync_directory(self, path: str) -> None:
        """Wait until the names in a directory are on the disk. Any thread may call this."""

    def lock(self) -> Lock:
        """Take the data directory for this server. Raises DirectoryLocked when another server has the directory."""
