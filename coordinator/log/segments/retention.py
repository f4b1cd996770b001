"""Which segments of a log go, and when: by age, by size, and because the log begins behind them (Kafka:
UnifiedLog.deleteOldSegments).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from muster.coordinator.log.errors import CorruptBatch
from muster.coordinator.log.records.headers import check_crc, check_shape, read_header
from muster.coordinator.log.segments.segment import Segment

if TYPE_CHECKING:
    from muster.coordinator.log.log import Log

_logger = structlog.get_logger("muster.log")


def enforce(log: Log, wall_ms: int) -> int:
    """Remove what the topic's settings give up at `wall_ms`; how many segments."""
    if log.failure is not None:
        return 0
    removed = 0
    config = log.config
    if config.deletes:
        if config.retention_ms >= 0:
            oldest_ms = wall_ms - config.retention_ms
            removed += _remove(log, wall_ms, "retention.ms", lambda segment: _is_older(log, segment, oldest_ms))
        if config.retention_bytes >= 0:
            removed += _remove(log, wall_ms, "retention.bytes", _Excess(log.size_bytes - config.retention_bytes))
    removed += remove_below_start(log)
    for segment in log.segments[:-1]:
        segment.release()
    return removed


def _is_older(log: Log, segment: Segment, oldest_ms: int) -> bool:
    """Whether all records of a segment are older; by its batches, where only an index says so."""
    try:
        if segment.largest_timestamp() >= oldest_ms:
            return False
        if _tells_its_time(segment):
            return True
    except CorruptBatch as error:
        _logger.error("a segment is kept: it is damaged, so nobody knows how old its records are", topic=log.topic,
                      partition=log.partition, path=segment.file.path, reason=str(error))  # fmt: skip
        return False
    _logger.warning("a time index was damaged, and is made anew", topic=log.topic, partition=log.partition,
                    path=segment.file.path)  # fmt: skip
    return segment.largest_timestamp() < oldest_ms


def _tells_its_time(segment: Segment) -> bool:
    """Whether the batch that is said to have the greatest timestamp has it. If not, the time index was damaged; it is
    made anew, and `largest_timestamp` is right from then on. CorruptBatch where the batches themselves are damaged.
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


class _Excess:
    """Says yes as long as the log stays at or above its limit without the segment."""

    def __init__(self, excess: int) -> None:
        self._excess = excess

    def __call__(self, segment: Segment) -> bool:
        if self._excess < segment.size or self._excess <= 0:
            return False
        self._excess -= segment.size
        return True


def _remove(log: Log, wall_ms: int, why: str, gives_up: Callable[[Segment], bool]) -> int:
    count = 0
    for index, segment in enumerate(log.segments):
        is_last = index + 1 == len(log.segments)
        bound = log.end_offset if is_last else log.segments[index + 1].base_offset
        if bound > log.durable_offset or (is_last and segment.size == 0) or not gives_up(segment):
            break
        count += 1
    if count == 0:
        return 0
    if count == len(log.segments):
        log.roll(wall_ms)  # a log always has a segment to append to, and keeps its end offset by it
    start_offset = log.segments[count].base_offset
    _logger.info(
        "segments were removed",
        topic=log.topic,
        partition=log.partition,
        why=why,
        segments=count,
        start_offset=start_offset,
    )
    log.raise_start(start_offset)
    log.remove_segments(0, count)
    return count


def remove_below_start(log: Log) -> int:
    """Remove the segments that lie wholly below the log's start; how many."""
    count = 0
    if log.start_offset <= log.doubtful_start:
        return 0
    while count + 1 < len(log.segments) and log.segments[count + 1].base_offset <= log.start_offset:
        count += 1
    if count:
        log.remove_segments(0, count)
    return count
