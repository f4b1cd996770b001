"""The two sparse indexes of a segment (Kafka: OffsetIndex, TimeIndex), and the search for a batch from an entry on."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from itertools import pairwise
from typing import Final

from muster.coordinator.log.errors import CorruptBatch, InsaneIndex, TruncatedBatch
from muster.coordinator.log.file_names import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from muster.coordinator.log.records.headers import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    check_shape,
    read_header,
    unpack_bounds,
)
from muster.coordinator.log.storage.interfaces import File, Storage

OFFSET_ENTRY = 8
TIME_ENTRY = 12
MAX_RELATIVE_OFFSET: Final = (1 << 31) - 1
"""The limit for offsets and positions in a segment, from its start: an entry has 32 bits for each."""


def _big_endian(values: array[int]) -> bytes:
    if sys.byteorder == "little":
        values = values[:]
        values.byteswap()
    return values.tobytes()


def _from_big_endian(code: str, data: bytes) -> array[int]:
    values = array(code)
    values.frombytes(data)
    if sys.byteorder == "little":
        values.byteswap()
    return values


def _rises(values: array[int], *, strictly: bool) -> bool:
    return all(a < b for a, b in pairwise(values)) if strictly else all(a <= b for a, b in pairwise(values))


class OffsetIndex:
    """Pairs of a batch's last offset, relative to the segment's base offset, and its position in the file."""

    __slots__ = ("offsets", "positions")

    def __init__(self) -> None:
        self.offsets: array[int] = array("i")
        self.positions: array[int] = array("i")

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, offset: int, position: int) -> None:
        """Add an entry. `offset` is relative. Both arguments are greater than in all entries before."""
        self.offsets.append(offset)
        self.positions.append(position)

    def lookup(self, offset: int) -> int:
        """Return the position where the search for a relative offset begins: no batch before it has the offset."""
        index = bisect_right(self.offsets, offset)
        return self.positions[index - 1] if index else 0

    def truncate(self, position: int) -> None:
        """Remove the entries of batches that begin at `position` or after it."""
        while self.positions and self.positions[-1] >= position:
            self.positions.pop()
            self.offsets.pop()

    def encode(self) -> bytes:
        """The bytes of an `.index` file: pairs of int32 (relative offset, position)."""
        pairs = array("i", bytes(OFFSET_ENTRY * len(self.offsets)))
        pairs[0::2] = self.offsets
        pairs[1::2] = self.positions
        return _big_endian(pairs)

    @classmethod
    def decode(cls, data: bytes, segment_size: int) -> OffsetIndex:
        """Decode the bytes of a file. Raises InsaneIndex when entries do not fit a segment of `segment_size` bytes."""
        if len(data) % OFFSET_ENTRY:
            raise InsaneIndex(f"{len(data)} bytes are no multiple of {OFFSET_ENTRY}")
        pairs = _from_big_endian("i", data)
        index = cls()
        index.offsets = pairs[0::2]
        index.positions = pairs[1::2]
        if len(index) and not (
            index.offsets[0] >= 0
            and index.positions[0] >= 0
            and index.positions[-1] < segment_size
            and _rises(index.offsets, strictly=True)
            and _rises(index.positions, strictly=True)
        ):
            raise InsaneIndex("its entries do not rise, or lead out of the segment")
        return index


class TimeIndex:
    """Pairs of the greatest timestamp so far (ms) and the relative offset of its batch."""

    __slots__ = ("offsets", "timestamps")

    def __init__(self) -> None:
        self.timestamps: array[int] = array("q")
        self.offsets: array[int] = array("i")

    def __len__(self) -> int:
        return len(self.timestamps)

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry, if `timestamp` is greater than all earlier timestamps. `offset`: relative."""
        if timestamp > (self.timestamps[-1] if self.timestamps else -1):
            self.timestamps.append(timestamp)
            self.offsets.append(offset)

    def lookup(self, timestamp: int) -> int:
        """Return a relative offset at or before the first record whose timestamp is `timestamp` or more."""
        index = bisect_right(self.timestamps, timestamp)
        return self.offsets[index - 1] if index else 0

    def truncate(self, offset: int) -> None:
        """Remove the entries at the relative `offset` and after it."""
        while self.offsets and self.offsets[-1] >= offset:
            self.offsets.pop()
            self.timestamps.pop()

    def encode(self) -> bytes:
        """The bytes of a `.timeindex` file: pairs of int64 (timestamp) and int32 (relative offset)."""
        timestamps = _big_endian(self.timestamps)
        offsets = _big_endian(self.offsets)
        data = bytearray(TIME_ENTRY * len(self.timestamps))
        # One byte of all entries is set at a time. A loop over the entries would block the event loop at each roll.
        for at in range(8):
            data[at::TIME_ENTRY] = timestamps[at::8]
        for at in range(4):
            data[8 + at :: TIME_ENTRY] = offsets[at::4]
        return bytes(data)

    @classmethod
    def decode(cls, data: bytes) -> TimeIndex:
        """Decode the bytes of a file. Raises InsaneIndex when the bytes cannot be an index."""
        if len(data) % TIME_ENTRY:
            raise InsaneIndex(f"{len(data)} bytes are no multiple of {TIME_ENTRY}")
        count = len(data) // TIME_ENTRY
        timestamps = bytearray(8 * count)
        offsets = bytearray(4 * count)
        for at in range(8):
            timestamps[at::8] = data[at::TIME_ENTRY]
        for at in range(4):
            offsets[at::4] = data[8 + at :: TIME_ENTRY]
        index = cls()
        index.timestamps = _from_big_endian("q", bytes(timestamps))
        index.offsets = _from_big_endian("i", bytes(offsets))
        if count and not (
            index.offsets[0] >= 0 and _rises(index.timestamps, strictly=True) and _rises(index.offsets, strictly=False)
        ):
            raise InsaneIndex("its entries do not rise")
        return index


