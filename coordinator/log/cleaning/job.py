"""Which part of a log may be compacted (Kafka: LogCleanerManager), and one running compaction."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import structlog

from muster.coordinator.log.cleaning.compaction import Compaction, Part, Plan, Stopped, Throttle
from muster.coordinator.log.cleaning.offset_map import BYTES_PER_KEY
from muster.coordinator.log.errors import LogError
from muster.coordinator.log.file_names import LOG_SUFFIX, SWAP_SUFFIX
from muster.coordinator.log.manager import LogManager
from muster.coordinator.log.records.headers import HEADER_SIZE, read_header
from muster.coordinator.log.segments import cleaned_segment
from muster.coordinator.log.segments.cleaned_segment import CleanedFile
from muster.coordinator.log.segments.segment import Segment
from muster.coordinator.log.segments.transaction_index import TransactionIndex
from muster.coordinator.log.settings import MAX_INT64, LogSettings
from muster.coordinator.log.storage.shared_sync import SharedSync
from muster.coordinator.log.unified_log import UnifiedLog


class LogToClean(NamedTuple):
    """A compacted log as it is now."""

    log: UnifiedLog
    segments: tuple[Segment, ...]
    """All segments that may be compacted, also the clean segments."""
    first_dirty: int
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
        """Return the plan of the log's compaction."""
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
    if segment.first_timestamp < 0 and segment.size and not segment.is_absent:
        segment.first_timestamp = read_header(segment.file.pread(HEADER_SIZE, 0)).max_timestamp
    return segment.first_timestamp if segment.first_timestamp >= 0 else segment.created_ms


_logger = structlog.get_logger("muster.log")


class CleaningJob:
    """Compacts one log in groups of segments. Each group replaces its segments as soon as it is written."""

    def __init__(
        self,
        manager: LogManager,
        workers: SharedSync,
        found: LogToClean,
        throttle: Throttle,
        wall_ms: int,
        ended: Callable[[CleaningJob], object],
    ) -> None:
        self.log: UnifiedLog = found.log
        self.failure: LogError | OSError | None = None
        """Why the compaction has failed; None while it has not. After a LogError another attempt would fail too."""
        self.stopped = False
        """Whether the compaction ended early: the server stops, or the log has changed meanwhile."""
        self._manager = manager
        self._workers = workers
        self._throttle = throttle
        self._compaction = Compaction(manager.storage, found.plan(manager.settings, wall_ms), throttle)
        self.planned_end = self._compaction.plan.end_offset
        """The planned end of the clean part. An open transaction may end the clean part earlier."""
        self._segments = found.segments
        self._groups: list[list[Part]] | None = None
        self._cleaned: CleanedFile | None = None
        self._index: TransactionIndex | None = None
        self._group: list[Part] = []
        self._swapped: Segment | None = None
        self._is_renamed = False
        self._ended = ended

    @property
    def first_dirty(self) -> int:
        """The offset from which nothing was compacted before."""
        return self._compaction.plan.first_dirty

    @property
    def end_offset(self) -> int:
        """The end of the clean part after this compaction."""
        return self._compaction.end_offset

    def begin(self) -> None:
        """Do the next step of the compaction in a thread."""
        self._workers.run(self._work, self._after_work)

    # -- in a thread

    def _work(self) -> None:
        self._throttle.begin()
        try:
            if self._swapped is not None:
                replaced = [part.name for part in self._group]
                with self._manager.folders.files_lock:
                    cleaned_segment.finish_swap(self._manager.storage, self.log.directory, self._swapped.name, replaced)
                self._is_renamed = True
            if self._groups is None:
                self._compaction.find()
                self._groups = self._compaction.groups
            while self._groups and self._cleaned is None:
                self._clean(self._groups.pop(0))
        except Stopped:
            self.stopped = True
        except (LogError, OSError) as error:
            self.failure = error
        except Exception as error:  # a bug must neither end the thread without a report nor end the server
            _logger.exception("a log cannot be compacted", topic=self.log.topic, partition=self.log.partition)
            self.failure = LogError(repr(error))
        unfinished = self._cleaned or self._compaction.unfinished
        if (self.stopped or self.failure) and unfinished is not None:
            with contextlib.suppress(OSError):  # after a crash the next start removes the file
                cleaned_segment.remove_cleaned(self._manager.storage, unfinished)

    def _clean(self, group: list[Part]) -> None:
        cleaned = self._compaction.write(group)
        if len(group) == 1 and not self._compaction.changed:
            cleaned_segment.remove_cleaned(self._manager.storage, cleaned)  # no record was removed
            return
        self._group = group
        self._cleaned = cleaned
        cleaned_segment.commit_swap(self._manager.storage, self.log.directory, cleaned, group[-1].next_base)
        self._index = cleaned_segment.load_transaction_index(self._manager.storage, cleaned)

    # -- on the event loop

    def _after_work(self, _: OSError | None) -> None:
        swapped, self._swapped = self._swapped, None
        if swapped is not None:
            if not self._is_renamed:
                # opening the log again finishes the swap
                self.log.go_offline(swapped.file.path, OSError(str(self.failure)))
            elif self.log.failure is None:
                swapped.end_swap()
                if self.log.knows_producers:
                    self.log.producers.swap_ended(swapped)
            self._is_renamed = False
        cleaned, self._cleaned = self._cleaned, None
        if self.failure is not None or self.stopped:
            self._ended(self)
        elif cleaned is None:
            if self.end_offset > self.first_dirty:
                self._log_result()
            self._ended(self)
        elif self._may_swap():
            self._swap(cleaned)
            self.begin()
        else:
            self.stopped = True
            storage = self._manager.storage
            self._workers.run(lambda: cleaned_segment.remove_cleaned(storage, cleaned), lambda _: self._ended(self))

    def _old(self) -> list[Segment]:
        bases = {part.base_offset for part in self._group}
        return [segment for segment in self._segments if segment.base_offset in bases]

    def _may_swap(self) -> bool:
        """Whether the log still has the compacted segments."""
        log, old = self.log, self._old()
        if log.failure is not None or self._manager.get(log.topic, log.partition) is not log:
            return False
        if old[0] not in log.segments:
            return False
        first = log.segments.index(old[0])
        return (
            log.segments[first : first + len(old)] == old
            and first + len(old) < len(log.segments)
            and [segment.size for segment in old] == [part.size for part in self._group]
        )

    def _swap(self, cleaned: CleanedFile) -> None:
        old = self._old()
        new = Segment(self._manager.storage, cleaned.name, cleaned.base_offset, self.log.config, old[-1].created_ms)
        new.adopt_cleaned(cleaned, cleaned.name + LOG_SUFFIX + SWAP_SUFFIX)
        self.log.segments.replace(old, new)
        self.log.producers.compacted(old, self._index)
        self.log.durability.replaced(old, new, cleaned.aborted)
        self._swapped = new

    def _log_result(self) -> None:
        work = self._compaction
        before = sum(part.size for part in work.plan.parts)
        self._manager.note_compaction(before - work.bytes_written)
        _logger.info("a log was compacted", topic=self.log.topic, partition=self.log.partition, up_to=work.end_offset,
                     bytes_before=before, bytes_after=work.bytes_written)  # fmt: skip
