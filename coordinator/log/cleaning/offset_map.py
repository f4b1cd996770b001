"""Which record is the latest of its key, in the part of a log that was not compacted yet (Kafka: the cleaner's
OffsetMap). Keys are kept whole, not as digests: two keys are never taken for one.
"""

from __future__ import annotations

from struct import Struct

from google_crc32c import value as crc32c

from muster.coordinator.log.cleaning.producers import ProducersSeen
from muster.coordinator.log.errors import CorruptBatch, UnsupportedCompression
from muster.coordinator.log.records.compression import UNPACKED_LIMIT, unpack
from muster.coordinator.log.records.headers import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    MIN_LENGTH,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
)
from muster.coordinator.log.records.scanning import DELETE_HORIZON, Row, rows_of

BYTES_PER_KEY = 200
"""What a key and its place in the dictionary take, about: `log.cleaner.dedupe.buffer.size` by this is how many fit."""

NOT_PLAIN = COMPRESSION_MASK | TRANSACTIONAL | CONTROL | DELETE_HORIZON

_unpack_walk = Struct(">qi4xbIhi16xq6xi").unpack_from
"""Base offset, length, magic, CRC, attributes, last offset delta, producer id and record count of a header."""


def unpacked_rows(batch: bytes, header: BatchHeader) -> list[Row]:
    """The records of any batch of data. CorruptBatch or UnsupportedCompression when they cannot be read."""
    if header.compression:
        if header.compression > 4:
            raise UnsupportedCompression(f"unknown compression type {header.compression}")
        batch = bytes(unpack(batch, header, UNPACKED_LIMIT))
    return rows_of(batch, header)


def key_of_single(data: bytes, position: int) -> tuple[int, int] | None:
    """Where the key of the first record of the batch at `position` begins and ends, when that record is of the usual
    shape: at offset delta 0, with the base timestamp, below 8 KB, with a key. None: go through it properly.
    """
    at = position + (HEADER_SIZE + 1 if data[position + HEADER_SIZE] < 128 else HEADER_SIZE + 2)
    size = data[at + 3]
    if data[at + 1] or data[at + 2] or size & 1 or data[at - 1] >= 128:
        return None
    if size < 128:
        return at + 4, at + 4 + (size >> 1)
    more = data[at + 4]
    return None if more >= 128 else (at + 5, at + 5 + ((size & 127 | more << 7) >> 1))


ODD, PLAIN, HAS_TOMBSTONES = range(3)
unpack_row = Struct(">BBxBBB").unpack_from
"""The beginning of a record of 64 to 8,191 bytes whose key has less than 64 and that has small deltas: its size in two
bytes, attributes, then timestamp delta, offset delta and length of the key in one byte each.
"""
KEY_AT = HEADER_SIZE + 6
"""Where the key of such a record begins, in a batch of its own."""


def scan_keys(data: bytes, at: int, count: int, base_offset: int, offsets: dict[bytes, int]) -> int:
    """Note key -> offset of `count` uncompressed records from the byte `at` on, when all have keys and are of the usual
    size: PLAIN, or HAS_TOMBSTONES; otherwise ODD, with some of them noted.
    """
    shape, twice_delta, place = PLAIN, 0, at
    for offset in range(base_offset, base_offset + count):
        size, more, stamp, delta, length = unpack_row(data, place)
        if delta != twice_delta or size < 128 or more >= 128 or stamp or length & 129:
            return _scan_any_keys(data, at, count, base_offset, offsets)
        twice_delta += 2
        key = place + 6
        after = key + (length >> 1)
        offsets[data[key:after]] = offset
        if data[after] == 1:
            shape = HAS_TOMBSTONES
        place += (size + (more << 7) - 124) >> 1
    return shape


