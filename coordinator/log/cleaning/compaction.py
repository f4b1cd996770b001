"""One compaction of one log, in a thread (Kafka: Cleaner). A compaction keeps the latest record of each key."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from threading import Event
from typing import NamedTuple

from muster.coordinator.log.cleaning.offset_map import Fact, LastRecordOf, OffsetMap, ProducersInLog, Undecided
from muster.coordinator.log.cleaning.record_filter import RecordFilter
from muster.coordinator.log.errors import BatchError, CorruptBatch
from muster.coordinator.log.file_names import LOG_SUFFIX
from muster.coordinator.log.records.batches import as_batch, runs
from muster.coordinator.log.records.building import assemble
from muster.coordinator.log.records.compression import compress
from muster.coordinator.log.records.headers import HEADER_SIZE, is_old, iterate, read_header, whole_batches
from muster.coordinator.log.records.markers import read_marker
from muster.coordinator.log.segments.cleaned_segment import CleanedFile
from muster.coordinator.log.settings import LogConfig
from muster.coordinator.log.storage.interfaces import File, Storage
from muster.coordinator.system.clock import thread_cpu_s

SLICE_S = 0.001
"""How many seconds a compaction runs before it may pause."""


class Stopped(Exception):
    """Raised in a compaction that must end, because the server stops."""


class Throttle:
    """Makes the pauses of one compaction. When `stop` is set, `spent` raises `Stopped`."""

    def __init__(self, stop: Event, *, cpu_share: float, bytes_per_second: float) -> None:
        """`cpu_share`: the share of a core, up to 1 (no pauses). `bytes_per_second`: for bytes read and written."""
        self._stop = stop
        self._pause_per_s = (1 - cpu_share) / cpu_share
        self._bytes_per_second = bytes_per_second
        self._bytes = 0
        self._since_s = thread_cpu_s()

    def begin(self) -> None:
        """Continue the compaction, perhaps in another thread than before."""
        self._since_s = thread_cpu_s()

    def spent(self, count: int) -> None:
        """Note that `count` bytes were read or written, and pause if necessary. Raises Stopped."""
        self._bytes += count
        now_s = thread_cpu_s()
        used_s = now_s - self._since_s
        if used_s < SLICE_S and not self._stop.is_set():
            return
        pause_s = max(used_s * self._pause_per_s, self._bytes / self._bytes_per_second - used_s)
        self._bytes = 0
        if self._stop.wait(pause_s) if pause_s > 0 else self._stop.is_set():
            raise Stopped
        self._since_s = thread_cpu_s()


CHUNK_BYTES = 48 * 1024
"""How many bytes are processed between two checks of the clock: half a millisecond of work."""


class Part(NamedTuple):
    """One segment as it was when the compaction was planned."""

    name: str
    """The path of the segment's files without a suffix."""
    base_offset: int
    next_base: int
    size: int
    created_ms: int


class Plan(NamedTuple):
    """The segments to compact: from the start of the log to the first segment that must be left alone."""

    parts: tuple[Part, ...]
    first_dirty: int
    """The offset from which nothing was compacted yet."""
    config: LogConfig
    now_ms: int
    capacity: int
    producers_since_ms: int
    """Producers without a batch since this time (wall ms) are forgotten."""
    last_record_of: LastRecordOf | None = None
    """Returns the last record of a producer. The function is None when the log has not loaded its producers."""

    @property
    def end_offset(self) -> int:
        """The first offset that the compaction leaves alone."""
        return self.parts[-1].next_base if self.parts else self.first_dirty


