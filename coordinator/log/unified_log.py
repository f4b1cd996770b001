"""One partition's log (Kafka: UnifiedLog): appends, reads and removes records.

A log has `LogSegments` (the files), `LeaderEpochs`, `Durability` (what is synced, and who waits) and `Availability`
(whether the log works). A log is used from one thread, the event loop. Only `flush`, `close` and `truncate` wait for
the disk. The log parses the headers of batches, not their records.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import structlog

from muster.coordinator.log.checkpoints import LEADER_EPOCHS
from muster.coordinator.log.disk_durability import DiskDurability
from muster.coordinator.log.durability import Availability, Durability, Engine
from muster.coordinator.log.errors import (
    BatchError,
    CorruptBatch,
    DamagedLog,
    FencedLeaderEpoch,
    LogOffline,
    OffsetOutOfRange,
    TruncatedBatch,
    damage,
)
from muster.coordinator.log.producers.state_manager import ProducerStateManager
from muster.coordinator.log.records.headers import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    Buffer,
    iterate,
    set_log_append_time,
    stamp,
    unpack_for_append,
)
from muster.coordinator.log.records.markers import EndMarker, build_marker
from muster.coordinator.log.segments import reading
from muster.coordinator.log.segments.absence import with_absent_segments
from muster.coordinator.log.segments.leader_epochs import LeaderEpochs, store_epochs
from muster.coordinator.log.segments.log_segments import LogSegments, count_given_up, retention_rules
from muster.coordinator.log.segments.reading import TimestampOffset
from muster.coordinator.log.segments.segment import Segment
from muster.coordinator.log.settings import MAX_INT64, LogConfig
from muster.coordinator.log.storage.interfaces import FilePart
from muster.coordinator.log.storage.shared_sync import SharedSync, Waiter
from muster.coordinator.system.jobs import Job

_COPY_LIMIT = 32 * 1024
"""A larger batch, in bytes, is written in two pieces and not copied."""
_logger = structlog.get_logger("muster.log")


class AppendResult(NamedTuple):
    """The offsets of an append, or of the earlier batch that it duplicates (Kafka's LogAppendInfo)."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 when the topic keeps the producer's own timestamps."""
    log_start_offset: int

    @property
    def end_offset(self) -> int:
        """The offset after the last record. The append is durable when the log is durable up to this offset."""
        return self.last_offset + 1


class UnifiedLog:
    """The log of one partition. `LogManager.open_log` makes a `UnifiedLog`."""

    def __init__(
        self,
        topic: str,
        partition: int,
        segments: LogSegments,
        epochs: LeaderEpochs,
        *,
        recovery_point: int,
        sync: SharedSync | None,
        wait_for_sync: bool,
        engine: Engine | None,
    ) -> None:
        """`sync`, `wait_for_sync`: see `DiskDurability`. `engine`: makes the log durable elsewhere than on the disk."""
        self.topic = topic
        self.partition = partition
        self.segments = segments
        self.epochs = epochs
        self.closed_cleanly = False
        self._availability = Availability(topic, partition)
        self.durability: Durability
        if engine is None:
            self.durability = DiskDurability(segments, self._availability, recovery_point, sync, wait_for_sync)
        else:
            self.durability = engine.durability(segments, self._availability)
        self._producers: ProducerStateManager | None = None

    # -- state

    @property
    def directory(self) -> str:
        """The name of the log's folder."""
        return self.segments.directory

    @property
    def config(self) -> LogConfig:
        """The topic's settings; new settings take effect when they are assigned."""
        return self.segments.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self.segments.use_config(config)

    @property
    def start_offset(self) -> int:
        """The first offset that may be read."""
        return self.segments.start_offset

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self.segments.end_offset

    @property
    def durable_offset(self) -> int:
        """All records before this offset are durable: the high watermark of a partition without replicas."""
        return self.durability.durable_offset

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch that the log has seen; -1 when it has seen none."""
        return self.epochs.latest

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return self.segments.size_bytes

    @property
    def producers(self) -> ProducerStateManager:
        """The producers with an id that write to the log, and their transactions; created at the first use."""
        found = self._producers
        if found is None:
            durability = self.durability
            found = self._producers = ProducerStateManager(
                self.segments,
                durability.in_background,
                lambda: durability.durable_offset,
                keeps_batches=durability.is_copied,
            )
        return found

    @property
    def knows_producers(self) -> bool:
        """Whether `producers` was created and has read the log."""
        return self._producers is not None and self._producers.is_loaded

    @property
    def failure(self) -> LogOffline | None:
        """Why nothing can be appended any more; None while the log works."""
        return self._availability.failure

    def go_offline(self, path: str, error: OSError) -> None:
        """Take the log offline, as after a failed write: its files cannot be trusted."""
        self._availability.fail(path, error)

    def go_online(self) -> None:
        """Continue with the open files, because the data directory is back."""
        self._availability.go_online()

    def on_append(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` after each append, and when more records are durable. The returned function ends calls."""
        return self.durability.listeners.add(callback)

    def when_durable(self, position: int, callback: Waiter) -> None:
        """Call `callback(None)` once all records before `position` are durable, or `callback(error)` on a failure."""
        self.durability.when_durable(position, callback)

    def when_flushed(self, position: int, callback: Waiter) -> None:
        """Call back when an append that ended at `position` may be acknowledged, see `DiskDurability`."""
        self.durability.when_flushed(position, callback)

    def when_synced(self, position: int, callback: Waiter) -> None:
        """Call back once all records before `position` are on the disk, see `DiskDurability`."""
        self.durability.when_synced(position, callback)

    def sync_if_older(self, mono_ms: int) -> None:
        """Begin a sync when data has waited for `flush.ms`."""
        self.durability.sync_if_older(mono_ms)

    def flush(self) -> None:
        """Sync everything written, and wait for the disk. Raises LogOffline."""
        self.durability.flush()

    # -- appending

    def append(
        self, leader_epoch: int, batch: Buffer, *, wall_ms: int, marker: EndMarker | None = None
    ) -> AppendResult:
        """Append whole batches. The batches get the next offsets, the leader epoch and maybe the append time.

        Other fields are stored unchanged; a bytearray may be changed in place. The CRC of a batch is not checked here:
        see `topics.validation`. `marker`: the content of the batch, which then need not be read. Raises
        FencedLeaderEpoch, RecordListTooLarge, CorruptBatch or LogOffline.
        """
        if self._availability.failure is not None:
            self._availability.raise_if_offline()
        size = len(batch)
        if size < HEADER_SIZE:
            raise TruncatedBatch(f"{size} bytes are no batch")
        length, magic, delta, max_timestamp, producer_id = unpack_for_append(batch)
        if length + LENGTH_OVERHEAD != size:
            return self._append_each(leader_epoch, batch, wall_ms)
        if magic != MAGIC or delta < 0:
            raise CorruptBatch(f"a batch with magic {magic} and last offset delta {delta} cannot be appended")
        if leader_epoch != self.epochs.latest:
            self.begin_epoch(leader_epoch)
        segments = self.segments
        stamps = segments.stamps_append_time
        base_offset = segments.end_offset
        last_offset = base_offset + delta
        if stamps:
            max_timestamp = wall_ms
        if segments.must_roll(size, last_offset, max_timestamp, wall_ms):
            self.roll(wall_ms)
        segment = segments.active
        if size > _COPY_LIMIT:
            self._write_large(segment, batch, base_offset, length, leader_epoch, wall_ms)
        else:
            buffer = batch if type(batch) is bytearray else bytearray(batch)
            stamp(buffer, 0, base_offset, length, leader_epoch)
            if stamps:
                set_log_append_time(buffer, wall_ms)
            try:
                segment.file.pwrite(buffer, segment.size)
            except OSError as error:
                raise self._availability.fail(segment.file.path, error) from error
        segment.note(size, last_offset, max_timestamp)
        segments.end_offset = last_offset + 1
        if producer_id >= 0 and (producers := self._producers) is not None and producers.is_loaded:
            try:
                if marker is None:
                    producers.appended(batch, base_offset, last_offset, max_timestamp)
                else:
                    producers.marked(marker, base_offset, max_timestamp)
            except OSError as error:
                raise self._availability.fail(segment.file.path, error) from error
        self.durability.appended(delta + 1)
        return AppendResult(base_offset, last_offset, wall_ms if stamps else -1, segments.start_offset)

    def append_marker(self, leader_epoch: int, marker: EndMarker, *, wall_ms: int) -> AppendResult:
        """Append the control batch that ends a transaction. Raises what `check_marker` and `append` raise."""
        self.producers.check_marker(marker)
        batch = build_marker(
            marker.producer_id,
            marker.producer_epoch,
            wall_ms,
            is_committed=marker.is_committed,
            coordinator_epoch=marker.coordinator_epoch,
        )
        return self.append(leader_epoch, batch, wall_ms=wall_ms, marker=marker)

    def _append_each(self, leader_epoch: int, data: Buffer, wall_ms: int) -> AppendResult:
        view, found = memoryview(data), _whole_batches(data)
        results = [self.append(leader_epoch, view[at : at + header.size], wall_ms=wall_ms) for at, header in found]
        return results[-1]._replace(base_offset=results[0].base_offset)

    def append_as_is(self, data: Buffer, *, wall_ms: int = 0) -> AppendResult:
        """Append batches that have their offsets and epochs already, as those of a replica or of a Kafka log."""
        self._availability.raise_if_offline()
        view, found = memoryview(data), _whole_batches(data)
        segments = self.segments
        for at, header in found:
            if header.magic != MAGIC:
                raise CorruptBatch(f"a batch with magic {header.magic} cannot be appended")
            if header.base_offset < segments.end_offset:
                what = f"a batch at offset {header.base_offset} cannot follow offset {segments.end_offset - 1}"
                raise CorruptBatch(what)
            if segments.must_roll(header.size, header.last_offset, header.max_timestamp, wall_ms):
                self.roll(wall_ms)
            segment = segments.active
            with self._availability.failing(segment.file.path):
                segment.file.pwrite(view[at : at + header.size], segment.size)
            segment.note(header.size, header.last_offset, header.max_timestamp)
            self._assign_epoch(header.leader_epoch, header.base_offset)
            count = header.next_offset - segments.end_offset
            segments.end_offset = header.next_offset
            if header.producer_id >= 0 and self.knows_producers:
                data = view[at : at + header.size]
                with self._availability.failing(segment.file.path):
                    self.producers.appended(data, header.base_offset, header.last_offset, header.max_timestamp)
            self.durability.appended(count)
        return AppendResult(found[0][1].base_offset, found[-1][1].last_offset, -1, segments.start_offset)

    def _write_large(
        self, segment: Segment, batch: Buffer, base_offset: int, length: int, leader_epoch: int, wall_ms: int
    ) -> None:
        head = bytearray(batch[:HEADER_SIZE])
        rest = memoryview(batch)[HEADER_SIZE:]
        stamp(head, 0, base_offset, length, leader_epoch)
        if self.segments.stamps_append_time:
            set_log_append_time(head, wall_ms, rest)
        with self._availability.failing(segment.file.path):
            segment.file.pwrite_parts([head, rest], segment.size)

    def roll(self, wall_ms: int) -> None:
        """Begin a new segment at the present end, unless the active segment is empty."""
        old = self.segments.active
        if old.size == 0:
            return
        segment = self.segments.make(self.end_offset, wall_ms)
        with self._availability.failing(segment.file.path):
            segment.create()
            old.seal()
            if self._producers is not None:
                self._producers.rolled(old)
        self.segments.append(segment)
        self.durability.rolled(old)

    # -- leader epochs

    def begin_epoch(self, leader_epoch: int) -> None:
        """Begin `leader_epoch` at the present end. Raises FencedLeaderEpoch when the log has seen a later epoch."""
        if leader_epoch < self.epochs.latest:
            raise FencedLeaderEpoch(leader_epoch, self.epochs.latest)
        self._availability.raise_if_offline()
        self._assign_epoch(leader_epoch, self.end_offset)

    def _assign_epoch(self, epoch: int, start_offset: int) -> None:
        if epoch > self.epochs.latest and self.epochs.assign(epoch, start_offset):
            self._store_epochs()

    def _store_epochs(self) -> None:
        with self._availability.failing(f"{self.segments.storage.root}/{self.directory}/{LEADER_EPOCHS}"):
            store_epochs(self.segments.storage, self.directory, self.epochs)

    # -- reading

    def read(self, offset: int, max_bytes: int, *, min_one_message: bool = True, up_to: int | None = None) -> bytes:
        """Return bytes of the log, from the batch with `offset` on, straight from the file.

        The result has at most `max_bytes`: as in every fetch of Kafka's, the last batch may be cut off. With
        `min_one_message` the first batch is always whole. Otherwise a first batch that does not fit is not returned.
        `up_to`: only batches below this offset. Raises OffsetOutOfRange, SegmentAbsent, or LogOffline.
        """
        return reading.read(  # type: ignore[return-value]  # only a socket gets parts of files
            self.segments, offset, max_bytes, min_one_message, up_to, False
        )

    def read_for_socket(
        self, offset: int, max_bytes: int, min_one_message: bool, up_to: int | None
    ) -> bytes | FilePart:
        """Like `read`, but many bytes may be a part of a file, which only a socket reads, and at once."""
        return reading.read(self.segments, offset, max_bytes, min_one_message, up_to, True)

    def replay(self, offset: int | None = None, *, chunk_bytes: int = 1024 * 1024) -> Iterator[bytes]:
        """Yield all batches from `offset` (default: the start) on, in chunks. DamagedLog takes the log offline."""
        chunks = reading.replay(self.segments, self.start_offset if offset is None else offset, chunk_bytes)
        return self._offline_when_damaged(chunks)

    def _offline_when_damaged(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        try:
            yield from chunks
        except DamagedLog as found:
            self.go_offline(found.path, OSError(found.what))
            raise

    def damaged_at(self, offset: int, error: BatchError) -> DamagedLog:
        """Take the log offline, because the batch at `offset` of a replay cannot be read; return the error."""
        segment = self.segments.since(offset)[0]
        where = segment.locate(offset)
        found = damage(segment.place(0 if where is None else where[0]), error)
        self.go_offline(found.path, OSError(found.what))
        return found

    def headers(self, offset: int | None = None) -> Iterator[BatchHeader]:
        """Yield the headers of all batches from the batch with `offset` (default: the start) on."""
        return reading.batch_headers(self.segments, self.start_offset if offset is None else offset)

    def offset_for_timestamp(self, timestamp_ms: int) -> Job[TimestampOffset | None]:
        """A job that finds the first record with a timestamp of `timestamp_ms` or later; its result may be None."""
        return with_absent_segments(
            self.fetch_segment, lambda: reading.offset_for_timestamp(self.segments, timestamp_ms)
        )

    def offset_of_max_timestamp(self) -> Job[TimestampOffset | None]:
        """A job that finds the first record with the greatest timestamp (ListOffsets -3); None if the log is empty."""
        return with_absent_segments(self.fetch_segment, lambda: reading.offset_of_max_timestamp(self.segments))

    def fetch_segment(self, base_offset: int, then: Callable[[Exception | None], object]) -> Callable[[], object]:
        """Fetch the segment that SegmentAbsent has named, see `absence.FetchSegment`."""
        return self.durability.fetch_segment(base_offset, then)

    # -- removing

    def delete_records_before(self, offset: int) -> int:
        """Move the start of the log up to `offset` (DeleteRecords), remove earlier segments; return the new start."""
        if offset > self.durable_offset or offset < 0:
            raise OffsetOutOfRange(offset, self.start_offset, self.durable_offset)
        self._raise_start(offset)
        self._remove_segments(0, self.segments.count_below_start())
        return self.start_offset

    def enforce_retention(self, wall_ms: int, max_segments: int = MAX_INT64) -> int:
        """Remove segments by `retention.ms` and `retention.bytes`, at most `max_segments` by each; return how many."""
        if self.failure is not None:
            return 0
        segments = self.segments
        removed = 0
        for why, is_given_up in retention_rules(segments, wall_ms, topic=self.topic, partition=self.partition):
            count = count_given_up(segments, self.durable_offset, is_given_up, max_segments)
            if count == 0:
                continue
            if count == len(segments):
                self.roll(wall_ms)  # the log needs an active segment, which also keeps its end offset
            start_offset = segments[count].base_offset
            _logger.info("segments were removed", topic=self.topic, partition=self.partition, why=why, segments=count,
                         start_offset=start_offset)  # fmt: skip
            self._raise_start(start_offset)
            removed += self._remove_segments(0, count)
        removed += self._remove_segments(0, min(segments.count_below_start(), max_segments))
        if removed < max_segments:
            for segment in segments[:-1]:
                segment.release()
        return removed

    def _raise_start(self, offset: int) -> None:
        if offset > self.segments.start_offset:
            self.segments.start_offset = offset
            if self.epochs.truncate_from_start(offset):
                self._store_epochs()

    def _remove_segments(self, first: int, last: int) -> int:
        """Take `segments[first:last]` out of the log; remove their files in the background. Return how many."""
        names: list[str] = []
        removed = self.segments.take_out(first, last)
        if self._producers is not None:
            self._producers.removed(removed)
        self.durability.removed(removed)
        for segment in removed:
            with self._availability.failing(segment.file.path):
                names.append(segment.discard())

        def remove() -> None:
            for name in filter(None, names):
                self.segments.storage.remove(name)

        if names:
            self.durability.in_background(remove)
        return len(names)

    def truncate(self, offset: int) -> None:
        """Remove all batches with `offset` or later offsets (Kafka: truncateTo). The call waits for the disk."""
        segments = self.segments
        if offset >= segments.end_offset:
            return
        if offset < segments[0].base_offset:
            self.restart_at(offset)
            return
        keep = segments.index_for(offset)
        self._remove_segments(keep + 1, len(segments))
        with self._availability.failing(segments[keep].file.path):
            end_offset = segments.cut_last(offset)
        self._ends_at(end_offset)

    def restart_at(self, offset: int) -> None:
        """Remove all batches; the empty log begins at `offset` (Kafka: truncateFullyAndStartAt)."""
        segment = self.segments.make(offset, self.segments.active.created_ms)
        self._remove_segments(0, len(self.segments))
        with self._availability.failing(segment.file.path):
            segment.create()
        self.segments.append(segment)
        self._ends_at(0)
        self.segments.start_offset = self.segments.end_offset = self.durability.durable_offset = offset

    def _ends_at(self, end_offset: int) -> None:
        self.segments.end_offset = end_offset
        self.segments.start_offset = min(self.segments.start_offset, end_offset)
        self.durability.cut_to(end_offset)
        with self._availability.failing(self.directory):
            self.producers.cut()
        if self.epochs.truncate_from_end(end_offset):
            self._store_epochs()

    # -- closing

    def close(self) -> None:
        """Write the files for a start without recovery, and close the handles; nothing more is appended."""
        if self.failure is None:
            active = self.segments.active
            with contextlib.suppress(LogOffline):  # the failure is logged already, and the stop is not clean
                self.flush()
                with self._availability.failing(active.file.path):
                    active.seal()
                    if self._producers is not None:
                        self._producers.close()
        self.closed_cleanly = self.failure is None
        self.abandon()

    def abandon(self) -> None:
        """Close all handles without writing anything, as a killed process would. Waiting callbacks get an error."""
        for segment in self.segments:
            segment.file.close()
        if self._producers is not None:
            self._producers.abandon()
        self.durability.close(self._availability.close(self.directory))


def _whole_batches(data: Buffer) -> list[tuple[int, BatchHeader]]:
    """Return position and header of each batch. Raises CorruptBatch unless `data` is only whole batches."""
    found = list(iterate(data))
    if not found or found[-1][0] + found[-1][1].size != len(data):
        raise CorruptBatch(f"{len(data)} bytes are not a sequence of whole batches")
    return found
