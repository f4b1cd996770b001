"""The 61 bytes in front of every record batch v2 (KIP-98): read, walk over, stamp. Knows nothing of records and needs
no codec.

Layout, big-endian: base offset int64, length int32 (of what follows it), partition leader epoch int32, magic int8,
CRC-32C uint32 (over all that follows it), attributes int16, last offset delta int32, base timestamp int64, max
timestamp int64, producer id int64, producer epoch int16, base sequence int32, record count int32.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from google_crc32c import extend as crc32c_extend
from google_crc32c import value as crc32c

from muster.coordinator.log.errors import CorruptBatch, TruncatedBatch

Buffer = bytes | bytearray | memoryview

MAGIC = 2
HEADER_SIZE = 61
LENGTH_OVERHEAD = 12
"""Bytes in front of what the length counts."""
MIN_LENGTH = HEADER_SIZE - LENGTH_OVERHEAD
CRC_POSITION = 17
CRC_START = 21
"""Where the bytes covered by the CRC begin: at the attributes."""

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_LEADER_EPOCH = -1

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

_HEADER = struct.Struct(">qiibIhiqqqhii")
_unpack_bounds = struct.Struct(">qi11xi").unpack_from
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")
_ATTRIBUTES_POSITION = 21
_MAX_TIMESTAMP_POSITION = 35
_SEQUENCES = 1 << 31
unpack_header = _HEADER.unpack_from
"""The bare fields at a position, for the few places where a NamedTuple costs too much."""
stamp = struct.Struct(">qii").pack_into
"""`stamp(buffer, position, base_offset, length, leader_epoch)` in place; none of them is covered by the CRC."""
unpack_essence = struct.Struct(">8xi4xb6xi8xq").unpack_from
"""Length, magic, last offset delta and max timestamp of the header at a position: what an append looks at."""


class BatchHeader(NamedTuple):
    """The header of one record batch; offsets and timestamps in ms as they stand there."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The offset of the last record (compaction may have taken that record away)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The producer's sequence number of the last record; sequences go round after 2^31 - 1 (KIP-98); -1: none."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCES

    @property
    def compression(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        """The timestamps of all records are the max timestamp, set by the broker."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        """Part of a transaction."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Holds a marker (commit or abort) and no record of a producer."""
        return self.attributes & CONTROL != 0

    @property
    def has_producer_id(self) -> bool:
        """Sent by an idempotent or transactional producer."""
        return self.producer_id != NO_PRODUCER_ID


def read_header(data: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`. TruncatedBatch when fewer than 61 bytes are left; nothing else is checked."""
    if len(data) - position < HEADER_SIZE:
        raise TruncatedBatch(f"a batch header takes {HEADER_SIZE} bytes, {max(len(data) - position, 0)} are left")
    return BatchHeader._make(unpack_header(data, position))


def iterate(data: Buffer, start: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch in `data[start:end]`; a partial last batch ends it quietly, as in a
    fetch.

    CorruptBatch when a batch has an impossible length or another magic than 2.
    """
    stop = len(data) if end is None else end
    while stop - start >= HEADER_SIZE:
        header = BatchHeader._make(unpack_header(data, start))
        check_shape(header, start)
        if header.length + LENGTH_OVERHEAD > stop - start:
            return
        yield start, header
        start += header.length + LENGTH_OVERHEAD


def whole_batches(data: Buffer) -> tuple[int, int, int]:
    """How many bytes of `data` are whole batches, how long the batch after them is (0: there can be none), and the
    offset after the last whole one (-1: there is none).
    """
    at, stop, last, delta = 0, len(data), -2, 0
    while stop - at >= HEADER_SIZE:
        base_offset, length, next_delta = _unpack_bounds(data, at)
        if length < MIN_LENGTH:
            return at, 0, last + delta + 1
        if length + LENGTH_OVERHEAD > stop - at:
            return at, length + LENGTH_OVERHEAD, last + delta + 1
        last, delta = base_offset, next_delta
        at += length + LENGTH_OVERHEAD
    return at, HEADER_SIZE, last + delta + 1


def check_shape(header: BatchHeader, position: int) -> None:
    """CorruptBatch unless `header` can be that of a batch v2 at all."""
    if header.length < MIN_LENGTH:
        raise CorruptBatch(f"the batch at byte {position} has length {header.length}, below the minimum {MIN_LENGTH}")
    if header.magic != MAGIC:
        raise CorruptBatch(f"the batch at byte {position} has magic {header.magic}, expected {MAGIC}")
    if header.last_offset_delta < 0:
        raise CorruptBatch(f"the batch at byte {position} has last offset delta {header.last_offset_delta}")


def check_crc(data: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the batch at `position` is whole in `data` and its CRC-32C is right."""
    end = position + header.length + LENGTH_OVERHEAD
    return end <= len(data) and crc32c(bytes(data[position + CRC_START : end])) == header.crc


def set_log_append_time(buffer: bytearray, position: int, wall_ms: int, rest: Buffer = b"") -> None:
    """Make `wall_ms` the timestamp of all records of the batch at `position`, and its CRC right again.

    `rest`: what follows `buffer` when the batch is held in two pieces, so that a large one need not be copied.
    """
    header = read_header(buffer, position)
    _ATTRIBUTES.pack_into(buffer, position + _ATTRIBUTES_POSITION, header.attributes | LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, wall_ms)
    set_crc(buffer, position, header.length + LENGTH_OVERHEAD, rest)


def set_timestamps(buffer: bytearray, max_timestamp: int) -> None:
    """Say that the records of the batch in `buffer` carry the times of their creation, of which `max_timestamp` is the
    greatest, and make its CRC right again.
    """
    attributes = _ATTRIBUTES.unpack_from(buffer, _ATTRIBUTES_POSITION)[0] & ~LOG_APPEND_TIME
    _ATTRIBUTES.pack_into(buffer, _ATTRIBUTES_POSITION, attributes)
    _MAX_TIMESTAMP.pack_into(buffer, _MAX_TIMESTAMP_POSITION, max_timestamp)
    set_crc(buffer, 0, len(buffer))


def set_crc(buffer: bytearray, position: int, size: int, rest: Buffer = b"") -> None:
    """Compute the CRC of the batch of `size` bytes at `position` anew (the last bytes of it may stand in `rest`)."""
    crc = crc32c(bytes(buffer[position + CRC_START : position + size]))
    if rest:
        crc = crc32c_extend(crc, bytes(rest))
    _CRC.pack_into(buffer, position + CRC_POSITION, crc)
