"""Writes an offset checkpoint of a data directory, on the event loop or in a thread."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from threading import Lock

from muster.coordinator.log import checkpoints
from muster.coordinator.log.checkpoints import Partition
from muster.coordinator.log.storage.interfaces import Storage
from muster.coordinator.system.jobs import Job, OffloadedWork


class OffsetFile:
    """One offset checkpoint. Writes may overtake each other; the file keeps the offsets that were given last."""

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage = storage
        self._name = name
        self._writing = Lock()
        self._begun = self._written = 0

    def save(self, offsets: Mapping[Partition, int], *, sync: bool = False) -> None:
        """Write the file now. `sync`: so that it survives a power cut. Raises OSError."""
        self._begun += 1
        self._write(self._begun, offsets, sync=sync)

    def saving(self, offsets: Mapping[Partition, int]) -> Job[None]:
        """Write the file in a thread: encoding tens of thousands of partitions takes long.

        Nobody may change `offsets` meanwhile. Raises OSError.
        """
        self._begun += 1
        yield OffloadedWork(partial(self._write, self._begun, offsets, sync=False))

    def _write(self, number: int, offsets: Mapping[Partition, int], *, sync: bool) -> None:
        with self._writing:
            if number > self._written:
                self._storage.save(self._name, checkpoints.encode_offsets(offsets), sync=sync)
                self._written = number
