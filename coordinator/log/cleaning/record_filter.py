"""Which batches and records compaction keeps, by Kafka's rules (Cleaner.cleanInto, MemoryRecords.filterTo).

A record stays when it is the latest of its key; a tombstone goes `delete.retention.ms` after it was first left alone
by a compaction: that is when its batch gets a delete horizon. Offsets never change. Records without a key, of aborted
transactions, and markers of transactions of which nothing is left go. The last batch of a producer stays, if need be
empty.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.coordinator.log.cleaning.offset_map import NOT_PLAIN, LatestKeys, unpacked_rows
from muster.coordinator.log.cleaning.producers import ProducersSeen
from muster.coordinator.log.errors import CorruptBatch
from muster.coordinator.log.records.building import assemble, empty, payload
from muster.coordinator.log.records.headers import (
    DELETE_HORIZON,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    MIN_LENGTH,
    BatchHeader,
    demand_crc,
    read_header,
    unpack_for_cleaning,
)
from muster.coordinator.log.records.scanning import PLAIN, Row, key_of_single, rows_of, scan_keys

Compress = Callable[[bytes, int], bytes]
"""Records and Kafka's number of a codec -> the compressed records."""


class Sieve:
    """Takes batches in the order of the log, gives those that stay to `keep(data, start, end, last_offset,
    max_timestamp)`, which is to be set first.
    """

    def __init__(
        self,
        latest: LatestKeys,
        producers: ProducersSeen,
        compress: Compress,
        *,
        first_dirty: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        """`first_dirty`: `latest` knows the keys from this offset on; `now_ms`: wall."""
        self._latest = latest
        self._kept = latest.kept()
        self._producers = producers
        self._compress = compress
        self._first_dirty = first_dirty
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms
        self.keep: Callable[[bytes, int, int, int, int], None] = _keep_nothing
        self.rewritten = 0
        """Batches that stayed, but not as they were."""
        self._in_transaction: set[int] = set()
        """Producers of whose present transaction a batch of data was met."""

    def add(self, data: bytes) -> int:
        """Sort the whole batches v2 in `data`, up to one of another format; how many bytes these are."""
        kept, tombstones, latest = self._kept, self._latest.tombstones, self._latest.offsets
        keep, first_dirty, end_offset = self.keep, self._first_dirty, self._latest.end_offset
        at, stop = 0, len(data)
        while stop - at >= HEADER_SIZE:
            base, length, magic, _, attributes, delta, max_timestamp, producer_id, count = unpack_for_cleaning(data, at)
            if magic != MAGIC:
                break
            if length < MIN_LENGTH:
                raise CorruptBatch(f"a batch of length {length} at offset {base}")
            end = at + length + LENGTH_OVERHEAD
            if end > stop:
                break
            if base >= end_offset:
                keep(data, at, end, base + delta, max_timestamp)
            elif producer_id >= 0 or attributes & NOT_PLAIN or count == 0:
                self._sort(data[at:end])
            elif count != 1 or delta:
                stays = self._all_or_none(data, at, base, delta, count)
                if stays is None:
                    self._sort(data[at:end])
                elif stays:
                    keep(data, at, end, base + delta, max_timestamp)
            elif base >= first_dirty:
                if base in kept:
                    if base in tombstones:
                        self._sort(data[at:end])
                    else:
                        keep(data, at, end, base, max_timestamp)
            else:
                where = key_of_single(data, at)
                if where is None:
                    self._sort(data[at:end])
                elif base >= latest.get(data[where[0] : where[1]], -1):
                    if data[where[1]] == 1:
                        self._sort(data[at:end])
                    else:
                        keep(data, at, end, base, max_timestamp)
            at = end
        return at

    def _all_or_none(self, data: bytes, at: int, base: int, delta: int, count: int) -> bool | None:
        """Whether all records of a plain batch stay, or all go; None: some of them, or it takes a closer look."""
        if base >= self._first_dirty:
            if base in self._latest.tombstones:
                return None
            offsets = range(base, base + delta + 1)
            if self._kept.isdisjoint(offsets):
                return False
            return True if count == delta + 1 and self._kept.issuperset(offsets) else None
        own: dict[bytes, int] = {}
        if scan_keys(data, at + HEADER_SIZE, count, base, own) != PLAIN or len(own) != count:
            return None
        latest = self._latest.offsets
        gone = sum(offset < latest.get(key, -1) for key, offset in own.items())
        return gone == 0 if gone in (0, count) else None

    # -- one batch, properly

    def _sort(self, batch: bytes) -> None:
        header = read_header(batch)
        if header.is_control:
            self._sort_marker(batch, header)
            return
        if header.is_transactional:
            self._in_transaction.add(header.producer_id)
        aborted = self._producers.is_aborted(header)
        rows = [] if aborted or header.record_count == 0 else unpacked_rows(batch, header)
        is_over = _horizon_of(header) is not None and self._now_ms >= header.base_timestamp
        staying = [row for row in rows if self._stays(row, header.base_offset, is_over)]
        if staying:
            needs_horizon = _horizon_of(header) is None and any(row.is_tombstone for row in staying)
            if len(staying) == len(rows) and not needs_horizon:
                self._pass(batch, header)
            else:
                demand_crc(batch, header)  # the new CRC must not vouch for damage
                self._write(header, staying, needs_horizon)
        elif self._producers.must_stay(header):
            self._leave_empty(batch, header)

    def _stays(self, row: Row, base_offset: int, is_over: bool) -> bool:
        if row.key is None or (row.is_tombstone and is_over):
            return False
        latest = self._latest.offsets.get(row.key)
        return latest is None or base_offset + row.offset_delta >= latest

    def _sort_marker(self, batch: bytes, header: BatchHeader) -> None:
        is_empty = header.producer_id not in self._in_transaction
        self._in_transaction.discard(header.producer_id)
        horizon_ms = _horizon_of(header)
        if header.record_count == 0 or (is_empty and horizon_ms is not None and self._now_ms >= horizon_ms):
            if self._producers.must_stay(header):
                self._leave_empty(batch, header)
        elif is_empty and horizon_ms is None:
            demand_crc(batch, header)
            self._write(header, rows_of(batch, header), True)
        else:
            self._pass(batch, header)

    def _write(self, header: BatchHeader, rows: list[Row], needs_horizon: bool) -> None:
        moved_ms = 0
        greatest = header.max_timestamp
        if not header.is_log_append_time:
            stamps = [header.base_timestamp + row.timestamp_delta for row in rows]
            greatest = max(stamps)
        if needs_horizon:
            moved_ms = self._horizon_ms - header.base_timestamp
            header = header._replace(
                attributes=header.attributes | DELETE_HORIZON, base_timestamp=header.base_timestamp + moved_ms
            )
        header = header._replace(max_timestamp=greatest)
        self.rewritten += 1
        records = payload(rows, moved_ms)
        if header.compression:
            records = self._compress(records, header.compression)
        self._pass(assemble(header, records, len(rows)), header)

    def _leave_empty(self, batch: bytes, header: BatchHeader) -> None:
        if header.record_count:
            self.rewritten += 1
            batch = empty(header)
        self._pass(batch, header)

    def _pass(self, batch: bytes, header: BatchHeader) -> None:
        self.keep(batch, 0, len(batch), header.last_offset, header.max_timestamp)


def _keep_nothing(_data: bytes, _start: int, _end: int, _last_offset: int, _max_timestamp: int) -> None:
    raise RuntimeError("nobody takes what stays")


def _horizon_of(header: BatchHeader) -> int | None:
    return header.base_timestamp if header.attributes & DELETE_HORIZON else None
