"""The file that a compaction writes, with its indexes: the kept batches of some segments, in their order.

It is named `.log.cleaned` beside them until it is complete and synced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.coordinator.log.errors import CorruptBatch
from muster.coordinator.log.segments.file_names import CLEANED_SUFFIX, LOG_SUFFIX
from muster.coordinator.log.segments.index import MAX_RELATIVE_OFFSET, OffsetIndex, TimeIndex
from muster.coordinator.log.storage.interfaces import Storage

if TYPE_CHECKING:
    from muster.coordinator.log.segments.transaction_index import AbortedTransaction

_WRITE_BYTES = 512 * 1024


class CleanedFile:
    """A segment that a compaction is writing."""

    def __init__(self, storage: Storage, name: str, base_offset: int, index_interval_bytes: int) -> None:
        """`name`: the path of the segment's files without a suffix. Older files of that name are removed."""
        self.name = name
        self.base_offset = base_offset
        self.file = storage.file(name + LOG_SUFFIX + CLEANED_SUFFIX)
        self.file.truncate(0)
        self.size = 0
        self.index = OffsetIndex()
        self.time_index = TimeIndex()
        self.aborted: list[AbortedTransaction] = []
        """The transactions whose markers were kept, as in the transaction index."""
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        self.next_offset = base_offset
        self._interval = index_interval_bytes
        self._next_entry = index_interval_bytes
        self._run: bytes = b""
        self._run_start = self._run_end = 0
        self._parts: list[bytes] = []
        self._waiting = 0
        self._written = 0

    def keep(self, data: bytes, start: int, end: int, last_offset: int, max_timestamp: int) -> None:
        """Add the batch `data[start:end]`."""
        position = self.size
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = max_timestamp, last_offset
        if position > self._next_entry:
            self.index.append(last_offset - self.base_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
            self._next_entry = position + self._interval
        elif position == 0:
            self.first_timestamp = max_timestamp
        self.size = position + end - start
        self.next_offset = last_offset + 1
        if data is self._run and start == self._run_end:
            self._run_end = end
            return
        self._end_run()
        self._run, self._run_start, self._run_end = data, start, end

    def _end_run(self) -> None:
        if self._run_end > self._run_start:
            self._parts.append(self._run[self._run_start : self._run_end])
            self._waiting += self._run_end - self._run_start
        self._run, self._run_start, self._run_end = b"", 0, 0
        if self._waiting >= _WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        if self._written + self._waiting > MAX_RELATIVE_OFFSET:
            raise CorruptBatch(f"{self.file.path} grows beyond what a segment may have")
        self.file.pwrite(b"".join(self._parts), self._written)
        self._written += self._waiting
        self._parts, self._waiting = [], 0

    def end(self) -> None:
        """End the file: write the rest, wait for the disk, close."""
        self._end_run()
        if self._parts:
            self._write()
        self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        self.file.sync()
        self.file.close()
