"""The segments of one log in order, and the segments that retention removes (Kafka: LogSegments, LocalLog)."""

from __future__ import annotations

import contextlib
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import overload

import structlog

from muster.coordinator.log.errors import CorruptBatch, RecordListTooLarge
from muster.coordinator.log.file_names import segment_name
from muster.coordinator.log.records.headers import check_crc, check_shape, read_header
from muster.coordinator.log.segments.index import MAX_RELATIVE_OFFSET
from muster.coordinator.log.segments.segment import Segment
from muster.coordinator.log.settings import MAX_INT64, LogConfig
from muster.coordinator.log.storage.interfaces import Storage


class LogSegments(Sequence[Segment]):
    """The segments of one log, which always has a segment."""

    def __init__(
        self,
        storage: Storage,
        directory: str,
        segments: list[Segment],
        config: LogConfig,
        *,
        start_offset: int,
        end_offset: int,
        doubtful_start: int,
    ) -> None:
        self.storage = storage
        self.directory = directory
        self.config = config
        self.stamps_append_time = config.stamps_append_time
        self.start_offset = start_offset
        """The first offset that may be read."""
        self.doubtful_start = doubtful_start
        """A start offset that only a checkpoint gives, or -1. While the log begins there, earlier segments are kept."""
        self.end_offset = end_offset
        """The offset of the next record."""
        self.active = segments[-1]
        self.roll_bytes = MAX_INT64
        """No segment grows beyond this many bytes, whatever `segment.bytes` is, except by one large batch. Only
        `limit_bytes` sets it.
        """
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._sealed_bytes = -1
        self._max_bytes = self._max_wait_ms = 0
        """The limits of the active segment. Each append looks at them."""
        self._set_limits()

    def __len__(self) -> int:
        return len(self._segments)

    @overload
    def __getitem__(self, index: int) -> Segment: ...
    @overload
    def __getitem__(self, index: slice) -> list[Segment]: ...
    def __getitem__(self, index: int | slice) -> Segment | list[Segment]:
        return self._segments[index]

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        if self._sealed_bytes < 0:
            # each Fetch needs the size, and the sum of all segments but the last changes seldom
            self._sealed_bytes = sum(segment.size for segment in self._segments[:-1])
        return self._sealed_bytes + self.active.size

    def use_config(self, config: LogConfig) -> None:
        """Use the topic's new settings."""
        self.config = config
        self.stamps_append_time = config.stamps_append_time
        for segment in self._segments:
            segment.config = config
        self._set_limits()

    def limit_bytes(self, roll_bytes: int) -> None:
        """Set `roll_bytes`."""
        self.roll_bytes = roll_bytes
        self._set_limits()

    def index_for(self, offset: int) -> int:
        """Return the index of the segment that has `offset`, or would have it."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def since(self, offset: int) -> list[Segment]:
        """Return the segments from the segment of `offset` (`index_for`) to the active segment."""
        active = self.active
        if offset >= active.base_offset:
            return [active]
        first = self.index_for(offset)
        return self._segments[first:]

    # -- beginning new segments

    def must_roll(self, size: int, last_offset: int, max_timestamp: int, wall_ms: int) -> bool:
        """Whether a batch needs a new segment: the active one is too full, old or far. Raises RecordListTooLarge."""
        segment = self.active
        used, first_timestamp = segment.size, segment.first_timestamp
        if used + size > self._max_bytes:
            if size > self.config.segment_bytes:
                what = f"a batch of {size} bytes does not fit into a segment of {self.config.segment_bytes} bytes"
                raise RecordListTooLarge(what)
            if used:
                return True
        if used == 0:
            segment.created_ms = wall_ms
            return False
        if first_timestamp >= 0 and max_timestamp >= 0:
            # measured by the records' own time if they have one, as on Kafka: replayed old data rolls as before
            waited_ms = max_timestamp - first_timestamp
        else:
            waited_ms = wall_ms - segment.created_ms
        return (
            waited_ms > self._max_wait_ms
            or segment.has_full_index
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        )

    def _set_limits(self) -> None:
        """Set the limits of the active segment: another segment is active, or the settings have changed."""
        config = self.config
        self._max_bytes = min(config.segment_bytes, self.roll_bytes)
        jitter = min(config.segment_jitter_ms, config.segment_ms)
        self._max_wait_ms = config.segment_ms
        if jitter > 0:
            self._max_wait_ms -= zlib.crc32(self.active.name.encode()) % jitter
        if config.compacts:
            # compaction leaves the active segment alone
            self._max_wait_ms = min(self._max_wait_ms, config.max_compaction_lag_ms)

    def make(self, base_offset: int, created_ms: int) -> Segment:
        """Make a segment for this log, without writing anything."""
        return Segment(
            self.storage, f"{self.directory}/{segment_name(base_offset)}", base_offset, self.config, created_ms
        )

    def append(self, segment: Segment) -> None:
        """Add `segment` at the end, as the active segment."""
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment
        self._sealed_bytes = -1
        self._set_limits()

    # -- removing

    def take_out(self, first: int, last: int) -> list[Segment]:
        """Take the segments `[first:last]` out of the log. The caller removes their files in the order of the result.

        So a crash leaves no gap. When the last segment is removed, `append` or `cut_last` must follow.
        """
        removed = self._segments[first:last]
        if last == len(self._segments):
            removed.reverse()
        del self._segments[first:last], self._bases[first:last]
        self._sealed_bytes = -1
        return removed

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Put the compacted segment `new` in the place of `old`, neighbours in the log. Files are not changed."""
        first = self._segments.index(old[0])
        last = first + len(old)
        self._segments[first:last] = [new]
        self._bases[first:last] = [new.base_offset]
        self._sealed_bytes = -1
        for segment in old:
            segment.is_replaced = True
            segment.file.close()

    def count_below_start(self) -> int:
        """Return how many segments are wholly below the log's start."""
        count = 0
        if self.start_offset > self.doubtful_start:
            while count + 1 < len(self._segments) and self._bases[count + 1] <= self.start_offset:
                count += 1
        return count

    def cut_last(self, offset: int) -> int:
        """Cut the last segment at `offset`, make it active again, and wait for the disk; return its end."""
        segment = self.active = self._segments[-1]
        self._sealed_bytes = -1
        self._set_limits()
        where = segment.locate(offset)
        end_offset = segment.cut(where[0]) if where is not None else segment.restore_marks()
        # after a crash, later appends must never stand beside the cut bytes
        segment.file.sync()
        self.storage.sync_directory(self.directory)
        return end_offset


