"""The start offset of each leader epoch (KIP-101; Kafka: LeaderEpochFileCache), and its checkpoint file."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import structlog

from muster.coordinator.log.checkpoints import LEADER_EPOCHS, decode_epochs, encode_epochs
from muster.coordinator.log.errors import MalformedCheckpoint
from muster.coordinator.log.storage.interfaces import Storage

UNDEFINED = (-1, -1)
_logger = structlog.get_logger("muster.log")


class LeaderEpochs:
    """The epochs of one log, each with the offset of its first record. Epochs and offsets always rise."""

    __slots__ = ("_epochs", "_starts", "latest")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        """`entries`: pairs (epoch, start offset) in order, as read from a checkpoint."""
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest = -1
        for epoch, start in entries:
            self.assign(epoch, start)

    def entries(self) -> list[tuple[int, int]]:
        """Pairs (epoch, start offset), in order."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Begin `epoch` at `start_offset`. True for a new epoch. As on Kafka, contradicting entries are dropped."""
        if epoch < 0:
            return False
        if self._epochs and epoch == self._epochs[-1] and start_offset >= self._starts[-1]:
            return False
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.latest = epoch
        return True

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the greatest epoch not above `epoch`, and its end (Kafka: endOffsetFor); (-1, -1) when unknown."""
        if epoch == -1 or not self._epochs:  # other negative epochs are below all known epochs, as on Kafka
            return UNDEFINED
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return UNDEFINED
        # below the first known epoch: earlier records are not in the log, so their end is the first known start
        return (self._epochs[higher - 1] if higher else epoch), self._starts[higher]

    def epoch_of(self, offset: int) -> int:
        """Return the epoch under which the record at `offset` was appended; -1 when it is unknown."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else -1

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget the epochs that begin at `end_offset` or after it. True when an entry was removed."""
        keep = bisect_left(self._starts, end_offset)
        changed = keep < len(self._starts)
        del self._epochs[keep:], self._starts[keep:]
        self.latest = self._epochs[-1] if self._epochs else -1
        return changed

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forget the epochs before the epoch of `start_offset`, and begin that epoch there. True after a change."""
        index = bisect_right(self._starts, start_offset) - 1
        if index < 0 or (index == 0 and self._starts[0] == start_offset):
            return False
        del self._epochs[:index], self._starts[:index]
        self._starts[0] = start_offset
        return True


def load_epochs(storage: Storage, directory: str) -> LeaderEpochs:
    """Load the epochs in the checkpoint of a partition's folder; none when the file is missing or unreadable."""
    path = f"{directory}/{LEADER_EPOCHS}"
    data = storage.load(path)
    try:
        return LeaderEpochs() if data is None else LeaderEpochs(decode_epochs(path, data))
    except MalformedCheckpoint as error:
        _logger.warning("a checkpoint is ignored: it cannot be read", path=path, reason=str(error))
        return LeaderEpochs()


def store_epochs(storage: Storage, directory: str, epochs: LeaderEpochs) -> None:
    """Write the checkpoint. Raises OSError."""
    storage.save(f"{directory}/{LEADER_EPOCHS}", encode_epochs(epochs.entries()))
