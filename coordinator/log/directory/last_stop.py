"""The facts about the last stop, by partition, in the small files of a data directory: read and written."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

import structlog

from muster.coordinator.log import checkpoints
from muster.coordinator.log.checkpoints import Partition
from muster.coordinator.log.directory.offset_file import OffsetFile
from muster.coordinator.log.errors import MalformedCheckpoint
from muster.coordinator.log.storage.interfaces import Storage
from muster.coordinator.system.jobs import Job

_logger = structlog.get_logger("muster.log")


class LastStop(NamedTuple):
    """The facts about the last stop, for one partition."""

    was_clean: bool
    recovery_point: int = 0
    """All records before this offset were synced."""
    start_offset: int = 0


UNKNOWN = LastStop(was_clean=False)
"""The value for a partition that the checkpoints do not have."""


def load_offsets(storage: Storage, name: str, *, quiet: bool = False) -> dict[Partition, int]:
    """Read an offset checkpoint. {} when it is missing or unreadable; that is logged unless `quiet`. Raises OSError."""
    path = f"{storage.root}/{name}"
    data = storage.load(name)
    try:
        return {} if data is None else checkpoints.decode_offsets(path, data)
    except MalformedCheckpoint as error:
        if not quiet:
            _logger.warning("a checkpoint is ignored: it cannot be read", path=path, reason=str(error))
        return {}


class LastStops:
    """The facts of all partitions of a data directory. The server keeps them up to date, and `save` writes them."""

    def __init__(self, storage: Storage, *, quiet: bool = False) -> None:
        self._storage = storage
        self.was_clean = storage.load(checkpoints.CLEAN_SHUTDOWN) is not None
        self._recovery_points = load_offsets(storage, checkpoints.RECOVERY_POINTS, quiet=quiet)
        self._start_offsets = load_offsets(storage, checkpoints.START_OFFSETS, quiet=quiet)
        self._points_file = OffsetFile(storage, checkpoints.RECOVERY_POINTS)
        self._starts_file = OffsetFile(storage, checkpoints.START_OFFSETS)
        self._forgotten: dict[Partition, int] = {}
        """Deleted partitions that the files may still have, with the number of the deletion."""
        self._times = 0

    def of(self, partition: Partition) -> LastStop:
        """Return the facts of one partition. For a partition that the checkpoint does not have, the stop is not
        clean.
        """
        return LastStop(
            was_clean=self.was_clean and partition in self._recovery_points,
            recovery_point=self._recovery_points.get(partition, 0),
            start_offset=self._start_offsets.get(partition, 0),
        )

    def known(self) -> dict[Partition, LastStop]:
        """Return the facts of each partition in the recovery point checkpoint."""
        return {partition: self.of(partition) for partition in self._recovery_points}

    def note(self, partition: Partition, recovery_point: int, start_offset: int) -> None:
        """Note the present offsets of a log."""
        self._recovery_points[partition] = recovery_point
        if start_offset > 0:
            self._start_offsets[partition] = start_offset
        else:
            self._start_offsets.pop(partition, None)

    def forget(self, partition: Partition) -> None:
        """Forget a deleted partition. The files may still have it, see `is_forgotten`."""
        if self._recovery_points.pop(partition, 0) + self._start_offsets.pop(partition, 0) > 0:
            self._times += 1
            self._forgotten[partition] = self._times

    def forget_others(self, topics: Container[str]) -> None:
        """Forget the partitions of other topics: they were deleted before the last stop, and the files may have
        them.
        """
        for partition in [one for one in self._recovery_points if one[0] not in topics]:
            self.forget(partition)

    def is_forgotten(self, partition: Partition) -> bool:
        """Whether the files have offsets of an earlier log of this name.

        The files must be written before a new log of this name gets records. Otherwise a start after a kill compares
        the new log with the old offsets.
        """
        return partition in self._forgotten

    def save(self, *, sync: bool = False) -> None:
        """Write recovery points and start offsets. `sync`: so that they survive a power cut. Raises OSError."""
        self._points_file.save(self._recovery_points, sync=sync)
        self._starts_file.save(self._start_offsets, sync=sync)
        self._forgotten.clear()

    def saving(self) -> Job[None]:
        """Write the present values in a thread. Raises OSError."""
        times, points, starts = self._times, dict(self._recovery_points), dict(self._start_offsets)
        yield from self._points_file.saving(points)
        yield from self._starts_file.saving(starts)
        self._forgotten = {one: number for one, number in self._forgotten.items() if number > times}


def read_last_stops(storage: Storage) -> dict[Partition, LastStop]:
    """Return the facts of each partition that the checkpoints have. Raises OSError when one cannot be read."""
    return LastStops(storage, quiet=True).known()


def lower_recovery_point(storage: Storage, partition: Partition, offset: int) -> None:
    """Note that a repair has cut the log at `offset`: only offsets before it are known to be synced."""
    points = load_offsets(storage, checkpoints.RECOVERY_POINTS, quiet=True)
    if points.get(partition, 0) > offset:
        points[partition] = offset
        storage.save(checkpoints.RECOVERY_POINTS, checkpoints.encode_offsets(points), sync=True)
