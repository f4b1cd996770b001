"""The latest record of each key, in the part of a log that was not compacted yet (Kafka: OffsetMap).

Keys are kept whole, not as digests as in Kafka's SkimpyOffsetMap: two different keys are never mixed up.
"""

from __future__ import annotations

from google_crc32c import value as crc32c

from muster.coordinator.log.cleaning.producers import ProducersInLog
from muster.coordinator.log.errors import CorruptBatch, UnsupportedCompression
from muster.coordinator.log.records.compression import UNPACKED_LIMIT, unpack
from muster.coordinator.log.records.headers import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    MIN_LENGTH,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
    unpack_for_offset_map,
)
from muster.coordinator.log.records.scanning import HAS_TOMBSTONES, KEY_AT, ODD, Row, rows_of, scan_keys, unpack_row

BYTES_PER_KEY = 200
"""The approximate bytes of a key and its dictionary entry. `log.cleaner.dedupe.buffer.size` divided by it is the number
of keys that fit.
"""

NOT_PLAIN = COMPRESSION_MASK | TRANSACTIONAL | CONTROL | DELETE_HORIZON


def unpacked_rows(batch: bytes, header: BatchHeader) -> list[Row]:
    """Return the records of any batch of data. Raises CorruptBatch or UnsupportedCompression when they cannot be
    read.
    """
    if header.compression:
        if header.compression > 4:
            raise UnsupportedCompression(f"unknown compression type {header.compression}")
        batch = bytes(unpack(batch, header, UNPACKED_LIMIT))
    return rows_of(batch, header)


class OffsetMap:
    """Key -> offset of its latest record, for keys written from some offset on."""

    __slots__ = ("capacity", "end_offset", "first_offset", "is_full", "offsets", "producers", "tombstones")

    def __init__(self, first_offset: int, capacity: int, producers: ProducersInLog) -> None:
        """`first_offset`: batches before it are skipped. `capacity`: the number of keys that fit."""
        self.first_offset = first_offset
        self.capacity = capacity
        self.producers = producers
        self.offsets: dict[bytes, int] = {}
        self.tombstones: set[int] = set()
        """Base offsets of batches with tombstones, which are filtered record by record."""
        self.end_offset = 0
        """All batches before this offset were read."""
        self.is_full = False

    def latest(self) -> set[int]:
        """Return the offsets of the records that are the latest of their keys."""
        return set(self.offsets.values())

    def add(self, data: bytes) -> int:
        """Read the whole batches v2 in `data`; return how many bytes they have.

        It stops when no more keys fit (`is_full`), and at a batch of another format.

        Raises CorruptBatch for a damaged batch: damaged bytes must not cause the removal of records.
        """
        offsets, tombstones, capacity, first_offset = self.offsets, self.tombstones, self.capacity, self.first_offset
        at, stop = 0, len(data)
        while stop - at >= HEADER_SIZE:
            base, length, magic, crc, attributes, delta, producer_id, count = unpack_for_offset_map(data, at)
            end = at + length + LENGTH_OVERHEAD
            if end > stop or magic != MAGIC:
                break
            if length < MIN_LENGTH or crc32c(data[at + CRC_START : end]) != crc:
                raise CorruptBatch(f"the CRC of the batch at offset {base} is wrong")
            if base < first_offset:
                at = end
                continue
            if producer_id >= 0 or attributes & NOT_PLAIN:
                self._add_rows(data[at:end])
            elif count != 1:
                self._add_plain(data, at, end, base, count)
            else:
                # inline for one record of the usual shape, the most frequent in compacted logs. A call takes a third
                # more time.
                size, more, deltas, key_length = unpack_row(data, at + HEADER_SIZE)
                if size >= 128 > more and not (deltas or key_length & 129):
                    start = at + KEY_AT
                    after = start + (key_length >> 1)
                    offsets[data[start:after]] = base
                    if data[after] == 1:
                        tombstones.add(base)
                else:
                    self._add_plain(data, at, end, base, 1)
            self.end_offset = base + delta + 1
            at = end
            if len(offsets) >= capacity:
                self.is_full = True
                break
        return at

    def _add_plain(self, data: bytes, at: int, end: int, base: int, count: int) -> None:
        shape = scan_keys(data, at + HEADER_SIZE, count, base, self.offsets)
        if shape == HAS_TOMBSTONES:
            self.tombstones.add(base)
        elif shape == ODD:
            self._add_rows(data[at:end])

    def _add_rows(self, batch: bytes) -> None:
        header = read_header(batch)
        if header.is_control or header.record_count == 0 or self.producers.is_aborted(header):
            return
        base = header.base_offset
        for row in unpacked_rows(batch, header):
            if row.key is not None:
                self.offsets[row.key] = base + row.offset_delta
                if row.is_tombstone:
                    self.tombstones.add(base)