def store_indexes(storage: Storage, name: str, index: OffsetIndex, time_index: TimeIndex) -> None:
    """Write both indexes. `name`: the path of the segment's files without a suffix."""
    storage.save(name + INDEX_SUFFIX, index.encode())
    storage.save(name + TIME_INDEX_SUFFIX, time_index.encode())


def load_indexes(
    storage: Storage, name: str, segment: File, base_offset: int, segment_size: int
) -> tuple[OffsetIndex, TimeIndex]:
    """Load both indexes of a segment. Raises InsaneIndex when an index is missing or cannot belong to the segment."""
    offsets = storage.load(name + INDEX_SUFFIX)
    times = storage.load(name + TIME_INDEX_SUFFIX)
    if offsets is None or times is None:
        raise InsaneIndex("it is missing")
    index = OffsetIndex.decode(offsets, segment_size)
    time_index = TimeIndex.decode(times)
    if len(index):
        data = segment.pread(HEADER_SIZE, index.positions[-1])
        try:
            found = read_header(data).last_offset - base_offset
        except TruncatedBatch as error:
            raise InsaneIndex("its last entry is not that of a batch") from error
        if found != index.offsets[-1]:
            raise InsaneIndex("its last entry is not that of a batch")
    return index, time_index


def batch_size(data: bytes, at: int) -> int:
    """Return the size in bytes of the batch that begins at `at`."""
    length: int = unpack_bounds(data, at)[1]
    return length + LENGTH_OVERHEAD


def find_offset(data: bytes, offset: int, file: File, position: int) -> int:
    """Return the position of the first batch in `data` that ends at `offset` or after it. Raises CorruptBatch.

    Without such a batch, return the negated number of searched bytes. `data` begins at `position` of `file`.
    """
    at, stop = 0, len(data) - HEADER_SIZE
    while at <= stop:
        base, length, magic, delta = unpack_bounds(data, at)
        if magic != MAGIC:
            return _find_any(data, at, offset, file, position)
        if base + delta >= offset:
            return at
        at += length + LENGTH_OVERHEAD
    if at > MAX_RELATIVE_OFFSET:
        raise CorruptBatch(f"{file.path} has a batch of impossible length behind byte {position}")
    return -at if at else _find_any(data, 0, offset, file, position)


def _find_any(data: bytes, at: int, offset: int, file: File, position: int) -> int:
    try:
        while at < len(data):
            header = read_header(data, at)
            check_shape(header, position + at)
            if header.last_offset >= offset:
                return at
            at += header.length + LENGTH_OVERHEAD
    except CorruptBatch as error:
        if at == 0:
            raise CorruptBatch(f"{file.path} has no whole batch at byte {position}") from error
    return -at
