"""One partition's log: segments in order, what is appended to them and read from them, and up to where it is durable.

Used from one thread (the event loop). Nothing here waits for the disk but `flush` and `close`; syncs run in the
threads of a `SharedSync`. It parses batch headers and nothing inside a batch.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Iterator

from muster.coordinator.log.durability import DurableLog
from muster.coordinator.log.errors import (
    BatchError,
    CorruptBatch,
    DamagedLog,
    LogOffline,
    OffsetOutOfRange,
    RecordListTooLarge,
    TruncatedBatch,
    damage,
)
from muster.coordinator.log.position import AppendResult, TimestampOffset
from muster.coordinator.log.records.headers import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    Buffer,
    iterate,
    set_log_append_time,
    stamp,
    unpack_essence,
)
from muster.coordinator.log.segments import retention, walk
from muster.coordinator.log.segments import timestamps as lookup
from muster.coordinator.log.segments.offset_search import MAX_RELATIVE_OFFSET
from muster.coordinator.log.segments.segment import Segment
from muster.coordinator.slices import Job

_tuple = tuple.__new__
_COPY_LIMIT = 32 * 1024
"""Batches above it are written in two pieces rather than copied."""


class Log(DurableLog):
    """The log of one partition. `loader.load_log` and `LogManager.open_log` make it."""

    # -- appending

    def append(self, leader_epoch: int, batch: Buffer, *, wall_ms: int) -> AppendResult:
        """Append whole batches, giving them the next offsets, the epoch and (when the topic says so) the time of
        appending.

        The batches are otherwise stored as they came; a bytearray may be changed in place. Their CRC is not checked:
        see `validation.validate_produce`. Raises FencedLeaderEpoch, RecordListTooLarge, CorruptBatch or LogOffline.
        """
        if self.failure is not None:
            self._raise_if_offline()
        size = len(batch)
        if size < HEADER_SIZE:
            raise TruncatedBatch(f"{size} bytes are no batch")
        length, magic, delta, max_timestamp = unpack_essence(batch)
        if length + LENGTH_OVERHEAD != size:
            return self._append_each(leader_epoch, batch, wall_ms)
        if magic != MAGIC or delta < 0:
            raise CorruptBatch(f"a batch with magic {magic} and last offset delta {delta} cannot be appended")
        if leader_epoch != self.leader_epoch:
            self.begin_epoch(leader_epoch)
        stamps = self._config.stamps_append_time
        base_offset = self.end_offset
        last_offset = base_offset + delta
        if stamps:
            max_timestamp = wall_ms
        segment = self._segment_for(size, last_offset, max_timestamp, wall_ms)
        if size > _COPY_LIMIT:
            self._write_large(segment, batch, base_offset, length, leader_epoch, wall_ms)
        else:
            buffer = batch if type(batch) is bytearray else bytearray(batch)
            stamp(buffer, 0, base_offset, length, leader_epoch)
            if stamps:
                set_log_append_time(buffer, 0, wall_ms)
            try:
                segment.file.pwrite(buffer, segment.size)
            except OSError as error:
                raise self._failed(segment.file.path, error) from error
        segment.note(size, last_offset, max_timestamp)
        self._advance(last_offset + 1)
        # what AppendResult(…) does, without the call of its own: this runs once per commit
        return _tuple(AppendResult, (base_offset, last_offset, wall_ms if stamps else -1, self.start_offset))

    def _append_each(self, leader_epoch: int, data: Buffer, wall_ms: int) -> AppendResult:
        found = list(iterate(data))
        if not found or found[-1][0] + found[-1][1].size != len(data):
            raise CorruptBatch(f"{len(data)} bytes are not a sequence of whole batches")
        view = memoryview(data)
        results = [self.append(leader_epoch, view[at : at + header.size], wall_ms=wall_ms) for at, header in found]
        return results[-1]._replace(base_offset=results[0].base_offset)

    def append_as_is(self, data: Buffer, *, wall_ms: int = 0) -> AppendResult:
        """Append batches that carry their offsets and epochs already (from a replica, or from a Kafka log)."""
        self._raise_if_offline()
        found = list(iterate(data))
        if not found or found[-1][0] + found[-1][1].size != len(data):
            raise CorruptBatch(f"{len(data)} bytes are not a sequence of whole batches")
        view = memoryview(data)
        for at, header in found:
            if header.magic != MAGIC:
                raise CorruptBatch(f"a batch with magic {header.magic} cannot be appended")
            if header.base_offset < self.end_offset:
                raise CorruptBatch(f"a batch at offset {header.base_offset} cannot follow offset {self.end_offset - 1}")
            segment = self._segment_for(header.size, header.last_offset, header.max_timestamp, wall_ms)
            try:
                segment.file.pwrite(view[at : at + header.size], segment.size)
            except OSError as error:
                raise self._failed(segment.file.path, error) from error
            segment.note(header.size, header.last_offset, header.max_timestamp)
            self._assign_epoch(header.leader_epoch, header.base_offset)
            self._advance(header.next_offset)
        return AppendResult(found[0][1].base_offset, found[-1][1].last_offset, -1, self.start_offset)

    def _write_large(
        self, segment: Segment, batch: Buffer, base_offset: int, length: int, leader_epoch: int, wall_ms: int
    ) -> None:
        head = bytearray(batch[:HEADER_SIZE])
        rest = memoryview(batch)[HEADER_SIZE:]
        stamp(head, 0, base_offset, length, leader_epoch)
        if self._config.stamps_append_time:
            set_log_append_time(head, 0, wall_ms, rest)
        try:
            segment.file.pwrite_parts([head, rest], segment.size)
        except OSError as error:
            raise self._failed(segment.file.path, error) from error

    def _segment_for(self, size: int, last_offset: int, max_timestamp: int, wall_ms: int) -> Segment:
        """The segment that takes a batch: the active one, or a new one when that is full, too old or too far away."""
        segment, config = self._active, self._config
        limit, used = config.segment_bytes, segment.size
        if size > limit:
            raise RecordListTooLarge(f"a batch of {size} bytes does not fit into a segment of {limit} bytes")
        if used == 0:
            segment.created_ms = wall_ms
            waited_ms = 0
        elif segment.first_timestamp >= 0 and max_timestamp >= 0:
            # by the records' own time where they have one, as on Kafka: replayed old data rolls as it did when new
            waited_ms = max_timestamp - segment.first_timestamp
        else:
            waited_ms = wall_ms - segment.created_ms
        if (
            used + size > limit
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
            or segment.has_full_index
            or waited_ms > config.segment_ms - (self._jitter() if config.segment_jitter_ms else 0)
            # compaction leaves the active segment alone
            or (waited_ms > config.max_compaction_lag_ms and config.compacts)
        ):
            self.roll(wall_ms)
            return self._active
        return segment

    def _jitter(self) -> int:
        jitter = min(self._config.segment_jitter_ms, self._config.segment_ms)
        return zlib.crc32(self._active.name.encode()) % jitter if jitter > 0 else 0

    # -- reading

    def read(self, offset: int, max_bytes: int, *, min_one_message: bool = True, up_to: int | None = None) -> bytes:
        """Bytes of the log, from the batch that holds `offset`, straight from the file.

        At most `max_bytes`, so the last batch may be cut off, as in every fetch of Kafka's; the first one is whole when
        `min_one_message`, otherwise nothing is returned when it does not fit. `up_to`: only batches below this offset.
        Raises OffsetOutOfRange, or LogOffline when the file cannot be read.
        """
        end_offset = self.end_offset
        if not self.start_offset <= offset <= end_offset:
            raise OffsetOutOfRange(offset, self.start_offset, end_offset)
        if offset == end_offset or (up_to is not None and up_to <= offset):
            return b""
        index = len(self.segments) - 1
        if offset < self._active.base_offset:
            index = bisect_right(self._bases, offset) - 1
        for segment in self.segments[index:]:
            end_position = segment.size
            try:
                if up_to is not None and up_to < end_offset:
                    where = segment.locate(max(up_to, segment.base_offset))
                    end_position = where[0] if where is not None else end_position
                found = segment.read(offset, max_bytes, end_position, min_one_message)
            except OSError as error:
                raise LogOffline(segment.file.path, str(error)) from error
            if found is not None:
                return found
        return b""

    def replay(self, offset: int | None = None, *, chunk_bytes: int = 1024 * 1024) -> Iterator[bytes]:
        """All whole batches from `offset` (the start) to the present end, in chunks of about `chunk_bytes`.

        DamagedLog where there is none; the log is offline then.
        """
        chunks = walk.replay(self, self.start_offset if offset is None else offset, self.end_offset, chunk_bytes)
        return self._watched(chunks)

    def _watched(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        try:
            yield from chunks
        except DamagedLog as found:
            self._go_offline_for(found)
            raise

    def damaged_at(self, offset: int, error: BatchError) -> DamagedLog:
        """Whoever replays found that the batch at `offset` cannot be read: the log goes offline; its error."""
        segment = self.segments[self.segment_index(offset)]
        where = segment.locate(offset)
        found = damage(segment.place(0 if where is None else where[0]), error)
        self._go_offline_for(found)
        return found

    def _go_offline_for(self, found: DamagedLog) -> None:
        self.go_offline(found.path, OSError(found.what))

    def headers(self, offset: int | None = None) -> Iterator[BatchHeader]:
        """The headers of the same batches."""
        return walk.headers(self, self.start_offset if offset is None else offset, self.end_offset)

    def offset_for_timestamp(self, timestamp_ms: int) -> Job[TimestampOffset | None]:
        """A job that finds the first record whose timestamp is `timestamp_ms` or later; None when there is none."""
        return lookup.offset_for_timestamp(self, timestamp_ms)

    def offset_of_max_timestamp(self) -> Job[TimestampOffset | None]:
        """A job that finds the first record with the greatest timestamp (ListOffsets -3); None if the log is empty."""
        return lookup.offset_of_max_timestamp(self)

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """The greatest known epoch not above `epoch`, and where it ends; (-1, -1) when unknown (KIP-101)."""
        return self.epochs.end_offset(epoch, self.end_offset)

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch under which `offset` was appended; -1 when unknown."""
        return self.epochs.epoch_of(offset)

    # -- removing

    def delete_records_before(self, offset: int) -> int:
        """Move the start of the log up to `offset` (Kafka's DeleteRecords) and remove the segments below it; the new
        start.
        """
        if offset > self.durable_offset or offset < 0:
            raise OffsetOutOfRange(offset, self.start_offset, self.durable_offset)
        self.raise_start(offset)
        retention.remove_below_start(self)
        return self.start_offset

    def enforce_retention(self, wall_ms: int) -> int:
        """Remove the segments that `retention.ms` and `retention.bytes` give up; how many."""
        return retention.enforce(self, wall_ms)
