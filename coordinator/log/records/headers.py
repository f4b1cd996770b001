"""The header of a record batch v2 (KIP-98): the only module that knows the layout of its 61 bytes.

All fields are big-endian, in the order of `BatchHeader`. The length field counts the bytes after it, and the CRC-32C
covers the bytes after it. Messages of old formats (`protocol.message_sets`) are read as headers too.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from google_crc32c import extend as crc32c_extend
from google_crc32c import value as crc32c

from muster.coordinator.log.errors import CorruptBatch, TruncatedBatch, UnknownFormat
from muster.protocol import message_sets

Buffer = bytes | bytearray | memoryview

MAGIC = 2
OLD_MAGIC = (0, 1)
HEADER_SIZE = 61
MIN_BATCH_SIZE = message_sets.MIN_SIZES[0]
"""The least size of a batch of any format."""
LENGTH_OVERHEAD = 12
"""How many bytes at the start of a batch its length field does not count."""
MIN_LENGTH = HEADER_SIZE - LENGTH_OVERHEAD
UNKNOWN_COUNT = -1
"""The record count of a compressed message: it is known only after unpacking."""
CRC_POSITION = 17
CRC_START = 21
"""The first byte that the CRC covers: the attributes."""
MAGIC_POSITION = message_sets.MAGIC_POSITION

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_LEADER_EPOCH = -1

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
"""Attribute: from the base timestamp (ms) on, the batch's tombstones and markers may be removed (KAFKA-8522)."""

_HEADER = Struct(">qiibIhiqqqhii")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_MAX_TIMESTAMP = Struct(">q")
_MAX_TIMESTAMP_POSITION = 35
"""Where a batch's header has its largest timestamp."""
_SEQUENCES = 1 << 31
unpack_header: Final = _HEADER.unpack_from
"""Unpacks all fields, where a NamedTuple is too slow. The functions that follow unpack some fields for one loop each.
"""
pack_header: Final = _HEADER.pack_into
pack_before_crc: Final = Struct(">qiibI").pack
"""Packs the fields before the bytes that the CRC covers: base offset, length, leader epoch, magic, CRC."""
pack_behind_crc: Final = Struct(">hiqqqhii").pack
"""Packs the fields that the CRC covers, in the order of `BatchHeader`."""
stamp: Final = Struct(">qii").pack_into
"""`stamp(buffer, position, base_offset, length, leader_epoch)` writes fields that the CRC does not cover."""
unpack_for_append: Final = Struct(">8xi4xb6xi8xqq").unpack_from
"""Length, magic, last offset delta, max timestamp and producer id."""
unpack_for_producers: Final = Struct(">21xh20xqhi").unpack_from
"""Attributes, producer id, producer epoch and base sequence."""
unpack_bounds: Final = Struct(">qI4xb6xi").unpack_from
"""Base offset, length (a negative length leads far out of any segment), magic and last offset delta."""
unpack_for_offset_map: Final = Struct(">qi4xbIhi16xq").unpack_from
"""Base offset, length, magic, CRC, attributes, last offset delta and producer id."""
unpack_for_filter: Final = Struct(">qi4xb4xhi8xqq6xi").unpack_from
"""Base offset, length, magic, attributes, last offset delta, max timestamp, producer id and record count."""
unpack_for_replay: Final = Struct(">qi5xIh34xi").unpack_from
"""Base offset, length, CRC, attributes and record count."""
_unpack_size: Final = Struct(">8xi4xb").unpack_from
_unpack_end: Final = Struct(">q15xi").unpack_from


class BatchHeader(NamedTuple):
    """The header of one record batch, with the offsets and the timestamps (ms) of its fields.

    Of an old message, `base_offset` is the offset of the message. A compressed message has the offset of its last
    record. The message's timestamp is the base and the max timestamp (-1 in magic 0). The other fields are as in a
    batch without producer.
    """

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
        """The offset of the last record (compaction may have removed that record)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The producer's sequence of the last record; -1 without one. Sequences begin again after 2^31 - 1 (KIP-98)."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCES

    @property
    def compression(self) -> int:
        """The codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether the timestamps of all records are the max timestamp, set by the broker."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch has a marker (commit or abort) and no record of a producer."""
        return self.attributes & CONTROL != 0


def read_header(data: Buffer, position: int = 0) -> BatchHeader:
    """Read the header of any format at `position`. Checks only the size: raises TruncatedBatch if bytes are missing."""
    left = len(data) - position
    if left > MAGIC_POSITION and data[position + MAGIC_POSITION] in OLD_MAGIC:
        return _old_header(data, position)
    if left < HEADER_SIZE:
        raise _truncated(left)
    return BatchHeader._make(unpack_header(data, position))


def _old_header(data: Buffer, position: int) -> BatchHeader:
    head = message_sets.head_of(data, position)
    if head is None:
        raise _truncated(len(data) - position)
    offset, size, crc, magic, attributes, timestamp = head
    count = UNKNOWN_COUNT if attributes & COMPRESSION_MASK else 1
    return BatchHeader(
        offset, size - LENGTH_OVERHEAD, NO_LEADER_EPOCH, magic, crc, attributes, 0, timestamp, timestamp,
        NO_PRODUCER_ID, -1, -1, count
    )  # fmt: skip


def _truncated(left: int) -> TruncatedBatch:
    return TruncatedBatch(f"a batch header takes {HEADER_SIZE} bytes, {max(left, 0)} are left")