def _scan_any_keys(data: bytes, at: int, count: int, base_offset: int, offsets: dict[bytes, int]) -> int:
    """`scan_keys`, whatever the records are like."""
    shape = PLAIN
    for _ in range(count):
        size = data[at]
        if size < 128:
            at += 1
        else:
            if data[at + 1] >= 128:
                return ODD
            size = size & 127 | data[at + 1] << 7
            at += 2
        key = at + 1
        while data[key] >= 128:  # the timestamp delta
            key += 1
        delta = data[key + 1]
        if delta < 128:
            key += 2
        else:
            if data[key + 2] >= 128:
                return ODD
            delta = delta & 127 | data[key + 2] << 7
            key += 3
        length = data[key]
        if length < 128:
            key += 1
        else:
            if data[key + 1] >= 128:
                return ODD
            length = length & 127 | data[key + 1] << 7
            key += 2
        if length & 1:
            return ODD
        after = key + (length >> 1)
        offsets[data[key:after]] = base_offset + (delta >> 1)
        if data[after] == 1:
            shape = HAS_TOMBSTONES
        at += size >> 1
    return shape


class LatestKeys:
    """Key -> offset of its latest record, for keys written from some offset on."""

    __slots__ = ("capacity", "end_offset", "first_offset", "is_full", "offsets", "producers", "tombstones")

    def __init__(self, first_offset: int, capacity: int, producers: ProducersSeen) -> None:
        """`first_offset`: batches before it are passed over; `capacity`: how many keys fit."""
        self.first_offset = first_offset
        self.capacity = capacity
        self.producers = producers
        self.offsets: dict[bytes, int] = {}
        self.tombstones: set[int] = set()
        """Base offsets of batches with tombstones: they need a closer look."""
        self.end_offset = 0
        """All before it has been looked at."""
        self.is_full = False

    def kept(self) -> set[int]:
        """The offsets of the records that are the latest of their keys."""
        return set(self.offsets.values())

    def add(self, data: bytes) -> int:
        """Look at the whole batches v2 in `data`; how many bytes these are. Stops when no more keys fit (`is_full`),
        and at a batch of another format.

        CorruptBatch when one is damaged: nothing may be dropped on the word of bytes that are not what was written.
        """
        offsets, capacity, first_offset = self.offsets, self.capacity, self.first_offset
        tombstone = self.tombstones.add
        at, stop = 0, len(data)
        while stop - at >= HEADER_SIZE:
            base, length, magic, crc, attributes, delta, producer_id, count = _unpack_walk(data, at)
            end = at + length + LENGTH_OVERHEAD
            if end > stop or magic != MAGIC:
                break
            if length < MIN_LENGTH or crc32c(data[at + CRC_START : end]) != crc:
                raise CorruptBatch(f"the CRC of the batch at offset {base} is wrong")
            if base < first_offset:
                at = end
                continue
            if producer_id >= 0 or attributes & NOT_PLAIN:
                self._add_batch(data[at:end])
            elif count != 1:
                shape = scan_keys(data, at + HEADER_SIZE, count, base, offsets)
                if shape == HAS_TOMBSTONES:
                    tombstone(base)
                elif shape == ODD:
                    self._add_batch(data[at:end])
            else:  # as `scan_keys`, in line: this runs once per record
                size, more, stamp, twice_delta, key_length = unpack_row(data, at + HEADER_SIZE)
                if size < 128 or more >= 128 or stamp or twice_delta or key_length & 129:
                    self._add_single(data, at, end, base)
                else:
                    start = at + KEY_AT
                    after = start + (key_length >> 1)
                    offsets[data[start:after]] = base
                    if data[after] == 1:
                        tombstone(base)
            self.end_offset = base + delta + 1
            at = end
            if len(offsets) >= capacity:
                self.is_full = True
                break
        return at

    def _add_single(self, data: bytes, at: int, end: int, base: int) -> None:
        where = key_of_single(data, at)
        if where is None:
            self._add_batch(data[at:end])
            return
        self.offsets[data[where[0] : where[1]]] = base
        if data[where[1]] == 1:
            self.tombstones.add(base)

    def _add_batch(self, batch: bytes) -> None:
        header = read_header(batch)
        if header.is_control or header.record_count == 0 or self.producers.is_aborted(header):
            return
        base = header.base_offset
        for row in unpacked_rows(batch, header):
            if row.key is not None:
                self.offsets[row.key] = base + row.offset_delta
                if row.is_tombstone:
                    self.tombstones.add(base)
