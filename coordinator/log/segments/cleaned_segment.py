"""The segment that a compaction writes, and how it replaces the segments that it was made from.

`CleanedFile` has the kept batches of some segments, in their order, with its indexes. As on Kafka, the file is named
`.cleaned` while it is written, and `.swap` once it is complete and synced. Then the file gets its own name. A crash at
any moment leaves either the old segments or the new segment.

Steps 1 and 3 work on files, in a thread. Step 2 changes the log in memory, on the event loop:

1. `commit_swap`: writes the indexes and the end offset of the replaced segments. Then `.log.cleaned` becomes
   `.log.swap`. From then on a start finishes the swap (`leftovers`).
2. `LogSegments.replace`: readers continue in the `.log.swap`, which stays open.
3. `finish_swap`: the old files are removed, and the new files get their names. Then `Segment.end_swap`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from muster.coordinator.log.errors import CorruptBatch
from muster.coordinator.log.file_names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    REPLACES_SUFFIX,
    SNAPSHOT_SUFFIX,
    SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    encode_replaces,
)
from muster.coordinator.log.segments.index import MAX_RELATIVE_OFFSET, OffsetIndex, TimeIndex
from muster.coordinator.log.segments.transaction_index import ENTRY_SIZE, TransactionIndex, encode
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
        """End the file: write the buffered bytes, wait for the disk, close."""
        self._end_run()
        if self._parts:
            self._write()
        self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        self.file.sync()
        self.file.close()


def commit_swap(storage: Storage, directory: str, cleaned: CleanedFile, end_offset: int) -> None:
    """Make `cleaned` the valid segment for offsets up to `end_offset`. After an OSError the old segments stay valid."""
    name = cleaned.name
    storage.save(name + INDEX_SUFFIX + SWAP_SUFFIX, cleaned.index.encode(), sync=True)
    storage.save(name + TIME_INDEX_SUFFIX + SWAP_SUFFIX, cleaned.time_index.encode(), sync=True)
    if cleaned.aborted:
        entries = b"".join(map(encode, cleaned.aborted))
        storage.save(name + TRANSACTION_INDEX_SUFFIX + SWAP_SUFFIX, entries, sync=True)
    storage.save(name + REPLACES_SUFFIX, encode_replaces(end_offset), sync=True)
    storage.rename(name + LOG_SUFFIX + CLEANED_SUFFIX, name + LOG_SUFFIX + SWAP_SUFFIX)
    storage.sync_directory(directory)


def load_transaction_index(storage: Storage, cleaned: CleanedFile) -> TransactionIndex | None:
    """Return the transaction index of a compacted segment that is valid already. Raises OSError."""
    if not cleaned.aborted:
        return None
    file = storage.file(cleaned.name + TRANSACTION_INDEX_SUFFIX + SWAP_SUFFIX)
    index = TransactionIndex(file, len(cleaned.aborted) * ENTRY_SIZE)
    for _ in index.check(cleaned.base_offset):
        pass
    return index


def remove_cleaned(storage: Storage, cleaned: CleanedFile) -> None:
    """Remove the files of a compacted segment that is not valid."""
    cleaned.file.close()
    name = cleaned.name
    log = LOG_SUFFIX
    for suffix in (log + SWAP_SUFFIX, log + CLEANED_SUFFIX, INDEX_SUFFIX + SWAP_SUFFIX, TIME_INDEX_SUFFIX + SWAP_SUFFIX,
                   TRANSACTION_INDEX_SUFFIX + SWAP_SUFFIX, REPLACES_SUFFIX):  # fmt: skip
        storage.remove(name + suffix)


def finish_swap(storage: Storage, directory: str, name: str, replaced: Sequence[str]) -> None:
    """Replace the files of the segments `replaced` by those of `name`, unless a start has. Hold `files_lock`."""
    swap_name = (name + LOG_SUFFIX + SWAP_SUFFIX).removeprefix(f"{directory}/")
    names = {entry.name for entry in storage.entries(directory)}
    if swap_name not in names:
        return
    for old in replaced:
        for suffix in SUFFIXES:
            if old != name or suffix != SNAPSHOT_SUFFIX:  # the state of producers before the segment is unchanged
                storage.remove(old + suffix)
    storage.sync_directory(directory)
    has_aborted = swap_name.replace(LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX) in names
    indexes = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, *([TRANSACTION_INDEX_SUFFIX] if has_aborted else []))
    for suffix in (*indexes, LOG_SUFFIX):
        storage.rename(name + suffix + SWAP_SUFFIX, name + suffix)
    storage.sync_directory(directory)
    storage.remove(name + REPLACES_SUFFIX)