_logger = structlog.get_logger("muster.log")


def retention_rules(
    segments: LogSegments, wall_ms: int, *, topic: str, partition: int
) -> Iterator[tuple[str, Callable[[Segment], bool]]]:
    """Yield each retention property, with a function that says of each segment, in order, whether to remove it."""
    config = segments.config
    if config.deletes and config.retention_ms >= 0:
        oldest_ms = wall_ms - config.retention_ms
        yield "retention.ms", lambda segment: _is_older(segment, oldest_ms, topic, partition)
    if config.deletes and config.retention_bytes >= 0:
        yield "retention.bytes", _exceeds(segments.size_bytes - config.retention_bytes)


def count_given_up(
    segments: LogSegments, durable_offset: int, is_given_up: Callable[[Segment], bool], max_count: int
) -> int:
    """Return how many segments, from the first on, are to be removed: at most `max_count` durable segments."""
    count = 0
    for index, segment in enumerate(segments):
        is_last = index + 1 == len(segments)
        end_offset = segments.end_offset if is_last else segments[index + 1].base_offset
        if (
            count >= max_count
            or end_offset > durable_offset
            or (is_last and segment.size == 0)
            or not is_given_up(segment)
        ):
            break
        count += 1
    return count


def _is_older(segment: Segment, oldest_ms: int, topic: str, partition: int) -> bool:
    """Whether all records of a segment are older than `oldest_ms`. If an index says so, a batch must confirm it."""
    try:
        if segment.largest_timestamp() >= oldest_ms:
            return False
        # the values of an absent segment were kept with its bytes, and not in an index
        if segment.is_absent or _has_its_timestamp(segment):
            return True
    except CorruptBatch as error:
        _logger.error("a segment is kept: it is damaged, so nobody knows how old its records are", topic=topic,
                      partition=partition, path=segment.file.path, reason=str(error))  # fmt: skip
        return False
    _logger.warning("a time index was damaged, and is made anew", topic=topic, partition=partition,
                    path=segment.file.path)  # fmt: skip
    return segment.largest_timestamp() < oldest_ms


def _has_its_timestamp(segment: Segment) -> bool:
    """Whether a batch has the greatest timestamp of the index; if not, rebuild the index. Raises CorruptBatch."""
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
    """Return a function that says whether to remove a segment: the other segments have at least the allowed size."""

    def is_given_up(segment: Segment) -> bool:
        nonlocal excess
        if excess < segment.size or excess <= 0:
            return False
        excess -= segment.size
        return True

    return is_given_up
