"""A storage that dies between, or within, any two operations. One integer makes the whole history again.

What a killed process leaves is what it wrote. What a power cut leaves of a file is what was synced, and of the writes
since then some first part, the last of them perhaps torn.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from muster.coordinator.log.memory import MemoryFile, MemoryStorage


class Died(BaseException):
    """The process was killed here; not an Exception, so that nothing in the log can survive it by catching."""


class FaultyFile(MemoryFile):
    """A file that notes its writes until they are synced."""

    __slots__ = ("_storage",)

    def __init__(self, storage: FaultyStorage, path: str) -> None:
        super().__init__(storage.files, path)
        self._storage = storage

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        if self._storage.step():
            super().pwrite(bytes(data)[: self._storage.draw.randrange(len(data) + 1)], position)
            self._storage.die()
        self._storage.unsynced.setdefault(self._path, []).append((position, bytes(data)))
        super().pwrite(data, position)

    def pwrite_parts(self, parts: Sequence[bytes | bytearray | memoryview], position: int) -> None:
        self.pwrite(b"".join(parts), position)

    def truncate(self, size: int) -> None:
        self._storage.step_or_die()
        super().truncate(size)
        self._storage.synced.setdefault(self._path, bytearray())
        del self._storage.synced[self._path][size:]

    def sync(self) -> None:
        self._storage.step_or_die()
        try:
            held = self._bytes()
        except FileNotFoundError:
            return  # removed meanwhile, as `DiskFile.sync`
        self._storage.unsynced.pop(self._path, None)
        self._storage.synced[self._path] = bytearray(held)


class FaultyStorage(MemoryStorage):
    """Dies at its `dies_at`-th change."""

    def __init__(self, seed: int, dies_at: int) -> None:
        super().__init__()
        self.draw = random.Random(seed)
        self.left = dies_at
        self.dead = False
        self.synced: dict[str, bytearray] = {}
        self.unsynced: dict[str, list[tuple[int, bytes]]] = {}

    def step(self) -> bool:
        """One change more; True when it is the last."""
        if self.dead:
            raise Died
        self.left -= 1
        return self.left < 0

    def die(self) -> None:
        self.dead = True
        raise Died

    def step_or_die(self) -> None:
        if self.step():
            self.die()

    def file(self, path: str) -> FaultyFile:
        return FaultyFile(self, path)

    def save(self, path: str, data: bytes, *, sync: bool = False) -> None:
        self.step_or_die()
        super().save(path, data)

    def rename(self, old: str, new: str) -> None:
        self.step_or_die()
        super().rename(old, new)
        for held in (self.synced, self.unsynced):
            if old in held:
                held[new] = held.pop(old)  # type: ignore[index]  # the two dictionaries differ in their values only

    def remove(self, path: str) -> None:
        self.step_or_die()
        super().remove(path)

    def sync_directory(self, path: str) -> None:
        self.step_or_die()

    def left_behind(self, *, power_cut: bool) -> MemoryStorage:
        """What the next process finds."""
        after = MemoryStorage()
        after.directories = set(self.directories)
        after.files = {path: bytearray(data) for path, data in self.files.items()}
        if power_cut:
            for path, writes in self.unsynced.items():
                if path in after.files:
                    after.files[path] = bytearray(self.synced.get(path, b""))
                    file = after.file(path)
                    kept = writes[: self.draw.randrange(len(writes) + 1)]
                    for position, data in kept[:-1]:
                        file.pwrite(data, position)
                    for position, data in kept[-1:]:
                        file.pwrite(data[: self.draw.randrange(len(data) + 1)], position)
        return after
