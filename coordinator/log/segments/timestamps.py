"""Finds a record by its timestamp (KIP-33; Kafka: UnifiedLog.fetchOffsetByTimestamp). Changes nothing."""

from __future__ import annotations

from functools import partial
from typing import Final

from muster.coordinator.log.position import TimestampOffset
from muster.coordinator.log.records import batches
from muster.coordinator.log.records.headers import COMPRESSION_MASK, BatchHeader
from muster.coordinator.log.segments.log_segments import LogSegments
from muster.coordinator.log.segments.segment import Segment
from muster.coordinator.system.jobs import Job, OffloadedWork

Found = TimestampOffset | None
MANY_RECORDS: Final = 2_000
"""A batch with more records is searched in a thread. So is a compressed one, because its real size is unknown."""


def offset_for_timestamp(segments: LogSegments, timestamp_ms: int) -> Job[Found]:
    """Find the first record at or after the log's start whose timestamp is `timestamp_ms` or later."""
    for segment in tuple(segments):
        if segment.size and segment.largest_timestamp() >= timestamp_ms:
            found = yield from _in_segment(segment, timestamp_ms, segments.start_offset)
            if found is not None:
                return found
        yield None
    return None


def _in_segment(segment: Segment, timestamp_ms: int, start_offset: int) -> Job[Found]:
    from_offset = max(segment.base_offset + segment.time_index().lookup(timestamp_ms), start_offset)
    where = segment.locate(from_offset)
    if where is None:
        return None
    for position, header in segment.batches(where[0], segment.size):
        if header.max_timestamp >= timestamp_ms:
            found = yield from _in_batch(segment, position, header, timestamp_ms, start_offset)
            if found is not None:
                return found
        yield None
    return None


def _in_batch(segment: Segment, position: int, header: BatchHeader, timestamp_ms: int, start_offset: int) -> Job[Found]:
    data = segment.file.pread(header.size, position)
    look = partial(_first, data, header, timestamp_ms, start_offset)
    if header.attributes & COMPRESSION_MASK or header.record_count > MANY_RECORDS:
        found: Found = yield OffloadedWork(look)
        return found
    return look()


def _first(data: bytes, header: BatchHeader, timestamp_ms: int, start_offset: int) -> Found:
    for record in batches.each(data, header):
        if record.timestamp >= timestamp_ms and record.offset >= start_offset:
            return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
    return None


def offset_of_max_timestamp(segments: LogSegments) -> Job[Found]:
    """Find the first record with the greatest timestamp (KIP-734). None when the log is empty.

    The timestamp is -1 where no record has one. As on Kafka the record may be deleted by DeleteRecords, while its
    segment still exists.
    """
    greatest: Segment | None = None
    for segment in tuple(segments):
        segment.largest_timestamp()  # makes sure that max_timestamp is known
        if segment.size and (greatest is None or segment.max_timestamp > greatest.max_timestamp):
            greatest = segment
        yield None
    if greatest is None:
        return None
    wanted = greatest.max_timestamp
    where = greatest.locate(greatest.base_offset + greatest.time_index().lookup(wanted))
    for position, header in greatest.batches(0 if where is None else where[0], greatest.size):
        if header.max_timestamp == wanted:
            found = yield from _in_batch(greatest, position, header, wanted, greatest.base_offset)
            if found is not None:
                return found
        yield None
    return None
