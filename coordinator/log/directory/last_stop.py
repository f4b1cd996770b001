"""What the small files of a data directory say of the last stop, partition by partition: for opening a log and for
looking at it. Changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster.coordinator.log.directory import checkpoints
from muster.coordinator.log.directory.checkpoints import Partition
from muster.coordinator.log.errors import MalformedCheckpoint
from muster.coordinator.log.storage.interfaces import Storage


@dataclass(frozen=True, slots=True)
class LastStop:
    """What the data directory says of the last stop, for one partition."""

    was_clean: bool
    recovery_point: int = 0
    """All before it was synced."""
    start_offset: int = 0


UNKNOWN = LastStop(was_clean=False)
"""For a partition that the checkpoints do not know."""


def read_last_stops(storage: Storage) -> dict[Partition, LastStop]:
    """Of each partition in the recovery point checkpoint; a file that cannot be understood is passed over, as the
    server does. OSError when one cannot be read.
    """
    was_clean = storage.load(checkpoints.CLEAN_SHUTDOWN) is not None
    starts = _offsets(storage, checkpoints.START_OFFSETS)
    return {
        partition: LastStop(was_clean, recovery_point, starts.get(partition, 0))
        for partition, recovery_point in _offsets(storage, checkpoints.RECOVERY_POINTS).items()
    }


def lower_recovery_point(storage: Storage, partition: Partition, offset: int) -> None:
    """A repair has left the log ending at `offset`: no more than that is known to be synced from now on."""
    points = _offsets(storage, checkpoints.RECOVERY_POINTS)
    if points.get(partition, 0) > offset:
        points[partition] = offset
        storage.save(checkpoints.RECOVERY_POINTS, checkpoints.encode_offsets(points), sync=True)


def _offsets(storage: Storage, name: str) -> dict[Partition, int]:
    data = storage.load(name)
    try:
        return {} if data is None else checkpoints.decode_offsets(f"{storage.root}/{name}", data)
    except MalformedCheckpoint:
        return {}
