"""A data directory in memory, for `--in-memory` and for tests: the same log code, nothing on a disk."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from muster.coordinator.log.errors import DirectoryLocked
from muster.coordinator.log.storage.interfaces import Buffer, Entry


class MemoryFile:
    """A `storage.File` that is a bytearray. As on a disk, an open file stays the same after a rename, until `close`."""

    __slots__ = ("_files", "_open", "_path")

    def __init__(self, files: dict[str, bytearray], path: str) -> None:
        self._files = files
        self._path = path
        self._open: bytearray | None = None

    @property
    def path(self) -> str:
        """The path of the file, for messages."""
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
        return len(self._bytes())

    def pread(self, count: int, position: int) -> bytes:
        with memoryview(self._bytes()) as view:
            return bytes(view[position : position + count])

    def part(self, count: int, position: int) -> None:
        """Return None: bytes in memory are copied once, too."""

    def pwrite(self, data: Buffer, position: int) -> None:
        held = self._bytes(make=True)
        if position > len(held):
            held.extend(bytes(position - len(held)))
        if position == len(held):
            held += data  # an assignment to a slice would make a copy
        else:
            held[position : position + len(data)] = data

    def pwrite_parts(self, parts: Sequence[Buffer], position: int) -> None:
        for part in parts:
            self.pwrite(part, position)
            position += len(part)

    def truncate(self, size: int) -> None:
        held = self._bytes(make=True)
        if size < len(held):
            del held[size:]
        else:
            held.extend(bytes(size - len(held)))

    def allocate(self, size: int) -> None:  # noqa: ARG002  # there is nothing to reserve
        self._bytes(make=True)

    def sync(self) -> None:
        """Do nothing: memory cannot become more durable."""

    def close(self) -> None:
        self._open = None

    def is_removed(self) -> bool:
        return self._path not in self._files


def _split(path: str) -> tuple[str, str]:
    directory, _, name = path.rpartition("/")
    return directory, name


def _forget(of: dict[str, dict[str, None]], path: str) -> None:
    directory, name = _split(path)
    names = of.get(directory, {})
    names.pop(name, None)
    if not names:
        of.pop(directory, None)


class _Files(dict[str, bytearray]):
    """Files by path. `of` has the names in each directory, so that one directory among thousands is read fast."""

    def __init__(self, files: Mapping[str, bytearray]) -> None:
        super().__init__()
        self.of: dict[str, dict[str, None]] = {}
        for path, held in files.items():
            self[path] = held

    def __setitem__(self, path: str, held: bytearray) -> None:
        super().__setitem__(path, held)
        directory, name = _split(path)
        self.of.setdefault(directory, {})[name] = None

    def __delitem__(self, path: str) -> None:
        super().__delitem__(path)
        _forget(self.of, path)

    def pop(self, path: str, *default: Any) -> Any:
        if path not in self and default:
            return default[0]
        held = self[path]
        del self[path]
        return held


class _Directories(set[str]):
    def __init__(self, paths: Iterable[str]) -> None:
        super().__init__()
        self.of: dict[str, dict[str, None]] = {}
        for path in paths:
            self.add(path)

    def add(self, path: str) -> None:
        super().add(path)
        if path:
            directory, name = _split(path)
            self.of.setdefault(directory, {})[name] = None

    def discard(self, path: object) -> None:
        super().discard(str(path))
        _forget(self.of, str(path))


class MemoryStorage:
    """A `storage.Storage` that is a dictionary from path to bytes."""

    root = "memory:"

    def __init__(self) -> None:
        self._files = _Files({})
        self._directories = _Directories({""})
        self.locked = False

    @property
    def files(self) -> dict[str, bytearray]:
        """All files, by path."""
        return self._files

    @files.setter
    def files(self, files: Mapping[str, bytearray]) -> None:
        self._files = _Files(files)

    @property
    def directories(self) -> set[str]:
        """All directories, by path; "" is the top directory."""
        return self._directories

    @directories.setter
    def directories(self, directories: Iterable[str]) -> None:
        self._directories = _Directories(directories)

    def file(self, path: str) -> MemoryFile:
        return MemoryFile(self.files, path)

    def entries(self, path: str) -> list[Entry]:
        if path not in self.directories:
            raise FileNotFoundError(path)
        prefix = path + "/" if path else ""
        names = list(self._files.of.get(path, ()))  # a copy, because a compaction in another thread may add a file
        files = [(name, self._files.get(prefix + name)) for name in names]
        found = [Entry(name, False, len(held), 0) for name, held in files if held is not None]
        found += [Entry(name, True, 0, 0) for name in self._directories.of.get(path, ())]
        return sorted(found)

    def _inside(self, path: str) -> tuple[list[str], list[str]]:
        """Return all files and directories below a directory; the directory itself is the first."""
        files: list[str] = []
        directories = [path]
        for directory in directories:  # the loop also visits the directories that it appends
            files += [f"{directory}/{name}" for name in self._files.of.get(directory, ())]
            directories += [f"{directory}/{name}" for name in self._directories.of.get(directory, ())]
        return files, directories

    def verify(self) -> None:
        """Do nothing: the directory cannot be removed."""

    def is_directory(self, path: str) -> bool:
        return path in self.directories

    def make_directory(self, path: str) -> None:
        while path:
            self.directories.add(path)
            path = path.rpartition("/")[0]

    def load(self, path: str) -> bytes | None:
        held = self.files.get(path)
        return None if held is None else bytes(held)

    def save(self, path: str, data: bytes, *, sync: bool = False) -> None:  # noqa: ARG002  # there is no disk to wait for
        self.files[path] = bytearray(data)

    def rename(self, old: str, new: str) -> None:
        if old in self.files:
            self.files[new] = self.files.pop(old)
            return
        if old not in self.directories:
            raise FileNotFoundError(old)
        files, directories = self._inside(old)
        for name in files:
            self.files[new + name.removeprefix(old)] = self.files.pop(name)
        for name in directories:
            self.directories.discard(name)
            self.directories.add(new + name.removeprefix(old))

    def remove(self, path: str) -> None:
        self.files.pop(path, None)

    def remove_tree(self, path: str) -> None:
        files, directories = self._inside(path)
        for name in files:
            del self.files[name]
        for name in directories:
            self.directories.discard(name)

    def sync_directory(self, path: str) -> None:
        """Do nothing: memory cannot become more durable."""

    def lock(self) -> MemoryStorage:
        if self.locked:
            raise DirectoryLocked(self.root, None)
        self.locked = True
        return self

    def release(self) -> None:
        self.locked = False
