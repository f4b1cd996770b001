"""One segment: a file of record batches, its two sparse indexes, and the search for an offset in it."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator

from muster.coordinator.log.errors import CorruptBatch, InsaneIndex, LogError, Place, TruncatedBatch
from muster.coordinator.log.file_names import DELETED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, SUFFIXES, TIME_INDEX_SUFFIX
from muster.coordinator.log.records.headers import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    check_shape,
    read_header,
    unpack_header,
)
from muster.coordinator.log.segments.absence import AbsentFile, SegmentFigures
from muster.coordinator.log.segments.cleaned_segment import CleanedFile
from muster.coordinator.log.segments.index import (
    MAX_RELATIVE_OFFSET,
    OFFSET_ENTRY,
    TIME_ENTRY,
    OffsetIndex,
    TimeIndex,
    batch_size,
    find_offset,
    load_indexes,
    store_indexes,
)
from muster.coordinator.log.settings import LogConfig
from muster.coordinator.log.storage.interfaces import File, FilePart, Storage

_TAIL_BATCHES = 8192
_SCAN_BYTES = 64 * 1024
_SHORT_READ = 64 * 1024


class Segment:
    """A segment file. `size`: the bytes of batches (a preallocated file is longer)."""

    __slots__ = (
        "_index", "_since_index", "_storage", "_stored", "_tail_floor", "_tail_offsets", "_tail_positions",
        "_time_index", "base_offset", "config", "created_ms", "file", "first_timestamp", "has_full_index",
        "is_absent", "is_held", "is_replaced", "last_read", "max_timestamp", "max_timestamp_offset", "name", "size",
    )  # fmt: skip

    def __init__(self, storage: Storage, name: str, base_offset: int, config: LogConfig, created_ms: int) -> None:
        self._storage = storage
        self.name = name
        self.base_offset = base_offset
        self.config = config
        self.created_ms = created_ms
        self.file: File = storage.file(name + LOG_SUFFIX)
        self.size = 0
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        self._index: OffsetIndex | None = OffsetIndex()
        self._time_index: TimeIndex | None = TimeIndex()
        self.has_full_index = False
        """The last value of `is_index_full`: an append need not compute it."""
        self.is_held = False
        """Whether the file must stay open, and the indexes in memory, because a compaction is renaming the files."""
        self.is_absent = False
        self.is_replaced = False
        """Whether a compacted segment has replaced this segment, which is not read any more."""
        self._stored = False
        self._since_index = 0
        self._tail_offsets: array[int] = array("i")
        self._tail_positions: array[int] = array("i")
        self._tail_floor = 0
        self.last_read = (-1, 0)
        """The offset that was read last, and the position of its batch."""

    def create(self) -> None:
        """Create the empty file of the segment: a start then knows that the log reaches at least to this offset."""
        self.file.truncate(0)
        if self.config.preallocate:
            self.file.allocate(self.config.segment_bytes)
        self.file.close()

    def discard(self) -> str:
        """Take the segment's files out of the log. Returns the name of the file to remove later; "" without one."""
        self.file.close()
        name = "" if self.is_absent else self.name + LOG_SUFFIX + DELETED_SUFFIX
        if name:
            self._storage.rename(self.name + LOG_SUFFIX, name)
        for suffix in SUFFIXES[1:]:
            self._storage.remove(self.name + suffix)
        return name

    def adopt(self, size: int) -> None:
        """Use an existing file of `size` bytes. The indexes are read when they are first needed."""
        self.size = size
        self._index = None
        self._time_index = None
        self._stored = True
        self._tail_floor = MAX_RELATIVE_OFFSET

    def adopt_cleaned(self, cleaned: CleanedFile, swap_name: str) -> None:
        """Use the file of a compaction, which is named `swap_name` until `end_swap`."""
        self.adopt(cleaned.size)
        self._index, self._time_index = cleaned.index, cleaned.time_index
        self.first_timestamp, self.max_timestamp = cleaned.first_timestamp, cleaned.max_timestamp
        self.max_timestamp_offset = cleaned.max_timestamp_offset
        self.file = self._storage.file(swap_name)
        self.file.pread(1, 0)  # this opens the file
        self.is_held = True

    def end_swap(self) -> None:
        """Note that all files of the segment have their own names now."""
        self.file.close()
        self.file = self._storage.file(self.name + LOG_SUFFIX)
        self.is_held = False

    # -- absence

    def figures(self) -> SegmentFigures:
        """Return the values to keep of a full segment while its file is absent. Raises LogError, OSError."""
        self.largest_timestamp()  # this computes the greatest timestamp, if it is unknown
        if self.first_timestamp < 0 and self.size:
            self.first_timestamp = read_header(self.file.pread(HEADER_SIZE, 0)).max_timestamp
        return SegmentFigures(
            self.base_offset, self.size, self.first_timestamp, self.max_timestamp, self.max_timestamp_offset
        )

    def evict(self) -> str:
        """Make the segment absent. Returns the new name of the file, to be removed later. Raises LogError, OSError."""
        figures = self.figures()
        self.file.close()
        name = self.name + LOG_SUFFIX + DELETED_SUFFIX
        self._storage.rename(self.name + LOG_SUFFIX, name)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            self._storage.remove(self.name + suffix)
        self.make_absent(figures)
        return name

    def make_absent(self, figures: SegmentFigures) -> None:
        """Note that the file is not on this machine: reads raise SegmentAbsent until `make_present`."""
        self.adopt(figures.size)
        self._forget_tail()
        _, _, self.first_timestamp, self.max_timestamp, self.max_timestamp_offset = figures
        self.last_read = (-1, 0)
        self.file = AbsentFile(self.file.path, self.base_offset)
        self.is_absent = True

    def make_present(self) -> None:
        """Note that the file is on this machine, whole and with its indexes."""
        self.file = self._storage.file(self.name + LOG_SUFFIX)
        self.is_absent = False

    def fail_fetch(self, failure: LogError) -> None:
        """Note that the file cannot be fetched: reads raise `failure` in place of SegmentAbsent."""
        self.file = AbsentFile(self.file.path, self.base_offset, failure)

    # -- writing

    def note(self, size: int, last_offset: int, max_timestamp: int) -> None:
        """Note that a batch of `size` bytes was written at the end."""
        position, relative, tail = self.size, last_offset - self.base_offset, self._tail_offsets
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = max_timestamp, last_offset
        if self._since_index > self.config.index_interval_bytes:
            self._add_index_entry(relative, position)
        self._since_index += size
        self._stored = False
        self.size = position + size
        if not tail:
            if position:
                self._tail_floor = min(self._tail_floor, relative)
            else:
                self._tail_floor, self.first_timestamp = 0, max_timestamp
        elif len(tail) == _TAIL_BATCHES:
            half = _TAIL_BATCHES // 2
            self._tail_floor = tail[half - 1] + 1
            del tail[:half], self._tail_positions[:half]
        tail.append(relative)
        self._tail_positions.append(position)

    def _add_index_entry(self, relative: int, position: int) -> None:
        self.index().append(relative, position)
        self.time_index().maybe_append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        self._since_index = 0
        self.has_full_index = self.is_index_full

    @property
    def is_index_full(self) -> bool:
        """Whether no further entry fits into `segment.index.bytes` (one entry of the time index is for the roll)."""
        limit = self.config.segment_index_bytes
        return len(self.index()) >= limit // OFFSET_ENTRY or len(self.time_index()) >= limit // TIME_ENTRY - 1

    def store_indexes(self) -> None:
        """Write the index files as Kafka leaves them on roll and close: the last entry is the greatest timestamp."""
        if self._stored:
            return
        time_index = self.time_index()
        time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        store_indexes(self._storage, self.name, self.index(), time_index)
        self._stored = True

    def seal(self) -> None:
        """End the appends: store the indexes, give back reserved room, memory and handle."""
        self.store_indexes()
        if self.config.preallocate:
            self.file.truncate(self.size)
        self.release()

    def release(self) -> None:
        """Free what can be read again: the handle, the indexes, the positions of the newest batches."""
        if self.is_held:
            return
        self.file.close()
        if self._stored:
            self._index = self._time_index = None
            self._forget_tail()

    def _forget_tail(self) -> None:
        del self._tail_offsets[:], self._tail_positions[:]
        self._tail_floor = MAX_RELATIVE_OFFSET

    def cut(self, position: int) -> int:
        """Remove the batch at `position` and all later batches; return the end offset of the remaining batches."""
        offset = next(self.batches(position, self.size))[1].base_offset
        self.index().truncate(position)
        self.time_index().truncate(offset - self.base_offset)
        self.file.truncate(position)
        self.size = position
        self.last_read = (-1, 0)
        self._forget_tail()
        self._stored = False
        return self.restore_marks()

    # -- indexes

    def index(self) -> OffsetIndex:
        """The offset index, read or rebuilt when it is not in memory."""
        if self._index is None:
            self._load_indexes()
        assert self._index is not None
        return self._index

    def time_index(self) -> TimeIndex:
        """The time index, read or rebuilt when it is not in memory."""
        if self._time_index is None:
            self._load_indexes()
        assert self._time_index is not None
        return self._time_index

    def _load_indexes(self) -> None:
        if self.is_absent:
            self.file.size()  # this raises SegmentAbsent
        try:
            self._index, self._time_index = load_indexes(
                self._storage, self.name, self.file, self.base_offset, self.size
            )
        except InsaneIndex:
            self.rebuild_indexes()

    def reset_indexes(self) -> None:
        """Discard the indexes: batches are noted again from the start of the file."""
        self._index, self._time_index = OffsetIndex(), TimeIndex()
        self._stored = False
        self._since_index = 0
        self.size = 0
        self.first_timestamp = self.max_timestamp = -1
        self.max_timestamp_offset = self.base_offset
        del self._tail_offsets[:], self._tail_positions[:]
        self._tail_floor = 0

    def rebuild_indexes(self) -> None:
        """Rebuild both indexes from the batches. Raises CorruptBatch when the batches are not in order."""
        if self.is_absent:
            self.file.size()  # this raises SegmentAbsent
        size = self.size
        batches = self.batches(0, size)
        self.reset_indexes()
        try:
            for position, header in batches:
                if not 0 <= header.last_offset - self.base_offset <= MAX_RELATIVE_OFFSET:
                    raise CorruptBatch(f"{self.file.path} has the offset {header.last_offset} at byte {position}")
                self.note(header.size, header.last_offset, header.max_timestamp)
        finally:
            self.size = size
        # as in a cleanly closed segment, the last entry is the greatest timestamp
        self.time_index().maybe_append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def restore_marks(self) -> int:
        """Find the first and greatest timestamp from the indexes and the batches after them; return the next offset."""
        index, time_index = self.index(), self.time_index()
        self.first_timestamp, self.max_timestamp, self.max_timestamp_offset = -1, -1, self.base_offset
        if len(time_index):
            self.max_timestamp = time_index.timestamps[-1]
            self.max_timestamp_offset = self.base_offset + time_index.offsets[-1]
        start = index.positions[-1] if len(index) else 0
        next_offset = self.base_offset
        for position, header in self.batches(start, self.size):
            if position == 0:
                self.first_timestamp = header.max_timestamp
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
            next_offset = header.next_offset
        if start:
            self.first_timestamp = next(self.batches(0, self.size))[1].max_timestamp
        self._since_index = self.size - start
        self.has_full_index = self.is_index_full
        return next_offset

    def largest_timestamp(self) -> int:
        """The greatest timestamp in the segment for retention; the file's own time when no record has one."""
        if self.max_timestamp < 0 and self.size and not self.is_absent:
            time_index = self.time_index()
            if len(time_index):
                self.max_timestamp = time_index.timestamps[-1]
                self.max_timestamp_offset = self.base_offset + time_index.offsets[-1]
        return self.max_timestamp if self.max_timestamp >= 0 else self.created_ms

    # -- reading

    def place(self, position: int) -> Place:
        """Return `position` as a byte of the segment file, for messages."""
        return Place(self.file.path, position)

    def batches(self, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yield position and header of the batches from `position` to `end`. Raises CorruptBatch for a wrong batch."""
        make = BatchHeader._make
        while position < end:
            data = self.file.pread(min(_SCAN_BYTES, end - position), position)
            at = 0
            while len(data) - at >= HEADER_SIZE:
                header = make(unpack_header(data, at))
                if header.magic != MAGIC:
                    header = read_header(data, at)
                check_shape(header, position + at)
                yield position + at, header
                at += header.length + LENGTH_OVERHEAD
            if at == 0:
                header = self._last_header(data, position)
                yield position, header
                at = header.size
            position += at

    def _last_header(self, data: bytes, position: int) -> BatchHeader:
        """Return the header of an old message that ends the file: it may be shorter than a header v2."""
        try:
            header = read_header(data)
        except TruncatedBatch as error:
            what = f"{self.file.path} ends within the header of the batch at byte {position}"
            raise CorruptBatch(what) from error
        check_shape(header, position)
        return header

    def locate(self, offset: int) -> tuple[int, int] | None:
        """Return position and size of the first batch that ends at `offset` or later; None without such a batch."""
        relative = offset - self.base_offset
        if relative >= self._tail_floor:
            index = bisect_left(self._tail_offsets, relative)
            if index == len(self._tail_offsets):
                return None
            position = self._tail_positions[index]
            after = self._tail_positions[index + 1] if index + 1 < len(self._tail_positions) else self.size
            return position, after - position
        position = self.index().lookup(relative)
        size = self.size
        while position < size:
            data = self.file.pread(min(self.config.index_interval_bytes + HEADER_SIZE, size - position), position)
            at = find_offset(data, offset, self.file, position)
            if at >= 0:
                return position + at, batch_size(data, at)
            position -= at
        return None

    def read(
        self, offset: int, max_bytes: int, end_position: int, min_one_message: bool, for_socket: bool
    ) -> bytes | FilePart | None:
        """Return bytes from the batch with `offset` on, up to `end_position`; None when the segment ends before.

        `for_socket`: many bytes may be a part of the file.
        """
        if offset - self.base_offset < self._tail_floor and max_bytes <= _SHORT_READ:
            found = self._read_short(offset, max_bytes, end_position, min_one_message)
            if found is not None:
                return found
        where = self.locate(offset)
        if where is None:
            return None
        position, size = where
        self.last_read = (offset, position)
        if size > max_bytes:
            if not min_one_message:
                return b""
            max_bytes = size
        if for_socket and (part := self.file.part(min(max_bytes, end_position - position), position)) is not None:
            return part
        return self.file.pread(min(max_bytes, end_position - position), position) if end_position > position else b""

    def _read_short(self, offset: int, max_bytes: int, end_position: int, min_one_message: bool) -> bytes | None:
        """Find the batch and its bytes with one read of the file; None when one read does not suffice."""
        position = self.index().lookup(offset - self.base_offset)
        if position >= end_position:
            return None
        wanted = 2 * self.config.index_interval_bytes + max_bytes
        data = self.file.pread(min(wanted, end_position - position), position)
        at = find_offset(data, offset, self.file, position) if len(data) >= HEADER_SIZE else -1
        if at < 0:
            return None
        size = batch_size(data, at)
        self.last_read = (offset, position + at)
        if size > max_bytes and not min_one_message:
            return b""
        wanted = max(size, max_bytes)
        if at + wanted > len(data) and position + len(data) < end_position:
            return None
        return data[at : at + wanted]
