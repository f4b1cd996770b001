"""Reads a log: bytes for fetches, whole batches for a replay, and a record by its timestamp (KIP-33)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

import structlog

from muster.coordinator.log.errors import BatchError, CorruptBatch, DamagedLog, LogOffline, OffsetOutOfRange, damage
from muster.coordinator.log.records import batches
from muster.coordinator.log.records.batches import as_batch, runs
from muster.coordinator.log.records.headers import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    BatchHeader,
    check_shape,
    is_old,
    read_header,
    whole_batches,
)
from muster.coordinator.log.segments.log_segments import LogSegments
from muster.coordinator.log.segments.segment import Segment
from muster.coordinator.log.storage.interfaces import FilePart
from muster.coordinator.system.jobs import Job, OffloadedWork

_logger = structlog.get_logger("muster.log")


def read(
    segments: LogSegments, offset: int, max_bytes: int, min_one_message: bool, up_to: int | None, for_socket: bool
) -> bytes | FilePart:
    """See `unified_log.UnifiedLog.read` and `read_for_socket`."""
    end_offset = segments.end_offset
    if not segments.start_offset <= offset <= end_offset:
        raise OffsetOutOfRange(offset, segments.start_offset, end_offset)
    if offset == end_offset or (up_to is not None and up_to <= offset):
        return b""
    for segment in segments.since(offset):
        end_position = segment.size
        try:
            if up_to is not None and up_to < end_offset:
                where = segment.locate(max(up_to, segment.base_offset))
                end_position = where[0] if where is not None else end_position
            found = segment.read(offset, max_bytes, end_position, min_one_message, for_socket)
        except OSError as error:
            raise _offline(segment, error) from error
        if found is not None:
            return found
    return b""


def size_up_to(segments: LogSegments, offset: int) -> int:
    """Return the bytes of the batches before the batch of an offset. Raises LogOffline."""
    number = segments.index_for(offset)
    try:
        where = segments[number].locate(offset)
    except OSError as error:
        raise _offline(segments[number], error) from error
    in_segment = segments[number].size if where is None else where[0]
    return sum(segment.size for segment in segments[:number]) + in_segment


def _offline(segment: Segment, error: OSError) -> LogOffline:
    """The error of a read that failed. The log line names the file, which a client never learns."""
    path = segment.file.path
    _logger.error(
        "a log cannot be read", path=path, reason=str(error), what_to_do="`muster log check` names the damage"
    )
    return LogOffline(path, str(error))


def _parts(segments: LogSegments, offset: int, end_offset: int) -> list[tuple[Segment, int, int]]:
    """Return segment, first position and last position of each part from `offset` to the end."""
    if not segments.start_offset <= offset <= end_offset:
        raise OffsetOutOfRange(offset, segments.start_offset, end_offset)
    parts: list[tuple[Segment, int, int]] = []
    if offset == end_offset:
        return parts
    for segment in segments.since(offset):
        where = segment.locate(offset) if segment.base_offset < offset else (0, 0)
        if where is not None and where[0] < segment.size:
            parts.append((segment, where[0], segment.size))
    return parts


def replay(segments: LogSegments, offset: int, chunk_bytes: int) -> Iterator[bytes]:
    """Yield whole batches v2 from `offset` to the present end, in chunks, also where old formats are stored."""
    end_offset = segments.end_offset
    return _chunks(segments, _parts(segments, offset, end_offset), offset, end_offset, chunk_bytes)


def _chunks(
    segments: LogSegments, parts: list[tuple[Segment, int, int]], offset: int, end_offset: int, chunk_bytes: int
) -> Iterator[bytes]:
    while parts:
        segment, position, end = parts.pop(0)
        while position < end and not segment.is_replaced:
            data = segment.file.pread(min(max(chunk_bytes, HEADER_SIZE), end - position), position)
            whole, wanted, next_offset = whole_batches(data)
            if whole == 0 and wanted > len(data):
                data = segment.file.pread(min(wanted, end - position), position)
                whole, wanted, next_offset = whole_batches(data)
            if whole == 0:
                raise _no_batch(segment, position, data, wanted)
            if is_old(data):
                yield from _as_batches(segment, position, data[:whole])
            else:
                yield data if whole == len(data) else data[:whole]
            position += whole
            offset = next_offset
        if segment.is_replaced:
            parts = _parts(segments, offset, end_offset)


def _no_batch(segment: Segment, position: int, data: bytes, wanted: int) -> DamagedLog:
    try:
        check_shape(read_header(data), position)
    except CorruptBatch as error:
        return damage(segment.place(position), error)
    return DamagedLog(segment.place(position), f"only {len(data)} of the {wanted} bytes of a batch are there")


def _as_batches(segment: Segment, position: int, messages: bytes) -> Iterator[bytes]:
    at = 0
    try:
        for at, end in runs(messages):
            yield as_batch(messages[at:end])
    except BatchError as error:
        raise damage(segment.place(position + at), error) from error


def batch_headers(segments: LogSegments, offset: int) -> Iterator[BatchHeader]:
    """Yield the headers of all batches from the batch with `offset` on."""
    parts = _parts(segments, offset, segments.end_offset)
    return (header for segment, start, end in parts for _, header in segment_batches(segment, start, end))


def segment_batches(segment: Segment, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of the whole batches from `start` to `end`. Raises DamagedLog."""
    position = start
    try:
        for at, header in segment.batches(start, end):
            position = at
            if at + header.size > end:
                raise CorruptBatch(f"only {end - at} of the {header.size} bytes of a batch are there")
            position += header.size
            yield at, header
    except CorruptBatch as error:
        raise damage(segment.place(position), error) from error


class TimestampOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


Found = TimestampOffset | None
MANY_RECORDS: Final = 2_000
"""A batch with more records is searched in a thread. So is a compressed batch, whose real size is unknown."""


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
    """Find the first record with the greatest timestamp, maybe -1 (KIP-734). None when the log is empty."""
    greatest: Segment | None = None
    for segment in tuple(segments):
        segment.largest_timestamp()  # this computes `max_timestamp`, if it is unknown
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
