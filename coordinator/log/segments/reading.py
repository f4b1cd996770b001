"""Reads bytes of a log for fetches, straight from its files. Changes nothing."""

from __future__ import annotations

from muster.coordinator.log.errors import LogOffline, OffsetOutOfRange
from muster.coordinator.log.segments.log_segments import LogSegments


def read(segments: LogSegments, offset: int, max_bytes: int, min_one_message: bool, up_to: int | None) -> bytes:
    """See `unified_log.UnifiedLog.read`."""
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
            found = segment.read(offset, max_bytes, end_position, min_one_message)
        except OSError as error:
            raise LogOffline(segment.file.path, str(error)) from error
        if found is not None:
            return found
    return b""


def size_up_to(segments: LogSegments, offset: int) -> int:
    """Return the bytes of the batches before the batch of an offset. Raises LogOffline."""
    number = segments.index_for(offset)
    try:
        where = segments[number].locate(offset)
    except OSError as error:
        raise LogOffline(segments[number].file.path, str(error)) from error
    in_segment = segments[number].size if where is None else where[0]
    return sum(segment.size for segment in segments[:number]) + in_segment
