"""The errors of a log. Each error that a client can get has Kafka's code in `error_code`."""

from __future__ import annotations

import errno
from typing import NamedTuple


class Place(NamedTuple):
    """A byte of a file."""

    path: str
    position: int


class DirectoryGone(OSError):
    """The data directory is no longer the directory that was opened."""

    def __init__(self, root: str, what: str) -> None:
        super().__init__(errno.ESTALE, f"the data directory {what} while the server runs", root)


class LogError(Exception):
    """The base class of this package's errors; `error_code` is Kafka's code."""

    error_code: int = -1


class BatchError(LogError, ValueError):
    """A record batch that Kafka would refuse."""


class CorruptBatch(BatchError):
    """A batch with a wrong size, CRC or structure (CORRUPT_MESSAGE)."""

    error_code = 2


class TruncatedBatch(CorruptBatch):
    """The bytes end before the batch does (CORRUPT_MESSAGE)."""


class UnknownFormat(CorruptBatch):
    """Bytes with an unknown magic: a batch of a newer version, or no batch (CORRUPT_MESSAGE)."""


class BatchTooLarge(BatchError):
    """A batch larger than `max.message.bytes` (MESSAGE_TOO_LARGE)."""

    error_code = 10


class MoreThanAllowed(BatchTooLarge):
    """A batch whose records are too many, or unpack to more bytes than this server checks."""


class RecordListTooLarge(BatchError):
    """Batches larger than a whole segment may be (RECORD_LIST_TOO_LARGE)."""

    error_code = 18


class UnsupportedCompression(BatchError):
    """A codec that is unknown, or not allowed in this version of Produce (UNSUPPORTED_COMPRESSION_TYPE)."""

    error_code = 76


class InvalidRecords(BatchError):
    """A well-formed batch that breaks a rule of the broker (INVALID_RECORD).

    `record_errors`: (index of the record in its batch, reason), for Produce responses v8+.
    """

    error_code = 87

    def __init__(self, message: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(message)
        self.record_errors = record_errors


class ProducerError(LogError):
    """A batch or marker does not fit what the producer, or its transaction's coordinator, appended before."""


class OutOfOrderSequence(ProducerError):
    """A gap in a producer's sequence, or a batch older than all remembered batches (OUT_OF_ORDER_SEQUENCE_NUMBER)."""

    error_code = 45


class InvalidProducerEpoch(ProducerError):
    """The log has seen a newer epoch of the producer (INVALID_PRODUCER_EPOCH)."""

    error_code = 47


class InvalidTxnState(ProducerError):
    """A batch that is part of no open transaction, or should be part of one (INVALID_TXN_STATE)."""

    error_code = 48


class TransactionCoordinatorFenced(ProducerError):
    """A marker of a coordinator that has a successor (TRANSACTION_COORDINATOR_FENCED)."""

    error_code = 52


class OffsetOutOfRange(LogError):
    """An offset below the log's start or above its end (OFFSET_OUT_OF_RANGE)."""

    error_code = 1

    def __init__(self, offset: int, start_offset: int, end_offset: int) -> None:
        super().__init__(f"offset {offset} is outside of the log, which goes from {start_offset} to {end_offset}")
        self.offset = offset
        self.start_offset = start_offset
        self.end_offset = end_offset


class FencedLeaderEpoch(LogError):
    """An append under an epoch older than an epoch that the log has seen (FENCED_LEADER_EPOCH)."""

    error_code = 74

    def __init__(self, epoch: int, current_epoch: int) -> None:
        super().__init__(f"leader epoch {epoch} is over: the log is at epoch {current_epoch}")
        self.epoch = epoch
        self.current_epoch = current_epoch


class LogOffline(LogError):
    """The log must be opened again: a write or a sync failed, or the log was closed (KAFKA_STORAGE_ERROR)."""

    error_code = 56

    def __init__(self, path: str, reason: str, *, is_reported: bool = False) -> None:
        """`is_reported`: the same failure of all logs was logged once."""
        super().__init__(f"{path} is offline: {reason}")
        self.path = path
        self.reason = reason
        self.is_reported = is_reported


class SegmentAbsent(LogError):
    """The segment is not on this machine now; `UnifiedLog.fetch_segment` fetches it (KAFKA_STORAGE_ERROR)."""

    error_code = 56

    def __init__(self, path: str, base_offset: int) -> None:
        super().__init__(f"{path} is not on this machine now")
        self.base_offset = base_offset


class DamagedLog(LogError):
    """A batch that was whole is damaged (KAFKA_STORAGE_ERROR). The log stays offline: no record is cut off."""

    error_code = 56

    state = "damaged"

    def __init__(self, place: Place, reason: str) -> None:
        super().__init__(f"{place.path} is {self.state} at byte {place.position}: {reason}")
        self.path = place.path
        self.position = place.position
        self.reason = reason

    @property
    def what(self) -> str:
        """The damage, without the name of the file."""
        return f"{self.state} at byte {self.position}: {self.reason}"

    @property
    def advice(self) -> str:
        """The advice for an operator."""
        directory, partition = self.path.rsplit("/", 2)[:2] if self.path.count("/") > 1 else (".", "NAME")
        return (
            f"stop, then `muster log check {directory}` and `muster log repair {directory} --partition {partition}`, "
            "or restore the folder from a backup"
        )


class UnreadableLog(DamagedLog):
    """A batch has an unknown format or codec (KAFKA_STORAGE_ERROR). The batch may be valid, and is left unchanged."""

    state = "not readable"

    @property
    def advice(self) -> str:
        """The advice for an operator."""
        folder = self.path.rpartition("/")[0] or "."
        return (
            f"nothing was changed: stop, and move {folder} away, or to a server that can read it (its writer, "
            "or a newer Muster)"
        )


def damage(place: Place, error: BatchError) -> DamagedLog:
    """Return the error of a log with an unreadable batch at `place`."""
    kind = UnreadableLog if isinstance(error, (UnknownFormat, UnsupportedCompression)) else DamagedLog
    return kind(place, str(error))


class InsaneIndex(LogError):
    """An index file that cannot belong to its segment; it is rebuilt from the log."""


class MalformedCheckpoint(LogError, ValueError):
    """A small file of a data directory cannot be decoded; the error names the file."""


class DirectoryLocked(LogError):
    """Another server uses the data directory; the error names the directory and, when known, the holder's pid."""

    def __init__(self, directory: str, pid: int | None) -> None:
        holder = f"process {pid}" if pid is not None else "another process"
        super().__init__(
            f"the data directory {directory} is in use by {holder}: stop it, or give this server a directory of its own"
        )
        self.directory = directory
        self.pid = pid


class WrongDirectory(LogError):
    """A data directory that belongs to another node or cluster."""
