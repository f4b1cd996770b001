"""Which logs are due for compaction, and which part of them may be compacted (Kafka: LogCleanerManager)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from muster.coordinator.log.cleaning.compaction import Part, Plan
from muster.coordinator.log.cleaning.offset_map import BYTES_PER_KEY
from muster.coordinator.log.records.headers import HEADER_SIZE, read_header
from muster.coordinator.log.segments.segment import Segment
from muster.coordinator.log.settings import MAX_INT64, LogSettings
from muster.coordinator.log.unified_log import UnifiedLog


class LogToClean(NamedTuple):
    """A compacted log as it is now."""

    log: UnifiedLog
    segments: tuple[Segment, ...]
    """All segments that may be compacted, the clean ones too."""
    first_dirty: int
    """The offset from which nothing was compacted yet."""
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """Whether a record has waited for `max.compaction.lag.ms`."""

    @property
    def end_offset(self) -> int:
        """The end of the segments that may be compacted; the log must have such segments."""
        segments = self.log.segments
        return segments[segments.index(self.segments[-1]) + 1].base_offset

    @property
    def cleanable_ratio(self) -> float:
        """The dirty share of the bytes that may be compacted."""
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes) if self.dirty_bytes else 0.0

    @property
    def is_due(self) -> bool:
        """Whether the log is dirty enough (`min.cleanable.dirty.ratio`), or overdue."""
        least = self.log.config.min_cleanable_dirty_ratio
        return self.dirty_bytes > 0 and (self.is_overdue or self.cleanable_ratio > least)

    def plan(self, settings: LogSettings, wall_ms: int) -> Plan:
        """Return the plan of its compaction."""
        segments = self.log.segments
        bases = [*(segment.base_offset for segment in self.segments[1:]), self.end_offset]
        return Plan(
            parts=tuple(
                Part(segment.name, segment.base_offset, next_base, segment.size, segment.created_ms)
                for segment, next_base in zip(self.segments, bases, strict=True)
            ),
            first_dirty=self.first_dirty,
            config=replace(self.log.config, segment_bytes=min(self.log.config.segment_bytes, segments.roll_bytes)),
            now_ms=wall_ms,
            capacity=max(
                settings.log_cleaner_dedupe_buffer_size // max(settings.log_cleaner_threads, 1) // BYTES_PER_KEY, 1
            ),
            producers_since_ms=wall_ms - settings.producer_id_expiration_ms,
            last_record_of=self.log.producers.last_record_of if self.log.knows_producers else None,
        )


def examine(log: UnifiedLog, cleaned_up_to: int | None, wall_ms: int) -> LogToClean:
    """Return how dirty a log is. `cleaned_up_to`: the offset in the checkpoint; None before the first compaction."""
    first_dirty = log.start_offset
    if cleaned_up_to is not None and log.start_offset <= cleaned_up_to <= log.end_offset:
        first_dirty = cleaned_up_to
    segments: list[Segment] = []
    clean_bytes = dirty_bytes = 0
    oldest_dirty_ms = MAX_INT64
    for segment, follower in pairwise(log.segments):
        is_dirty = follower.base_offset > first_dirty
        if follower.base_offset > log.durable_offset or (is_dirty and _is_too_young(segment, log, wall_ms)):
            break
        segments.append(segment)
        if not is_dirty:
            clean_bytes += segment.size
        else:
            dirty_bytes += segment.size
            if oldest_dirty_ms == MAX_INT64:
                oldest_dirty_ms = _first_timestamp(segment)
    lag_ms = log.config.max_compaction_lag_ms
    is_overdue = lag_ms < MAX_INT64 and 0 <= oldest_dirty_ms <= wall_ms - lag_ms
    return LogToClean(log, tuple(segments), first_dirty, clean_bytes, dirty_bytes, is_overdue)


def _is_too_young(segment: Segment, log: UnifiedLog, wall_ms: int) -> bool:
    lag_ms = log.config.min_compaction_lag_ms
    return lag_ms > 0 and segment.largest_timestamp() > wall_ms - lag_ms


def _first_timestamp(segment: Segment) -> int:
    """Return the timestamp of a segment's first batch, or else the time when the segment was created."""
    if segment.first_timestamp < 0 and segment.size and not segment.is_absent:
        segment.first_timestamp = read_header(segment.file.pread(HEADER_SIZE, 0)).max_timestamp
    return segment.first_timestamp if segment.first_timestamp >= 0 else segment.created_ms
