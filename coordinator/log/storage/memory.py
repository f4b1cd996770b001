"""A data directory in memory, for `--in-memory` and for tests: the same log code, nothing on a disk."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from muster.coordinator.log.errors import DirectoryLocked
from muster.coordinator.log.storage.interfaces import Buffer, Entry


class MemoryFile:
    """A `storage.File` that is a bytearray. Between its first use and `close` it is that bytearray, whatever becomes of
    the name, as an open file of a file system would be.
    """

    __slots__ = ("_files", "_open", "_path")

    def __init__(self, files: dict[str, bytearray], path: str) -> None:
        self._files = files
        self._path = path
        self._open: bytearray | None = None

    @property
    def path(self) -> str:
        """Where it would lie."""
        return f"memory:{self._path}"

    def _bytes(self, *, make: bool = False) -> bytearray:
        held = self._open
        if held is None:
            held = self._files.get(self._path)
            if held is None:
                if not make:
                    raise FileNotFoundError(errno.ENOENT, "No such file", self._path)
                held = self._files[self._path] = bytearray()
            self._open = held
        return held

    def size(self) -> int:
        """Its length in bytes."""
        return len(self._bytes())

    def pread(self, count: int, position: int) -> bytes:
        """Up to `count` bytes from `position`."""
        with memoryview(self._bytes()) as view:
            return bytes(view[position : position + count])

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of `data` at `position`."""
        held = self._bytes(make=True)
        if position > len(held):
            held.extend(bytes(position - len(held)))
        if position == len(held):
            held += data  # without the copy that assigning to a slice makes
        else:
            held[position : position + len(data)] = data

    def pwrite_parts(self, parts: Sequence[Buffer], position: int) -> None:
        """Write the parts one after the other from `position`."""
        for part in parts:
            self.pwrite(part, position)
            position += len(part)

    def truncate(self, size: int) -> None:
        """Cut it to `size`, or fill it up with zeros."""
        held = self._bytes(make=True)
        if size < len(held):
            del held[size:]
        else:
            held.extend(bytes(size - len(held)))

    def allocate(self, size: int) -> None:  # noqa: ARG002 - there is nothing to reserve
        """Memory needs no reservation."""
        self._bytes(make=True)

    def sync(self) -> None:
        """Memory is as durable as it will ever be."""

    def close(self) -> None:
        """Look for the name again at the next use."""
        self._open = None

    def is_removed(self) -> bool:
        """Whether its name is away."""
        return self._path not in self._files


class _MemoryLock:
    def __init__(self, storage: MemoryStorage) -> None:
        self._storage = storage

    def release(self) -> None:
        self._storage.locked = False


class MemoryStorage:
    """A `storage.Storage` that is a dictionary from path to bytes."""

    root = "memory:"

    def __init__(self) -> None:
        self.files: dict[str, bytearray] = {}
        self.directories: set[str] = {""}
        self.locked = False

    def file(self, path: str) -> MemoryFile:
        """The file at `path`."""
        return MemoryFile(self.files, path)

    def entries(self, path: str) -> list[Entry]:
        """What is in a directory, by name."""
        if path not in self.directories:
            raise FileNotFoundError(path)
        prefix = path + "/" if path else ""
        found = [
            Entry(name.removeprefix(prefix), False, len(held), 0)
            for name, held in list(self.files.items())  # a compaction may add one in its thread
            if name.startswith(prefix) and "/" not in name.removeprefix(prefix)
        ]
        found += [
            Entry(name.removeprefix(prefix), True, 0, 0)
            for name in self.directories
            if name and name.startswith(prefix) and "/" not in name.removeprefix(prefix)
        ]
        return sorted(found)

    def verify(self) -> None:
        """Nobody can take it away."""

    def is_directory(self, path: str) -> bool:
        """Whether there is a directory of that name."""
        return path in self.directories

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it."""
        while path:
            self.directories.add(path)
            path = path.rpartition("/")[0]

    def load(self, path: str) -> bytes | None:
        """A whole small file; None when it is not there."""
        held = self.files.get(path)
        return None if held is None else bytes(held)

    def save(self, path: str, data: bytes, *, sync: bool = False) -> None:  # noqa: ARG002 - there is no disk to wait for
        """Replace a whole small file."""
        self.files[path] = bytearray(data)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a directory."""
        if old in self.files:
            self.files[new] = self.files.pop(old)
            return
        if old not in self.directories:
            raise FileNotFoundError(old)
        for name in [name for name in self.files if name.startswith(old + "/")]:
            self.files[new + name.removeprefix(old)] = self.files.pop(name)
        for name in [name for name in self.directories if name == old or name.startswith(old + "/")]:
            self.directories.discard(name)
            self.directories.add(new + name.removeprefix(old))

    def remove(self, path: str) -> None:
        """Remove a file."""
        self.files.pop(path, None)

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all in it."""
        for name in [name for name in self.files if name.startswith(path + "/")]:
            del self.files[name]
        self.directories = {name for name in self.directories if name != path and not name.startswith(path + "/")}

    def sync_directory(self, path: str) -> None:
        """Memory is as durable as it will ever be."""

    def lock(self) -> _MemoryLock:
        """Take it for one server alone."""
        if self.locked:
            raise DirectoryLocked(self.root, None)
        self.locked = True
        return _MemoryLock(self)
