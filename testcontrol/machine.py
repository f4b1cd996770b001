"""The machine of a server under test. The ids are drawn from a seed, and the clock can be moved. The disk can be full
or read-only for a while. Two runs with the same seed and the same requests get the same ids.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, cast

from muster.coordinator.log import MemoryStorage, Storage
from muster.coordinator.net.listener import Listener, ListenerAddress
from muster.coordinator.server.machine import Machine
from muster.coordinator.system import uuids
from muster.coordinator.system.clock import Clock
from muster.testcontrol.clock import MovableClock

_WRITES: Final = ("pwrite", "pwrite_parts", "truncate", "allocate")
_FILE_CALLS: Final = ("size", "pread", "part", "sync", "close", "is_removed")
_CHANGES: Final = ("make_directory", "save", "rename", "remove", "remove_tree")


class Disk:
    """Whether the disk accepts writes. `error`: the errno of refused writes; None: the disk accepts writes."""

    FULL: Final = errno.ENOSPC
    READ_ONLY: Final = errno.EROFS

    def __init__(self) -> None:
        self.error: int | None = None


class _GuardedStorage:
    def __init__(self, disk: Disk, storage: Any) -> None:
        self._disk = disk
        self._storage = storage
        for name in _CHANGES:
            setattr(self, name, _guarded(disk, getattr(storage, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def file(self, path: str) -> Any:
        return _GuardedFile(self._disk, self._storage.file(path))


class _GuardedFile:
    __slots__ = ("_file", *_WRITES, *_FILE_CALLS)

    def __init__(self, disk: Disk, file: Any) -> None:
        self._file = file
        for name in _WRITES:
            setattr(self, name, _guarded(disk, getattr(file, name)))
        for name in _FILE_CALLS:
            setattr(self, name, getattr(file, name))

    @property
    def path(self) -> str:
        return str(self._file.path)


def _guarded(disk: Disk, call: Any) -> Any:
    def asked(*given: Any, **named: Any) -> Any:
        if disk.error is not None:
            raise OSError(disk.error, os.strerror(disk.error))
        return call(*given, **named)

    return asked


class ControlledMachine(Machine):
    """The machine of a server under test. The memory stays when the server is started on the machine again."""

    may_pause_one_node = True
    ports_of_before: ClassVar[Sequence[int]] = ()
    """The first value of `ports`, in a process that replaces another process."""

    def __init__(self, seed: int | None = None, *, starts_frozen: bool = False) -> None:
        """`seed`: for the ids of members, topics, producers and the cluster. The seed also orders timers with the same
        deadline. None: ids are random, and such timers keep the order in which they were set.

        `starts_frozen`: time is frozen from the start, until it is moved.
        """
        self.seed = seed
        self._starts_frozen = starts_frozen
        self._random = None if seed is None else random.Random(seed)
        # a generator of its own: the number of timers must not change the next id
        self._order = None if seed is None else random.Random(f"order {seed}")
        self._memory = MemoryStorage()
        self.disk = Disk()
        self.ports = list(self.ports_of_before)
        """The ports of the previous server. Each listener that may take any port takes the next of these ports."""

    def clock(self) -> Clock:
        """See `Machine`; a clock that can be moved."""
        clock = MovableClock(super().clock(), self._order)
        if self._starts_frozen:
            clock.freeze()
        return clock

    def draw_uuid(self) -> bytes:
        return super().draw_uuid() if self._random is None else uuids.draw_uuid(self._random.randbytes)

    def draw_uuid_text(self) -> str:
        return super().draw_uuid_text() if self._random is None else uuids.draw_uuid_text(self._random.randbytes)

    def storage(self, directory: Path | None) -> Storage:
        storage = self._memory if directory is None else super().storage(directory)
        return cast(Storage, _GuardedStorage(self.disk, storage))

    def listener(self, address: ListenerAddress, *more: Any) -> Listener:
        if not address.port and self.ports:
            address = address._replace(port=self.ports.pop(0))
        return super().listener(address, *more)
