"""What the small files of a data directory say of the last stop, partition by partition; and writing them."""

from __future__ import annotations

from typing import NamedTuple

import structlog

from muster.coordinator.log import checkpoints
from muster.coordinator.log.checkpoints import Partition
from muster.coordinator.log.errors import MalformedCheckpoint
from muster.coordinator.log.storage.interfaces import Storage

_logger = structlog.get_logger("muster.log")


class LastStop(NamedTuple):
    """What the data directory says of the last stop, for one partition."""

    was_clean: bool
    recovery_point: int = 0
    """All before it was synced."""
    start_offset: int = 0


UNKNOWN = LastStop(was_clean=False)
"""For a partition that the checkpoints do not know."""


def load_offsets(storage: Storage, name: str, *, quiet: bool = False) -> dict[Partition, int]:
    """An offset checkpoint; {} when it is missing or unreadable, which is logged unless `quiet`. Raises OSError."""
    path = f"{storage.root}/{name}"
    data = storage.load(name)
    try:
        return {} if data is None else checkpoints.decode_offsets(path, data)
    except MalformedCheckpoint as error:
        if not quiet:
            _logger.warning("a checkpoint is ignored: it cannot be read", path=path, reason=str(error))
        return {}


class LastStops:
    """Of all partitions of a data directory; kept up to date while the server runs, and written by `save`."""

    def __init__(self, storage: Storage, *, quiet: bool = False) -> None:
        self._storage = storage
        self.was_clean = storage.load(checkpoints.CLEAN_SHUTDOWN) is not None
        self._recovery_points = load_offsets(storage, checkpoints.RECOVERY_POINTS, quiet=quiet)
        self._start_offsets = load_offsets(storage, checkpoints.START_OFFSETS, quiet=quiet)

    def of(self, partition: Partition) -> LastStop:
        """Of one partition. How a log was left that the checkpoint does not know is not known."""
        return LastStop(
            was_clean=self.was_clean and partition in self._recovery_points,
            recovery_point=self._recovery_points.get(partition, 0),
            start_offset=self._start_offsets.get(partition, 0),
        )

    def known(self) -> dict[Partition, LastStop]:
        """Of each partition in the recovery point checkpoint."""
        return {partition: self.of(partition) for partition in self._recovery_points}

    def note(self, partition: Partition, recovery_point: int, start_offset: int) -> None:
        """How a log stands now."""
        self._recovery_points[partition] = recovery_point
        self._start_offsets[partition] = start_offset

    def forget(self, partition: Partition) -> bool:
        """The partition is no more; whether the files must be written for that."""
        noted = self._recovery_points.pop(partition, 0) + self._start_offsets.pop(partition, 0)
        return noted > 0

    def save(self, *, sync: bool = False) -> None:
        """Write recovery points and start offsets; `sync`: so that they survive a power cut. Raises OSError."""
        starts = {key: offset for key, offset in self._start_offsets.items() if offset > 0}
        self._storage.save(checkpoints.RECOVERY_POINTS, checkpoints.encode_offsets(self._recovery_points), sync=sync)
        self._storage.save(checkpoints.START_OFFSETS, checkpoints.encode_offsets(starts), sync=sync)


def read_last_stops(storage: Storage) -> dict[Partition, LastStop]:
    """Of each partition that the checkpoints know. OSError when one cannot be read."""
    return LastStops(storage, quiet=True).known()


def lower_recovery_point(storage: Storage, partition: Partition, offset: int) -> None:
    """A repair has left the log ending at `offset`: no more than that is known to be synced from now on."""
    points = load_offsets(storage, checkpoints.RECOVERY_POINTS, quiet=True)
    if points.get(partition, 0) > offset:
        points[partition] = offset
        storage.save(checkpoints.RECOVERY_POINTS, checkpoints.encode_offsets(points), sync=True)
