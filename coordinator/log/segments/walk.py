"""Iterates over the batches of a log from an offset to its end. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from muster.coordinator.log.errors import BatchError, CorruptBatch, DamagedLog, OffsetOutOfRange, damage
from muster.coordinator.log.records.headers import (
    HEADER_SIZE,
    BatchHeader,
    check_shape,
    is_old,
    read_header,
    whole_batches,
)
from muster.coordinator.log.records.old_format import as_batch, runs
from muster.coordinator.log.segments.log_segments import LogSegments
from muster.coordinator.log.segments.segment import Segment


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
    """Yield whole batches v2 from `offset` to the present end, in chunks of about `chunk_bytes`.

    Each chunk has one batch or more. Between two chunks a compaction may replace the segments that are read. Messages
    of old formats are converted to batches v2.
    """
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
    return DamagedLog(segment.place(position), f"a batch of {wanted} bytes, of which {len(data)} are there")


def _as_batches(segment: Segment, position: int, messages: bytes) -> Iterator[bytes]:
    at = 0
    try:
        for at, end in runs(messages):
            yield as_batch(messages[at:end])
    except BatchError as error:
        raise damage(segment.place(position + at), error) from error


def headers(segments: LogSegments, offset: int) -> Iterator[BatchHeader]:
    """Yield the headers of all batches from the batch with `offset` on."""
    parts = _parts(segments, offset, segments.end_offset)
    return (header for segment, start, end in parts for _, header in batches(segment, start, end))


def batches(segment: Segment, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of the whole batches from `start` to `end`. Raises DamagedLog for one that is not
    whole.
    """
    position = start
    try:
        for at, header in segment.batches(start, end):
            position = at
            if at + header.size > end:
                raise CorruptBatch(f"a batch of {header.size} bytes, of which {end - at} are there")
            position += header.size
            yield at, header
    except CorruptBatch as error:
        raise damage(segment.place(position), error) from error
