"""A data directory on a disk. `sync_descriptor` is the only function in which the process waits for a disk."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import re
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from muster.coordinator.log.errors import DirectoryGone
from muster.coordinator.log.storage.interfaces import Buffer, Entry, FilePart
from muster.coordinator.log.storage.lock import DirectoryLock
from muster.coordinator.log.storage.mapped import LEAST_BYTES, MOST_BYTES, WINDOWS, is_cached
from muster.coordinator.log.storage.open_files import OF_THIS_PROCESS, OpenFiles

_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
_PERMISSIONS = 0o644


def sync_descriptor(descriptor: int) -> None:
    """Wait until a file's bytes are on the disk (macOS keeps them in the drive's cache without a special call)."""
    if _FULL_SYNC is not None:
        fcntl.fcntl(descriptor, _FULL_SYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


@functools.cache
def _syncfs() -> Callable[[int], int]:
    """The system's syncfs(descriptor): it returns 0, or the number of the error."""
    import ctypes  # ctypes is imported late: few starts need it, and it takes 5 ms

    call = ctypes.CDLL(None, use_errno=True).syncfs
    return lambda descriptor: ctypes.get_errno() if call(descriptor) else 0


class FilesystemSync:
    """Linux's syncfs: for many small files it takes a thirtieth of the time of single syncs."""

    def __init__(self, root: Path) -> None:
        """Open the directory now: `sync` reports writes that fail from now on."""
        self._descriptor = os.open(root, os.O_RDONLY)

    @staticmethod
    def is_reliable() -> bool:
        """Whether this system has syncfs, and reports failed writes (Linux 5.8)."""
        system = os.uname()
        found = re.match(r"(\d+)\.(\d+)", system.release)
        return system.sysname == "Linux" and found is not None and (int(found[1]), int(found[2])) >= (5, 8)

    def sync(self) -> None:
        """Wait until everything is on the disk, in any thread. Raises OSError when something could not be written."""
        number = _syncfs()(self._descriptor)
        if number:
            raise OSError(number, os.strerror(number))

    def close(self) -> None:
        """Close the directory."""
        os.close(self._descriptor)


