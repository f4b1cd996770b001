"""A storage in memory whose process dies before, in or after any operation, or whose disk fails.

One integer decides when. A killed process leaves all that it wrote. A power cut leaves what was synced. Of the later
writes to a file, a power cut leaves some of the first ones. The last of these may be torn. Of the changes of names in a
directory after the last sync, it leaves a random part. Data that a failed sync should have written is lost. It can
still be read, because the operating system counts it as written.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Sequence

from muster.coordinator.log.storage.interfaces import Entry
from muster.coordinator.log.storage.memory import MemoryFile, MemoryStorage

Buffer = bytes | bytearray | memoryview
Names = dict[str, "Contents | Directory"]


class Died(BaseException):
    """The process was killed here. It is not an Exception, so no `except Exception` of the log catches it."""


class Contents:
    """The bytes of one file, whatever its names are: those on the disk, and the writes since the last sync."""

    def __init__(self, held: bytearray, synced: bytes = b"") -> None:
        self.held = held
        self.synced = bytearray(synced)
        self.unsynced: list[tuple[int, bytes | None]] = []
        """The writes and truncations since the last sync. A write has position and bytes, a truncation size and None.
        """

    def sync(self) -> None:
        for position, data in self.unsynced:
            self.apply(self.synced, position, data)
        self.unsynced = []

    @staticmethod
    def apply(to: bytearray, position: int, data: bytes | None) -> None:
        if data is None:
            del to[position:]
            data, position = b"", position
        to.extend(bytes(max(position - len(to), 0)))
        to[position : position + len(data)] = data

    def after_power_cut(self, draw: random.Random) -> bytearray:
        found = bytearray(self.synced)
        kept = self.unsynced[: draw.randrange(len(self.unsynced) + 1)]
        for index, (position, data) in enumerate(kept):
            if data is not None and index + 1 == len(kept):
                data = data[: draw.randrange(len(data) + 1)]
            self.apply(found, position, data)
        return found


class Directory:
    """The names in one directory: the names on the disk, and the changes since the last sync."""

    def __init__(self, synced: Names | None = None) -> None:
        self.synced: Names = synced or {}
        self.changes: list[Callable[[Names], object]] = []

    def sync(self) -> None:
        for change in self.changes:
            change(self.synced)
        self.changes = []

    def after_power_cut(self, draw: random.Random) -> Names:
        names = dict(self.synced)
        for change in self.changes:
            if draw.random() < 0.5:
                change(names)
        return names


def split(path: str) -> tuple[str, str]:
    """The directory of a path, and the name in this directory."""
    directory, _, name = path.rpartition("/")
    return directory, name


class FaultyFile(MemoryFile):
    """A file that notes its writes until they are synced."""

    __slots__ = ("_storage",)

    def __init__(self, storage: FaultyStorage, path: str) -> None:
        super().__init__(storage.files, path)
        self._storage = storage

    def _bytes(self, *, make: bool = False) -> bytearray:
        is_new = make and self._open is None and self._path not in self._files
        if is_new:
            self._storage.directory_of(self._path)
        held = super()._bytes(make=make)
        if is_new:
            self._storage.link(self._path, held)
        return held

    def pwrite(self, data: Buffer, position: int) -> None:
        storage = self._storage
        data = bytes(data)
        fault = storage.step()
        if fault is not None:
            data = data[: storage.draw.randrange(len(data) + 1)]
        super().pwrite(data, position)
        storage.contents(self._bytes()).unsynced.append((position, data))
        storage.raise_if(fault)

    def pwrite_parts(self, parts: Sequence[Buffer], position: int) -> None:
        self.pwrite(b"".join(parts), position)

    def truncate(self, size: int) -> None:
        self._storage.raise_if(self._storage.step())
        super().truncate(size)
        self._storage.contents(self._bytes()).unsynced.append((size, None))

    def allocate(self, size: int) -> None:
        held = self._bytes(make=True)
        if size > len(held):
            self._storage.raise_if(self._storage.step())
            held.extend(bytes(size - len(held)))
            self._storage.contents(held).unsynced.append((size, None))

    def sync(self) -> None:
        fault = self._storage.step()
        try:
            contents = self._storage.contents(self._bytes())
        except FileNotFoundError:
            return  # the file was removed meanwhile, as in `DiskFile.sync`
        if isinstance(fault, OSError):
            self._storage.sync_failed(split(self._path)[0])
            contents.unsynced = []
        self._storage.raise_if(fault)
        contents.sync()


class FaultyStorage(MemoryStorage):
    """A storage that dies at its `dies_at`-th change.

    `fails_at`: the numbers of the changes that fail, with ENOSPC and EIO in turns.
    """

    def __init__(
        self,
        seed: int,
        dies_at: int,
        *,
        fails_at: Sequence[int] = (),
        on: MemoryStorage | None = None,
    ) -> None:
        """`on`: a storage with the present content of the disk."""
        super().__init__()
        self.draw = random.Random(seed)
        self.left = dies_at
        self.steps = 0
        self.fails_at = frozenset(fails_at)
        self.dead = False
        self.syncs_failed = 0
        self.distrusted: set[str] = set()
        """The directories that have a file whose sync failed: the content of this file on the disk is not known."""
        self._nodes: dict[str, Directory] = {"": Directory()}
        """The directories by their present paths."""
        self._contents: dict[int, Contents] = {}
        if on is not None:
            self._find(on)

    def _find(self, on: MemoryStorage) -> None:
        for path in sorted(on.directories - {""}):
            directory, name = split(path)
            self._nodes[path] = self._nodes[directory].synced[name] = Directory()
        self.directories = set(on.directories)
        for path, data in on.files.items():
            held = self.files[path] = bytearray(data)
            directory, name = split(path)
            contents = self._contents[id(held)] = Contents(held, bytes(data))
            self._nodes[directory].synced[name] = contents

    # -- faults

    def step(self) -> BaseException | None:
        """Count one more change, and return the fault of this change."""
        if self.dead:
            raise Died
        self.steps += 1
        self.left -= 1
        if self.left < 0:
            self.dead = True
            return Died()
        if self.steps in self.fails_at:
            number = errno.ENOSPC if self.steps % 2 else errno.EIO
            return OSError(number, "No space left on device" if self.steps % 2 else "Input/output error")
        return None

    @staticmethod
    def raise_if(fault: BaseException | None) -> None:
        if fault is not None:
            raise fault

    def sync_failed(self, *directories: str) -> None:
        self.syncs_failed += 1
        self.distrusted.update(directories)

    def contents(self, held: bytearray) -> Contents:
        found = self._contents.get(id(held))
        if found is None:
            found = self._contents[id(held)] = Contents(held)
        return found

    # -- names

    def directory_of(self, path: str) -> Directory:
        found = self._nodes.get(split(path)[0])
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "No such directory", split(path)[0])
        return found

    def _change(self, path: str, change: Callable[[Names, str], object]) -> None:
        """Change a name in a directory. The disk has the change once the directory is synced, or by chance."""
        name = split(path)[1]
        self.directory_of(path).changes.append(lambda names: change(names, name))

    def link(self, path: str, held: bytearray) -> None:
        contents = self.contents(held)
        self._change(path, lambda names, name: names.__setitem__(name, contents))

    def file(self, path: str) -> FaultyFile:
        return FaultyFile(self, path)

    def save(self, path: str, data: bytes, *, sync: bool = False) -> None:
        self.raise_if(self.step())
        held = self.files[path] = bytearray(data)
        self.contents(held).unsynced.append((0, data))
        self.link(path, held)
        if sync:
            self.contents(held).sync()
            self.sync_directory(split(path)[0])

    def make_directory(self, path: str) -> None:
        if path in self.directories:
            return
        parent = split(path)[0]
        self.make_directory(parent)
        self.raise_if(self.step())
        super().make_directory(path)
        made = self._nodes[path] = Directory()
        # if the disk does not have the change that freed the name, it does not have the new directory either
        self._change(path, lambda names, name: names.setdefault(name, made))

    def rename(self, old: str, new: str) -> None:
        self.raise_if(self.step())
        super().rename(old, new)
        moved: Contents | Directory
        if new in self.files:
            moved = self.contents(self.files[new])
        else:
            moved = self._nodes[old]
            for path in [path for path in self._nodes if path == old or path.startswith(old + "/")]:
                self._nodes[new + path.removeprefix(old)] = self._nodes.pop(path)
        left, old_name = split(old)
        assert left == split(new)[0], "within one directory: else it would be two changes"

        def change(names: Names, name: str) -> None:
            names.pop(old_name, None)
            names[name] = moved

        self._change(new, change)

    def remove(self, path: str) -> None:
        if path in self.files:
            self.raise_if(self.step())
            super().remove(path)
            self._change(path, lambda names, name: names.pop(name, None))

    def remove_tree(self, path: str) -> None:
        if path not in self.directories:
            return
        for entry in self.entries(path):
            inside = f"{path}/{entry.name}"
            (self.remove_tree if entry.is_directory else self.remove)(inside)
        self.raise_if(self.step())
        super().remove_tree(path)
        del self._nodes[path]
        self._change(path, lambda names, name: names.pop(name, None))

    def sync_directory(self, path: str) -> None:
        self.raise_if(self.step())
        found = self._nodes.get(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "No such directory", path)
        found.sync()

    def sync_all(self) -> None:
        """Sync all, as syncfs does."""
        fault = self.step()
        known = list(self._contents.values())
        if isinstance(fault, OSError):
            self.sync_failed(*self.directories)
            for contents in known:
                contents.unsynced = []
        self.raise_if(fault)
        for contents in known:
            contents.sync()
        for directory in self._nodes.values():
            directory.sync()

    # -- after the end

    def left_behind(self, *, power_cut: bool) -> MemoryStorage:
        """The storage that the next process finds."""
        after = MemoryStorage()
        if not power_cut:
            after.directories = set(self.directories)
            after.files = {path: bytearray(data) for path, data in self.files.items()}
            return after
        self._lay_out(self._nodes[""], "", after)
        return after

    def _lay_out(self, directory: Directory, path: str, after: MemoryStorage) -> None:
        after.directories.add(path)
        for name, node in directory.after_power_cut(self.draw).items():
            inside = f"{path}/{name}" if path else name
            if isinstance(node, Directory):
                self._lay_out(node, inside, after)
            else:
                after.files[inside] = node.after_power_cut(self.draw)

    def entries(self, path: str) -> list[Entry]:
        if self.dead:
            raise Died
        return super().entries(path)