class Compaction:
    """Runs a plan: call `find` once, then `write` for each of `groups`."""

    def __init__(self, storage: Storage, plan: Plan, throttle: Throttle) -> None:
        self.plan = plan
        self.end_offset = plan.first_dirty
        self.groups: list[list[Part]] = []
        self.changed = False
        """Whether the last written group differs from the segments that it replaces."""
        self._met_old_format = False
        """Whether messages of an old format were written as batches v2."""
        self.bytes_written = 0
        self._storage = storage
        self._throttle = throttle
        self._map: OffsetMap
        self._filter: RecordFilter
        self.unfinished: CleanedFile | None = None

    # -- finding

    def find(self) -> None:
        """Find the latest record of each key. Raises CorruptBatch, UnsupportedCompression, OSError or Stopped."""
        while True:
            producers = ProducersInLog(
                self._producer_batches,
                newest_before_ms=self.plan.producers_since_ms,
                last_record_of=self.plan.last_record_of,
            )
            self._map = OffsetMap(self.plan.first_dirty, self.plan.capacity, producers)
            try:
                self._fill_map()
                break
            except Undecided as undecided:
                # the segment where the transaction begins, and all later segments, wait for its end
                parts = tuple(part for part in self.plan.parts if part.next_base <= undecided.offset)
                self.plan = self.plan._replace(parts=parts)
        self.end_offset = max(self._map.end_offset, self.plan.first_dirty)
        if not self._map.is_full:
            self.end_offset = max(self.plan.end_offset, self.plan.first_dirty)
            self._map.end_offset = self.end_offset
        config = self.plan.config
        self._filter = RecordFilter(
            self._map,
            producers,
            first_dirty=self.plan.first_dirty,
            now_ms=self.plan.now_ms,
            delete_retention_ms=config.delete_retention_ms,
        )
        if self.end_offset > self.plan.first_dirty:
            self.groups = grouped([part for part in self.plan.parts if part.base_offset < self.end_offset], config)

    def _fill_map(self) -> None:
        dirty = [part for part in self.plan.parts if part.next_base > self.plan.first_dirty]
        for part in dirty:
            with contextlib.closing(self._storage.file(part.name + LOG_SUFFIX)) as file:
                self._feed(file, part, self._map.add, lambda: self._map.is_full)
            if self._map.is_full:
                return

    def _producer_batches(self) -> Iterator[Fact]:
        for part in self.plan.parts:
            with contextlib.closing(self._storage.file(part.name + LOG_SUFFIX)) as file:
                position = 0
                while position < part.size:
                    data, used = file.pread(min(CHUNK_BYTES, part.size - position), position), 0
                    found = [(header, data[at : at + header.size]) for at, header in iterate(data)]
                    for header, batch in found or [(read_header(data), b"")]:  # b"": the batch is larger than a chunk
                        if header.producer_id >= 0:
                            yield header, read_marker(batch, header) if header.is_control else None
                        used += header.size
                    position += used
                    self._throttle.spent(used)

    def _feed(
        self, file: File, part: Part, process: Callable[[bytes], int], is_enough: Callable[[], bool] = lambda: False
    ) -> None:
        """Pass the batches of a segment to `process`, which returns how many bytes it has processed."""
        position, wanted = 0, CHUNK_BYTES
        while position < part.size and not is_enough():
            data = file.pread(min(wanted, part.size - position), position)
            used = process(data)
            if used == 0 and is_old(data):
                used = self._feed_old(file, position, data, process, is_enough)
            if used == 0:
                wanted = whole_batches(data)[1]
                if wanted <= len(data) or wanted > part.size - position:
                    raise CorruptBatch(f"{file.path} is damaged at byte {position}, or of an unknown format there")
                continue
            position, wanted = position + used, CHUNK_BYTES
            self._throttle.spent(used)

    def _feed_old(
        self, file: File, position: int, data: bytes, process: Callable[[bytes], int], is_enough: Callable[[], bool]
    ) -> int:
        """Pass the messages of an old format at the start of `data` to `process`, as batches v2."""
        used, start = whole_batches(data)[0], 0
        try:
            for start, end in runs(data[:used]):
                if is_enough():
                    break
                process(_compressed(as_batch(data[start:end]), read_header(data, start).compression))
                self._met_old_format = True
        except BatchError as error:
            raise type(error)(f"{file.path} cannot be read at byte {position + start}: {error}") from error
        return used

    # -- writing

    def write(self, group: list[Part]) -> CleanedFile:
        """Write the kept records of a group; return the file, which is complete and synced."""
        first, interval = group[0], self.plan.config.index_interval_bytes
        out = self.unfinished = CleanedFile(self._storage, first.name, first.base_offset, interval)
        self._filter.keep, self._filter.keep_aborted = out.keep, out.aborted.append
        rewritten = self._filter.rewritten
        self._met_old_format = False
        for part in group:
            with contextlib.closing(self._storage.file(part.name + LOG_SUFFIX)) as file:
                self._feed(file, part, self._filter.add)
        out.end()
        self.bytes_written += out.size
        is_rewritten = self._met_old_format or self._filter.rewritten > rewritten
        self.changed = is_rewritten or out.size != sum(part.size for part in group)
        self.unfinished = None
        return out


def _compressed(batch: bytes, codec: int) -> bytes:
    header = read_header(batch)
    if not codec or not header.record_count:
        return batch
    records = compress(batch[HEADER_SIZE:], codec)
    return assemble(header._replace(attributes=header.attributes | codec), records, header.record_count)


def grouped(parts: list[Part], config: LogConfig) -> list[list[Part]]:
    """Group neighbours that fit into one segment together (Kafka: Cleaner.groupSegmentsBySize)."""
    groups: list[list[Part]] = []
    # an entry of the offset index takes 8 bytes, an entry of the time index 12. Each interval has one entry at most.
    interval = max(config.index_interval_bytes, HEADER_SIZE)
    max_bytes = min(config.segment_bytes, (config.segment_index_bytes // 12 - 1) * interval)
    size = 0
    for part in parts:
        reach = part.next_base - 1 - groups[-1][0].base_offset if groups else 0
        if groups and size + part.size <= max_bytes and reach < 1 << 31:
            groups[-1].append(part)
            size += part.size
        else:
            groups.append([part])
            size = part.size
    return groups
