"""Which batches and records compaction keeps, by Kafka's rules (Cleaner.cleanInto, MemoryRecords.filterTo).

The latest record of each key is kept. The first compaction that keeps a tombstone gives its batch a delete horizon. The
tombstone is removed `delete.retention.ms` later. Records without a key and records of aborted transactions are removed.
The marker of a transaction without records is removed as late as a tombstone. The last batch of a producer is kept,
even if it is empty. Offsets never change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from muster.coordinator.log.cleaning.offset_map import NOT_PLAIN, OffsetMap, ProducersInLog, unpacked_records
from muster.coordinator.log.errors import CorruptBatch
from muster.coordinator.log.records.building import assemble, empty, encode_records
from muster.coordinator.log.records.compression import compress
from muster.coordinator.log.records.headers import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    MIN_LENGTH,
    BatchHeader,
    demand_crc,
    read_header,
    unpack_for_filter,
)
from muster.coordinator.log.records.reader import LogRecord, records_of
from muster.coordinator.log.segments.transaction_index import AbortedTransaction

Keep = Callable[[bytes, int, int, int, int], None]
"""`keep(data, start, end, last_offset, max_timestamp)`: keep the batch `data[start:end]`."""


class RecordFilter:
    """Takes batches in the order of the log, and passes those that stay to `keep`, which the caller sets first."""

    def __init__(
        self,
        offset_map: OffsetMap,
        producers: ProducersInLog,
        *,
        first_dirty: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        """`first_dirty`: `offset_map` knows the keys from this offset on. `now_ms`: wall time."""
        self._map = offset_map
        self._latest = offset_map.latest()
        self._producers = producers
        self._first_dirty = first_dirty
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms
        self.keep: Keep
        self.keep_aborted: Callable[[AbortedTransaction], object]
        """Called with each transaction that readers must know as aborted. The caller sets this function first."""
        self.rewritten = 0
        self._in_transaction: set[int] = set()
        """Producers with a batch of data in their present transaction."""

    def add(self, data: bytes) -> int:
        """Filter the whole batches v2 in `data`, up to a batch of another format; return how many bytes they have."""
        latest, tombstones, keep = self._latest, self._map.tombstones, self.keep
        first_dirty, end_offset = self._first_dirty, self._map.end_offset
        at, stop = 0, len(data)
        while stop - at >= HEADER_SIZE:
            base, length, magic, attributes, delta, max_timestamp, producer_id, count = unpack_for_filter(data, at)
            end = at + length + LENGTH_OVERHEAD
            if magic != MAGIC or end > stop:
                break
            if length < MIN_LENGTH:
                raise CorruptBatch(f"a batch of length {length} at offset {base}")
            if base >= end_offset:
                stays: bool | None = True
                if attributes & CONTROL:
                    self._note_aborted(base)
            elif producer_id >= 0 or attributes & NOT_PLAIN:
                stays = None
            elif count == 1 > delta and base >= first_dirty:
                stays = base in latest and (base not in tombstones or None)
            else:
                stays = self._plain_stays(data, at, end, base, delta, count)
            if stays:
                keep(data, at, end, base + delta, max_timestamp)
            elif stays is None:
                self._filter(data[at:end])
            at = end
        return at

    def _plain_stays(self, data: bytes, at: int, end: int, base: int, delta: int, count: int) -> bool | None:
        """True: all records of a plain batch are kept. False: no record is kept. None: each record must be checked."""
        if count == 0:
            return None
        if base < self._first_dirty:
            return self._clean_stays(data, at, end, base, count)
        if base in self._map.tombstones:
            return None
        own_offsets = range(base, base + delta + 1)
        if self._latest.isdisjoint(own_offsets):
            return False
        return True if count == delta + 1 and self._latest.issuperset(own_offsets) else None

    def _clean_stays(self, data: bytes, at: int, end: int, base: int, count: int) -> bool | None:
        """Answer as `_plain_stays`, for a batch of the clean part: the dirty part may have newer records."""
        offsets, gone = self._map.offsets, 0
        for record in records_of(data[at:end], base):
            if record.key is None or record.value is None:
                return None
            gone += record.offset < offsets.get(record.key, -1)
        return gone == 0 if gone in (0, count) else None

    # -- one batch, record by record

    def _filter(self, batch: bytes) -> None:
        header = read_header(batch)
        if header.is_control:
            self._filter_marker(batch, header)
            return
        if header.is_transactional:
            self._in_transaction.add(header.producer_id)
        aborted = self._producers.is_aborted(header)
        records = [] if aborted or header.record_count == 0 else unpacked_records(batch, header)
        horizon_ms = _horizon_of(header)
        is_over = horizon_ms is not None and self._now_ms >= horizon_ms
        staying = [record for record in records if self._stays(record, is_over)]
        if staying:
            needs_horizon = horizon_ms is None and any(record.value is None for record in staying)
            if len(staying) == len(records) and not needs_horizon:
                self._keep_whole(batch, header)
            else:
                self._keep_records(batch, header, staying, needs_horizon)
        elif self._producers.must_stay(header):
            self._keep_empty(batch, header)

    def _stays(self, record: LogRecord, is_over: bool) -> bool:
        if record.key is None or (record.value is None and is_over):
            return False
        latest = self._map.offsets.get(record.key)
        return latest is None or record.offset >= latest

    def _filter_marker(self, batch: bytes, header: BatchHeader) -> None:
        is_empty = header.producer_id not in self._in_transaction
        self._in_transaction.discard(header.producer_id)
        horizon_ms = _horizon_of(header)
        if header.record_count == 0 or (is_empty and horizon_ms is not None and self._now_ms >= horizon_ms):
            if self._producers.must_stay(header):
                self._keep_empty(batch, header)
        elif is_empty and horizon_ms is None:
            self._keep_records(batch, header, records_of(batch, header.base_offset), True)
        else:
            if not is_empty:
                self._note_aborted(header.base_offset)
            self._keep_whole(batch, header)

    def _note_aborted(self, offset: int) -> None:
        """Note the aborted transaction of the marker at `offset`, because some of its records are kept."""
        aborted = self._producers.aborted_at(offset)
        if aborted is not None:
            self.keep_aborted(aborted)

    def _keep_records(
        self, batch: bytes, header: BatchHeader, records: Sequence[LogRecord], needs_horizon: bool
    ) -> None:
        demand_crc(batch, header)  # a new CRC must not hide old damage
        header = header._replace(max_timestamp=max(record.timestamp for record in records))
        if needs_horizon:
            header = header._replace(attributes=header.attributes | DELETE_HORIZON, base_timestamp=self._horizon_ms)
        self.rewritten += 1
        data = encode_records(records, header)
        if header.compression:
            data = compress(data, header.compression)
        self._keep_whole(assemble(header, data, len(records)), header)

    def _keep_empty(self, batch: bytes, header: BatchHeader) -> None:
        if header.record_count:
            self.rewritten += 1
            batch = empty(header)
        self._keep_whole(batch, header)

    def _keep_whole(self, batch: bytes, header: BatchHeader) -> None:
        self.keep(batch, 0, len(batch), header.last_offset, header.max_timestamp)


def _horizon_of(header: BatchHeader) -> int | None:
    return header.base_timestamp if header.attributes & DELETE_HORIZON else None