class Place:
    """Where paths begin: the name of a directory; after `take`, the directory itself."""

    __slots__ = ("_descriptor", "_root")

    def __init__(self, root: str) -> None:
        self._root = root
        self._descriptor: int | None = None

    def at(self, path: str) -> tuple[str, int | None]:
        """Return a path for the system, and the directory where it begins (None: the path has the directory's name)."""
        descriptor = self._descriptor
        if descriptor is None:
            return (f"{self._root}/{path}" if path else self._root), None
        return path or ".", descriptor

    def open(self, path: str, flags: int) -> int:
        """Return a descriptor of the file. Raises OSError."""
        name, directory = self.at(path)
        if directory is None:
            return os.open(name, flags, _PERMISSIONS)
        return os.open(name, flags, _PERMISSIONS, dir_fd=directory)

    def take(self) -> None:
        """Stay in the directory that has the name now. Raises OSError."""
        self._descriptor = os.open(self._root, os.O_RDONLY)

    def leave(self) -> None:
        """Use the name again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def verify(self) -> None:
        """Raises DirectoryGone when the name belongs to another directory, or to no directory."""
        descriptor = self._descriptor
        if descriptor is None:
            return
        try:
            there = os.stat(self._root)
        except OSError as error:
            raise DirectoryGone(self._root, f"cannot be found ({error.strerror})") from error
        if not os.path.samestat(there, os.fstat(descriptor)):
            raise DirectoryGone(self._root, "was replaced by another")


class DiskFile:
    """A `storage.File` with a descriptor that is opened at its first use."""

    __slots__ = (
        "_closing", "_descriptor", "_files", "_guard", "_is_closed_until_used", "_mode", "_name", "_place", "_syncs",
        "path", "used",
    )  # fmt: skip

    def __init__(self, path: str, mode: int, place: Place, name: str, files: OpenFiles = OF_THIS_PROCESS) -> None:
        """`path`: in full, for messages. `name`: the path from `place`. `files`: counts the file while it is open."""
        self.path = path
        self.used = False
        self._files = files
        self._is_closed_until_used = False
        self._mode = mode
        self._place = place
        self._name = name
        self._descriptor = -1
        self._guard = threading.Lock()
        self._syncs = 0
        self._closing: list[int] = []

    def _open(self, more: int = 0) -> int:
        # a file that was closed for a while is not created again: if it was removed, its bytes are lost
        more = 0 if self._is_closed_until_used else more
        self._descriptor = self._place.open(self._name, self._mode | more)
        self._is_closed_until_used = False
        self._files.opened(self)
        return self._descriptor

    def _create(self) -> int:
        return self._open(os.O_CREAT)

    def close_until_used(self) -> bool:
        """Close the file until its next use. False while the file is in use, or when it may be renamed."""
        if not self._name.endswith(".log") or not self._guard.acquire(blocking=False):
            return False
        try:
            if self._descriptor < 0 or self._syncs:
                return False
            descriptor, self._descriptor, self._is_closed_until_used = self._descriptor, -1, True
            WINDOWS.forget(self)
            os.close(descriptor)
            return True
        finally:
            self._guard.release()

    def size(self) -> int:
        with self._guard:
            self.used = True
            descriptor = self._descriptor
            return os.fstat(descriptor if descriptor >= 0 else self._open()).st_size

    def pread(self, count: int, position: int) -> bytes:
        with self._guard:
            self.used = True
            descriptor = self._descriptor
            return os.pread(descriptor if descriptor >= 0 else self._open(), count, position)

    def part(self, count: int, position: int) -> FilePart | None:
        if not LEAST_BYTES <= count <= MOST_BYTES:
            return None
        with self._guard:
            self.used = True
            descriptor = self._descriptor if self._descriptor >= 0 else self._open()
            if not is_cached(descriptor, count, position):
                return None
            view = WINDOWS.view(self, descriptor, count, position)
        return None if view is None else FilePart(view, self, position)

    def pwrite(self, data: Buffer, position: int) -> None:
        # no guard is needed: one thread writes a file, and only the event loop's thread closes files for a while
        self.used = True
        descriptor = self._descriptor
        written = os.pwrite(descriptor if descriptor >= 0 else self._create(), data, position)
        if written != len(data):
            self._write_rest([data], written, position)

    def pwrite_parts(self, parts: Sequence[Buffer], position: int) -> None:
        self.used = True
        descriptor = self._descriptor
        written = os.pwritev(descriptor if descriptor >= 0 else self._create(), parts, position)
        if written != sum(map(len, parts)):
            self._write_rest(parts, written, position)

    def _write_rest(self, parts: Sequence[Buffer], written: int, position: int) -> None:
        # a short write: the next write raises the error (ENOSPC), or continues after a signal or a limit
        rest = memoryview(b"".join(parts))[written:]
        position += written
        while rest:
            count = os.pwrite(self._descriptor, rest, position)
            if count == 0:
                raise OSError(errno.EIO, "the file takes no more bytes", self.path)
            rest = rest[count:]
            position += count

    def truncate(self, size: int) -> None:
        with self._guard:
            self.used = True
            descriptor = self._descriptor
            os.ftruncate(descriptor if descriptor >= 0 else self._create(), size)

    def allocate(self, size: int) -> None:
        with self._guard:
            self.used = True
            descriptor = self._descriptor if self._descriptor >= 0 else self._create()
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, size)
            else:
                os.ftruncate(descriptor, max(size, os.fstat(descriptor).st_size))

    def sync(self) -> None:
        """Wait until everything is on the disk. A `close` meanwhile takes effect afterwards."""
        with self._guard:
            try:
                descriptor = self._descriptor if self._descriptor >= 0 else self._open()
            except FileNotFoundError:
                return  # the file was removed meanwhile, and need not survive
            self._syncs += 1
        try:
            sync_descriptor(descriptor)
        finally:
            with self._guard:
                self._syncs -= 1
                closing = self._closing if self._syncs == 0 else []
                if closing:
                    self._closing = []
            for old in closing:
                os.close(old)

    def is_removed(self) -> bool:
        with self._guard:
            if self._descriptor >= 0:
                return os.fstat(self._descriptor).st_nlink == 0
        name, directory = self._place.at(self._name)
        try:
            os.stat(name, dir_fd=directory)
        except FileNotFoundError:
            return True
        return False

    def close(self) -> None:
        """Close the file's descriptor, once no sync needs it any more."""
        with self._guard:
            descriptor, self._descriptor = self._descriptor, -1
            self._is_closed_until_used = False
            self._files.closed(self)
            WINDOWS.forget(self)
            if descriptor >= 0 and self._syncs:
                self._closing.append(descriptor)
                return
        if descriptor >= 0:
            os.close(descriptor)


