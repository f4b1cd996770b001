"""Which segments of a log are given up by age or by size (Kafka: UnifiedLog.deleteOldSegments). Removes nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import structlog

from muster.coordinator.log.errors import CorruptBatch
from muster.coordinator.log.records.headers import check_crc, check_shape, read_header
from muster.coordinator.log.segments.log_segments import LogSegments
from muster.coordinator.log.segments.segment import Segment

_logger = structlog.get_logger("muster.log")


def rules(
    segments: LogSegments, wall_ms: int, *, topic: str, partition: int
) -> Iterator[tuple[str, Callable[[Segment], bool]]]:
    """Yield each property that gives up segments, with a function. The function is called for each segment in order.

    It returns whether the property gives up the segment.
    """
    config = segments.config
    if config.deletes and config.retention_ms >= 0:
        oldest_ms = wall_ms - config.retention_ms
        yield "retention.ms", lambda segment: _is_older(segment, oldest_ms, topic, partition)
    if config.deletes and config.retention_bytes >= 0:
        yield "retention.bytes", _exceeds(segments.size_bytes - config.retention_bytes)


def count_given_up(
    segments: LogSegments, durable_offset: int, is_given_up: Callable[[Segment], bool], most: int
) -> int:
    """Return how many segments from the first on are given up, at most `most`, and only durable ones."""
    count = 0
    for index, segment in enumerate(segments):
        is_last = index + 1 == len(segments)
        end_offset = segments.end_offset if is_last else segments[index + 1].base_offset
        if count >= most or end_offset > durable_offset or (is_last and segment.size == 0) or not is_given_up(segment):
            break
        count += 1
    return count


def _is_older(segment: Segment, oldest_ms: int, topic: str, partition: int) -> bool:
    """Whether all records of a segment are older. Its batches decide when only an index says so."""
    try:
        if segment.largest_timestamp() >= oldest_ms:
            return False
        # the values of an absent segment were kept with its bytes, and not in an index
        if segment.is_absent or _tells_its_time(segment):
            return True
    except CorruptBatch as error:
        _logger.error("a segment is kept: it is damaged, so nobody knows how old its records are", topic=topic,
                      partition=partition, path=segment.file.path, reason=str(error))  # fmt: skip
        return False
    _logger.warning("a time index was damaged, and is made anew", topic=topic, partition=partition,
                    path=segment.file.path)  # fmt: skip
    return segment.largest_timestamp() < oldest_ms


def _tells_its_time(segment: Segment) -> bool:
    """Whether the batch with the greatest timestamp, by the index, has that timestamp.

    If not, the time index was damaged. It is rebuilt, and `largest_timestamp` is right from then on. Raises
    CorruptBatch for damaged batches.
    """
    if segment.max_timestamp < 0:
        first = next(segment.batches(0, segment.size), None)
        if first is None or first[1].max_timestamp < 0:
            return True
    where = segment.locate(segment.max_timestamp_offset) if segment.max_timestamp >= 0 else None
    if where is not None:
        data = segment.file.pread(where[1], where[0])
        with contextlib.suppress(CorruptBatch):
            header = read_header(data)
            check_shape(header, where[0])
            if header.max_timestamp == segment.max_timestamp and check_crc(data, 0, header):
                return True
    segment.rebuild_indexes()
    return False


def _exceeds(excess: int) -> Callable[[Segment], bool]:
    """Return a function that gives up segments as long as the log stays at or above its limit without them."""

    def is_given_up(segment: Segment) -> bool:
        nonlocal excess
        if excess < segment.size or excess <= 0:
            return False
        excess -= segment.size
        return True

    return is_given_up
