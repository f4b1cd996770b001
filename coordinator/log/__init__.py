"""The log: segments in Kafka's format, on disk or in memory. Batches are appended, read, recovered and removed.

The log knows batches and offsets, and nothing of topics, groups or requests. `UnifiedLog` is the log of one partition,
and `LogManager` has the logs of a data directory.
"""

from muster.coordinator.log import checkpoints
from muster.coordinator.log.errors import (
    BatchError,
    BatchTooLarge,
    CorruptBatch,
    DamagedLog,
    DirectoryLocked,
    FencedLeaderEpoch,
    InvalidRecords,
    LogError,
    LogOffline,
    MalformedCheckpoint,
    OffsetOutOfRange,
    RecordListTooLarge,
    SegmentAbsent,
    TruncatedBatch,
    UnsupportedCompression,
    WrongDirectory,
)
from muster.coordinator.log.identity import Identity
from muster.coordinator.log.maintenance import Maintenance
from muster.coordinator.log.manager import LogManager
from muster.coordinator.log.records import batches
from muster.coordinator.log.records.headers import BatchHeader
from muster.coordinator.log.segments.reading import TimestampOffset
from muster.coordinator.log.settings import LogConfig, LogSettings
from muster.coordinator.log.storage.files import FileStorage, FilesystemSync
from muster.coordinator.log.storage.interfaces import File, FilePart, Storage
from muster.coordinator.log.storage.memory import MemoryStorage
from muster.coordinator.log.storage.shared_sync import SharedSync
from muster.coordinator.log.unified_log import AppendResult, UnifiedLog

__all__ = [
    "AppendResult", "BatchError", "BatchHeader", "BatchTooLarge", "CorruptBatch", "DamagedLog", "DirectoryLocked",
    "FencedLeaderEpoch", "File", "FilePart", "FileStorage", "FilesystemSync", "Identity", "InvalidRecords", "LogConfig",
    "LogError", "LogManager", "LogOffline", "LogSettings", "Maintenance", "MalformedCheckpoint", "MemoryStorage",
    "OffsetOutOfRange", "RecordListTooLarge", "SegmentAbsent", "SharedSync", "Storage", "TimestampOffset",
    "TruncatedBatch", "UnifiedLog", "UnsupportedCompression", "WrongDirectory", "batches", "checkpoints",
]  # fmt: skip
