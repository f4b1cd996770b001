"""What a compaction knows of a log before it writes: the latest record of each key, and the log's producers.

Keys are kept whole, not as digests as in Kafka's SkimpyOffsetMap. `ProducersInLog` is Kafka's
CleanedTransactionMetadata and lastRecordsOfActiveProducers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable

from google_crc32c import value as crc32c

from muster.coordinator.log.errors import CorruptBatch, UnsupportedCompression
from muster.coordinator.log.producers.state import LastRecord, Producers, SeenBatch
from muster.coordinator.log.records.compression import UNPACKED_LIMIT, ZSTD, unpack
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
from muster.coordinator.log.records.markers import EndMarker, Marker
from muster.coordinator.log.records.reader import LogRecord, records_of
from muster.coordinator.log.segments.transaction_index import AbortedTransaction

Fact = tuple[BatchHeader, Marker | None]
"""The header of a producer's batch, and the batch's marker: None for data, and for an empty control batch."""
LastRecordOf = Callable[[int], LastRecord | None]


class Undecided(Exception):
    """A transaction has no end in the part to compact: no batch from `offset` on may be changed yet."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"the transaction at offset {offset} is not decided")
        self.offset = offset


class ProducersInLog:
    """The producers of the part of a log that is compacted. The part is read when a method is first called."""

    __slots__ = ("_aborted", "_is_read", "_last_record_of", "_markers", "_newest_before_ms", "_open_from", "_read",
                 "_state")  # fmt: skip

    def __init__(
        self, read: Callable[[], Iterable[Fact]], *, newest_before_ms: int, last_record_of: LastRecordOf | None = None
    ) -> None:
        """`read`: yields all batches with a producer id. `last_record_of`: returns the last record of a producer in the
        log. The default looks only in the part, and forgets a producer without a batch since `newest_before_ms`.
        """
        self._read = read
        self._newest_before_ms = newest_before_ms
        self._last_record_of = last_record_of or self._last_in_part
        self._is_read = False
        self._markers: dict[int, tuple[list[int], list[bool]]] = {}
        self._open_from: dict[int, int] = {}
        self._aborted: dict[int, AbortedTransaction] = {}
        self._state = Producers()

    def _read_once(self) -> None:
        if self._is_read:
            return
        self._is_read = True
        for header, marker in self._read():
            producer_id, epoch, offset = header.producer_id, header.producer_epoch, header.base_offset
            if header.is_control:
                offsets, kinds = self._markers.setdefault(producer_id, ([], []))
                offsets.append(offset)
                # an empty control batch ended a transaction without remaining records
                kinds.append(marker is None or marker.is_committed)
                self._open_from.pop(producer_id, None)
                if marker is not None:
                    ended = EndMarker(producer_id, epoch, marker.is_committed, marker.coordinator_epoch, 0)
                    aborted = self._state.marked(ended, offset, header.max_timestamp)
                    if aborted is not None:
                        self._aborted[offset] = aborted
            else:
                batch = SeenBatch(-1, -1, offset, header.last_offset, header.max_timestamp)
                self._state.appended(producer_id, epoch, batch, header.is_transactional)
                if header.is_transactional:
                    self._open_from.setdefault(producer_id, offset)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of data belongs to an aborted transaction. Raises Undecided."""
        if header.producer_id < 0:
            return False
        self._read_once()
        if not header.is_transactional:
            return False
        offsets, kinds = self._markers.get(header.producer_id, ((), ()))
        index = bisect_right(offsets, header.base_offset)
        if index == len(kinds):
            raise Undecided(self._open_from[header.producer_id])
        return not kinds[index]

    def aborted_at(self, offset: int) -> AbortedTransaction | None:
        """Return the transaction that the marker at `offset` aborted, as an entry of the transaction index."""
        self._read_once()
        return self._aborted.get(offset)

    def must_stay(self, header: BatchHeader) -> bool:
        """Whether the batch, even if empty, must be kept because it has its producer's last sequence or epoch."""
        if header.producer_id < 0:
            return False
        last = self._last_record_of(header.producer_id)
        if last is None:
            return False
        if last.data_offset is None:
            return header.is_control and header.producer_epoch == last.epoch
        return last.data_offset == header.last_offset

    def _last_in_part(self, producer_id: int) -> LastRecord | None:
        self._read_once()
        producer = self._state.get(producer_id)
        if producer is None:
            return None
        is_forgotten = producer.transaction_start is None and producer.last_timestamp_ms < self._newest_before_ms
        return None if is_forgotten else self._state.last_record(producer_id)


BYTES_PER_KEY = 200
"""The approximate bytes of a key and its dictionary entry. The number of keys that fit is computed from this value."""

NOT_PLAIN = COMPRESSION_MASK | TRANSACTIONAL | CONTROL | DELETE_HORIZON


def unpacked_records(batch: bytes, header: BatchHeader) -> list[LogRecord]:
    """Return the records of any batch of data. Raises CorruptBatch or UnsupportedCompression."""
    if header.compression:
        if header.compression > ZSTD:
            raise UnsupportedCompression(f"unknown compression type {header.compression}")
        batch = bytes(unpack(batch, header, UNPACKED_LIMIT))
    return records_of(batch, header.base_offset)


class OffsetMap:
    """The offset of the latest record of each key, for the records from `first_offset` on."""

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
        self.is_full = False

    def latest(self) -> set[int]:
        """Return the offsets of the records that are the latest of their keys."""
        return set(self.offsets.values())

    def add(self, data: bytes) -> int:
        """Read the whole batches v2 in `data`, while keys fit; return how many bytes they have. Raises CorruptBatch."""
        offsets, tombstones, capacity, first_offset = self.offsets, self.tombstones, self.capacity, self.first_offset
        at, stop = 0, len(data)
        while stop - at >= HEADER_SIZE:
            base, length, magic, crc, attributes, delta, producer_id = unpack_for_offset_map(data, at)
            end = at + length + LENGTH_OVERHEAD
            if end > stop or magic != MAGIC:
                break
            if length < MIN_LENGTH or crc32c(data[at + CRC_START : end]) != crc:
                raise CorruptBatch(f"the CRC of the batch at offset {base} is wrong")
            if base < first_offset:
                at = end
                continue
            if producer_id >= 0 or attributes & NOT_PLAIN:
                self._add_special(data[at:end])
            else:
                for record in records_of(data[at:end], base):
                    key = record.key
                    if key is not None:
                        offsets[key] = record.offset
                        if record.value is None:
                            tombstones.add(base)
            self.end_offset = base + delta + 1
            at = end
            if len(offsets) >= capacity:
                self.is_full = True
                break
        return at

    def _add_special(self, batch: bytes) -> None:
        header = read_header(batch)
        if header.is_control or header.record_count == 0 or self.producers.is_aborted(header):
            return
        for record in unpacked_records(batch, header):
            if record.key is not None:
                self.offsets[record.key] = record.offset
                if record.value is None:
                    self.tombstones.add(header.base_offset)