def iterate(data: Buffer, start: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each whole batch in `data[start:end]`. Raises CorruptBatch or UnknownFormat."""
    stop = len(data) if end is None else end
    while stop - start >= MIN_BATCH_SIZE:
        try:
            header = read_header(data, start)
        except TruncatedBatch:
            return
        if header.magic == MAGIC and stop - start < HEADER_SIZE:
            return
        check_shape(header, start)
        if header.length + LENGTH_OVERHEAD > stop - start:
            return
        yield start, header
        start += header.length + LENGTH_OVERHEAD


def whole_batches(data: Buffer) -> tuple[int, int, int]:
    """Return how many bytes of `data` are whole batches v2, the size of the next batch, and the next offset.

    The size is 0 when no batch can follow; the offset is -1 when no batch is whole. Where `data` begins with an old
    message, the old messages are counted.
    """
    at, stop, last = 0, len(data), -1
    while stop - at >= HEADER_SIZE:
        length, magic = _unpack_size(data, at)
        if length < MIN_LENGTH or magic != MAGIC:
            break
        if length + LENGTH_OVERHEAD > stop - at:
            return at, length + LENGTH_OVERHEAD, _offset_after(data, last)
        last = at
        at += length + LENGTH_OVERHEAD
    if at == 0 and is_old(data):
        return _whole_messages(data)
    is_known = stop - at < HEADER_SIZE or (at > 0 and is_old(data, at))
    return at, HEADER_SIZE if is_known else 0, _offset_after(data, last)


def _offset_after(data: Buffer, last: int) -> int:
    if last < 0:
        return -1
    base_offset, delta = _unpack_end(data, last)
    return int(base_offset + delta + 1)


def is_old(data: Buffer, position: int = 0) -> bool:
    """Whether the bytes at `position` may be a message of an old format."""
    return len(data) - position >= MIN_BATCH_SIZE and data[position + MAGIC_POSITION] in OLD_MAGIC


def _whole_messages(data: Buffer) -> tuple[int, int, int]:
    at, next_offset = 0, -1
    while is_old(data, at):
        head = message_sets.head_of(data, at)
        if head is None:
            break
        if head.size < message_sets.MIN_SIZES[head.magic]:
            return at, 0, next_offset
        if head.size > len(data) - at:
            return at, head.size, next_offset
        at += head.size
        next_offset = head.offset + 1
    return at, HEADER_SIZE, next_offset


def check_shape(header: BatchHeader, position: int) -> None:
    """Raises UnknownFormat for an unknown format, CorruptBatch for bytes that cannot be a header."""
    if header.magic != MAGIC:
        _check_old_shape(header, position)
    elif header.length < MIN_LENGTH:
        raise CorruptBatch(f"the batch at byte {position} has length {header.length}, below the minimum {MIN_LENGTH}")
    if header.last_offset_delta < 0:
        raise CorruptBatch(f"the batch at byte {position} has last offset delta {header.last_offset_delta}")


def _check_old_shape(header: BatchHeader, position: int) -> None:
    if header.magic not in OLD_MAGIC:
        raise UnknownFormat(f"the batch at byte {position} has magic {header.magic}, only 0, 1 and 2 are known")
    least = message_sets.MIN_SIZES[header.magic] - LENGTH_OVERHEAD
    if header.length < least:
        raise CorruptBatch(f"the batch at byte {position} has length {header.length}, below the minimum {least}")


def check_crc(data: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the batch at `position` is whole in `data` and its CRC is right."""
    if header.magic != MAGIC:
        return message_sets.is_crc_right(data, position, header.size, header.crc)
    end = position + header.length + LENGTH_OVERHEAD
    return end <= len(data) and crc32c(bytes(data[position + CRC_START : end])) == header.crc


def demand_crc(batch: Buffer, header: BatchHeader) -> None:
    """Raises CorruptBatch unless the first batch in `batch` is whole and its CRC is right."""
    if not check_crc(batch, 0, header):
        raise CorruptBatch(f"the CRC of the batch at offset {header.base_offset} is wrong")


def set_log_append_time(buffer: bytearray, wall_ms: int, rest: Buffer = b"") -> None:
    """Set the timestamp of all records of a batch to `wall_ms`, and the CRC. `rest`: the bytes after `buffer`."""
    header = read_header(buffer)
    _ATTRIBUTES.pack_into(buffer, CRC_START, header.attributes | LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(buffer, _MAX_TIMESTAMP_POSITION, wall_ms)
    set_crc(buffer, header.length + LENGTH_OVERHEAD, rest)


def set_timestamps(buffer: bytearray, max_timestamp: int) -> None:
    """Mark the records' timestamps as times of creation, set the greatest timestamp, and update the CRC."""
    attributes = _ATTRIBUTES.unpack_from(buffer, CRC_START)[0] & ~LOG_APPEND_TIME
    _ATTRIBUTES.pack_into(buffer, CRC_START, attributes)
    _MAX_TIMESTAMP.pack_into(buffer, _MAX_TIMESTAMP_POSITION, max_timestamp)
    set_crc(buffer, len(buffer))


def set_crc(buffer: bytearray, size: int, rest: Buffer = b"") -> None:
    """Compute the CRC of the batch of `size` bytes again. The batch's last bytes may be in `rest`."""
    crc = crc32c(bytes(buffer[CRC_START:size]))
    if rest:
        crc = crc32c_extend(crc, bytes(rest))
    _CRC.pack_into(buffer, CRC_POSITION, crc)