def _facts_of(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Size and time of a directory's entry. None: the entry was removed, or is a symbolic link without a target."""
    try:
        return entry.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise


class FileStorage:
    """A `storage.Storage` in the file system. After `lock` the storage stays in the very directory that was locked."""

    def __init__(self, root: str | Path, *, read_only: bool = False) -> None:
        """`root`: the data directory. `read_only`: no right to write is necessary."""
        self.root = str(root)
        self._mode = os.O_RDONLY if read_only else os.O_RDWR
        self._place = Place(self.root)

    def file(self, path: str) -> DiskFile:
        return DiskFile(f"{self.root}/{path}", self._mode, self._place, path)

    def entries(self, path: str) -> list[Entry]:
        found: list[Entry] = []
        descriptor = self._place.open(path, os.O_RDONLY)
        try:
            with os.scandir(descriptor) as names:
                for one in names:
                    facts = _facts_of(one)
                    if facts is not None:
                        found.append(Entry(one.name, one.is_dir(), facts.st_size, facts.st_mtime_ns // 1_000_000))
        finally:
            os.close(descriptor)
        return sorted(found)

    def verify(self) -> None:
        self._place.verify()

    def is_directory(self, path: str) -> bool:
        name, directory = self._place.at(path)
        try:
            return stat.S_ISDIR(os.stat(name, dir_fd=directory).st_mode)
        except FileNotFoundError:
            return False

    def make_directory(self, path: str) -> None:
        name, directory = self._place.at(path)
        if directory is None:
            os.makedirs(name, exist_ok=True)
        elif path:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=directory)

    def load(self, path: str) -> bytes | None:
        try:
            # the error has the full path
            with open(path, "rb", opener=lambda _, __: self._place.open(path, os.O_RDONLY)) as file:
                return file.read()
        except FileNotFoundError:
            return None

    def save(self, path: str, data: bytes, *, sync: bool = False) -> None:
        name, directory = self._place.at(path)
        descriptor = self._place.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            view = memoryview(data)
            while view:
                written = os.write(descriptor, view)
                view = view[written:]
            if sync:
                sync_descriptor(descriptor)
        finally:
            os.close(descriptor)
        os.replace(name + ".tmp", name, src_dir_fd=directory, dst_dir_fd=directory)
        if sync:
            self.sync_directory(path.rpartition("/")[0])

    def rename(self, old: str, new: str) -> None:
        (old_name, directory), (new_name, _) = self._place.at(old), self._place.at(new)
        os.replace(old_name, new_name, src_dir_fd=directory, dst_dir_fd=directory)

    def remove(self, path: str) -> None:
        name, directory = self._place.at(path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)

    def remove_tree(self, path: str) -> None:
        import shutil  # imported late: it takes 0.6 MB, and a start removes no folder

        name, directory = self._place.at(path)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(name, dir_fd=directory)

    def sync_directory(self, path: str) -> None:
        descriptor = self._place.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self) -> DirectoryLock:
        lock = DirectoryLock(self.root, self._place.leave)
        self._place.take()
        return lock
