"""Opens a partition's log (Kafka: LogLoader): finds its segments and its end, and recovers it after an unclean stop.

After a clean stop only the newest segment is checked, behind its last index entry. Otherwise everything from the
recovery point on is read, with every CRC. The bytes that a clean stop left, and all below the recovery point, were
whole: damage there is never cut. A tail behind the recovery point may be an append that a kill cut short.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import structlog

from muster.coordinator.log import checkpoints
from muster.coordinator.log.checkpoints import LastStop
from muster.coordinator.log.durability import Engine
from muster.coordinator.log.errors import CorruptBatch, DamagedLog, UnreadableLog
from muster.coordinator.log.file_names import (
    ASIDE_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SUFFIXES,
    base_offset_of,
    segment_name,
)
from muster.coordinator.log.records.headers import HEADER_SIZE, BatchHeader
from muster.coordinator.log.recovery import leftovers
from muster.coordinator.log.recovery.segment_check import (
    Checked,
    check_batch,
    check_segment,
    only_zeros,
    whole_batch_at,
    whole_batch_follows,
)
from muster.coordinator.log.segments import reading
from muster.coordinator.log.segments.absence import SegmentFigures
from muster.coordinator.log.segments.leader_epochs import LeaderEpochs, load_epochs, store_epochs
from muster.coordinator.log.segments.log_segments import LogSegments
from muster.coordinator.log.segments.segment import Segment
from muster.coordinator.log.settings import LogConfig
from muster.coordinator.log.storage.interfaces import Storage
from muster.coordinator.log.storage.shared_sync import SharedSync
from muster.coordinator.log.unified_log import UnifiedLog

LONG_BYTES: Final = 256 * 1024 * 1024
"""A recovery of more bytes logs its progress, each time after this many bytes."""
_CHUNK: Final = 1024 * 1024
_logger = structlog.get_logger("muster.log")


@dataclass(eq=False)
class LogLoader:
    """Opens the log in one directory, which must exist."""

    storage: Storage
    directory: str
    topic: str
    partition: int
    config: LogConfig
    last_stop: LastStop
    wall_ms: int = 0
    sync: SharedSync | None = None
    wait_for_sync: bool = False
    engine: Engine | None = None
    absent: Sequence[SegmentFigures] = ()
    """Segments of the log that are not on this machine; the newest segment is never absent."""
    _segments: list[Segment] = field(default_factory=list, init=False)

    @property
    def _facts(self) -> dict[str, Any]:
        return {"topic": self.topic, "partition": self.partition}

    def load(self) -> UnifiedLog:
        """Return the log. Raises DamagedLog when a batch is damaged that was whole before, or OSError."""
        self._find_segments()
        found = list(self._segments)
        try:
            return self._load()
        except BaseException:
            for segment in found:
                segment.file.close()
            raise

    def _load(self) -> UnifiedLog:
        last_stop = self.last_stop
        epochs = load_epochs(self.storage, self.directory)
        noted = epochs.entries()
        end_offset = self._end_of_clean_log() if last_stop.was_clean else self._recover(epochs)
        start_offset, doubtful_start = self._start(end_offset)
        self._report_lost_end(max(start_offset, end_offset))
        if start_offset > end_offset:
            # the segments before the start were deleted on purpose, and the tail was lost: no offset may be used twice
            self._set_segments_aside(start_offset)
            end_offset = start_offset
        epochs.truncate_from_end(end_offset + 1)
        epochs.truncate_from_start(start_offset)
        if epochs.entries() != noted:
            store_epochs(self.storage, self.directory, epochs)
        segments = LogSegments(
            self.storage,
            self.directory,
            self._segments,
            self.config,
            start_offset=start_offset,
            end_offset=end_offset,
            doubtful_start=doubtful_start,
        )
        return UnifiedLog(
            self.topic,
            self.partition,
            segments,
            epochs,
            recovery_point=end_offset if last_stop.was_clean else min(last_stop.recovery_point, end_offset),
            sync=self.sync,
            wait_for_sync=self.wait_for_sync,
            engine=self.engine,
        )

    # -- segments, start and end

    def _segment(self, base_offset: int, created_ms: int) -> Segment:
        name = f"{self.directory}/{segment_name(base_offset)}"
        return Segment(self.storage, name, base_offset, self.config, created_ms)

    def _find_segments(self) -> None:
        """Find the segments in order, or create a first segment. Repairs what an interrupted change left."""
        leftovers.clear(self.storage, self.directory, [figures.base_offset for figures in self.absent])
        for figures in self.absent:
            segment = self._segment(figures.base_offset, self.wall_ms)
            segment.make_absent(figures)
            self._segments.append(segment)
        for entry in self.storage.entries(self.directory):
            base_offset = base_offset_of(entry.name)
            if base_offset is not None and entry.name.endswith(LOG_SUFFIX):
                segment = self._segment(base_offset, entry.modified_ms or self.wall_ms)
                if entry.size:
                    segment.adopt(entry.size)
                self._segments.append(segment)
            elif base_offset is not None and self._is_doubtful(base_offset, entry.name):
                self.storage.remove(f"{self.directory}/{entry.name}")
        self._segments.sort(key=lambda segment: segment.base_offset)
        if not self._segments:
            segment = self._segment(self.last_stop.start_offset, self.wall_ms)
            segment.create()
            self._segments.append(segment)

    def _is_doubtful(self, offset: int, name: str) -> bool:
        """Whether a file is a snapshot of producers at an offset that must be recovered first."""
        last_stop = self.last_stop
        return not last_stop.was_clean and name.endswith(SNAPSHOT_SUFFIX) and offset > last_stop.recovery_point

    def _start(self, end_offset: int) -> tuple[int, int]:
        """Return the start of the log, and the doubtful start of `LogSegments`, which is the same offset or -1."""
        segments, noted = self._segments, self.last_stop.start_offset
        if len(segments) > 1 and segments[1].base_offset <= noted <= end_offset:
            # a deletion of records removes its segments before it writes the checkpoint
            _logger.warning(
                "the start of a log is in doubt",
                **self._facts,
                noted=noted,
                what=f"{checkpoints.START_OFFSETS} says that the log begins at offset {noted}, but earlier segments "
                "exist: they are kept, and not read",
                what_to_do="if no records were deleted, stop, take the line of the partition out of that file, start "
                "again",
            )
            return noted, noted
        return max(noted, segments[0].base_offset), -1

    def _set_segments_aside(self, start_offset: int) -> None:
        newest = self._segments[-1]
        for segment in self._segments:
            segment.file.close()
            for suffix in SUFFIXES[1:]:
                self.storage.remove(segment.name + suffix)
            self.storage.rename(segment.name + LOG_SUFFIX, segment.name + LOG_SUFFIX + ASIDE_SUFFIX)
        _logger.warning(
            "segments were set aside",
            **self._facts,
            start_offset=start_offset,
            what=f"the log ends before its start in {checkpoints.START_OFFSETS}: the log continues at "
            f"{start_offset}, and the older segments are kept as *{LOG_SUFFIX}{ASIDE_SUFFIX}",
            what_to_do="remove them when you no longer need them; if no records were deleted, stop, take that ending "
            "off their names, remove the new segment and the line of the partition in that file, and start again",
        )
        self._segments = [self._segment(start_offset, newest.created_ms)]
        self._segments[0].create()

    def _end_of_clean_log(self) -> int:
        """Return the offset after the last batch of a cleanly closed log. Raises DamagedLog."""
        newest = self._segments[-1]
        last = next((segment for segment in reversed(self._segments) if segment.size), newest)
        if last.size == 0 or last.is_absent:
            return newest.base_offset
        broken = ""
        try:
            index = last.index()
        except CorruptBatch as error:
            start, broken = 0, str(error)  # the index had to be rebuilt; the position is found below
        else:
            start = index.positions[-1] if len(index) else 0
        ((position, header),) = deque(reading.segment_batches(last, start, last.size), maxlen=1)
        data = last.file.pread(header.size, position)
        _, reason = check_batch(data, 0, len(data), last.base_offset, last.base_offset)
        if reason or broken:
            raise DamagedLog(last.place(position if reason else 0), reason or broken)
        if last is newest:
            return last.restore_marks()
        last.release()
        return newest.base_offset

    def _report_lost_end(self, end_offset: int) -> None:
        """Report the loss of synced records to the operator. Kafka serves the remaining records silently."""
        recovery_point = self.last_stop.recovery_point
        if end_offset < recovery_point:
            _logger.error(
                "records that were synced are gone",
                **self._facts,
                end_offset=end_offset,
                recovery_point=recovery_point,
                what=f"{recovery_point - end_offset} records that were synced are gone: the log ends before them",
            )

    # -- recovery

    def _recover(self, epochs: LeaderEpochs) -> int:
        """Check the log behind the recovery point, note the epochs, cut a torn tail; return the log's end offset."""

        def note(header: BatchHeader) -> None:
            if header.leader_epoch > epochs.latest:
                epochs.assign(header.leader_epoch, header.base_offset)

        segments, recovery_point, has_room = self._segments, self.last_stop.recovery_point, self.wait_for_sync
        next_offset = segments[0].base_offset
        doubtful = segments[-1].size
        doubtful += sum(one.size for one, follower in pairwise(segments) if follower.base_offset > recovery_point)
        reported = done = 0
        for index, segment in enumerate(segments):
            is_last = index + 1 == len(segments)
            # reserved room of this segment is surely given back once a record of the next segment is synced
            if not is_last and segments[index + 1].base_offset + has_room <= recovery_point:
                continue
            size = segment.size
            if doubtful >= LONG_BYTES and (reported == 0 or done - reported >= LONG_BYTES):
                _logger.info("a log is being checked", **self._facts, bytes_checked=done, bytes=doubtful)
                reported = max(done, 1)
            done += size
            next_offset = max(next_offset, segment.base_offset)
            if size == 0:
                continue
            checked = check_segment(segment, size, next_offset, note, has_room=has_room)
            next_offset = checked.next_offset
            if checked.left:
                self._cut_tail(index, size, checked)
            if not is_last:
                segment.store_indexes()
                segment.release()
        return max(next_offset, segments[-1].base_offset)

    def _cut_tail(self, index: int, size: int, checked: Checked) -> None:
        """Cut off the bytes after the last whole batch. Raises DamagedLog when bytes may be acknowledged records."""
        segment, reason = self._segments[index], checked.reason
        position = size - checked.left
        later = [one for one in self._segments[index + 1 :] if not only_zeros(one.file, 0, min(one.size, HEADER_SIZE))]
        self._demand_no_damage(segment, size, checked, has_followers=bool(later))
        is_damaged = bool(reason) and not checked.is_torn
        kept = ""
        if reason and not only_zeros(segment.file, position, size):
            try:
                kept = self._keep_tail(segment, position, size)
            except OSError as error:
                # most torn tails are from a full disk, which must not keep the log from being opened
                if is_damaged:
                    cause = error.strerror or str(error)
                    what = f"{reason}, and it cannot be set aside: {cause}"
                    raise DamagedLog(segment.place(position), what) from None
        segment.file.truncate(position)
        facts = {**self._facts, "path": segment.file.path, "position": position, "reason": reason or "zeros"}
        if is_damaged:
            _logger.error(
                "a damaged tail was set aside",
                **facts,
                bytes=checked.left,
                end_offset=checked.next_offset,
                kept=kept,
                what="a crash during an append does not leave such bytes: they are kept, and the log continues "
                "before them",
                what_to_do="restore the file from a backup if it held records; remove what is kept when you no longer "
                "need it",
            )
        elif later:
            # A power cut: later segments reached the disk before this end did. So no record of this end or later was
            # acknowledged as synced. The whole batches stay.
            _logger.error("a torn segment was cut off", **facts, lost_from_offset=checked.next_offset,
                          lost_before_offset=later[0].base_offset)  # fmt: skip
        elif reason:
            _logger.warning("a torn tail was cut off", **facts, bytes=checked.left, end_offset=checked.next_offset)

    def _demand_no_damage(self, segment: Segment, size: int, checked: Checked, *, has_followers: bool) -> None:
        """Raises DamagedLog or UnreadableLog when the bytes after the last whole batch must not be cut off."""
        position, reason = size - checked.left, checked.reason
        recovery_point = self.last_stop.recovery_point
        if checked.is_unknown:
            raise UnreadableLog(segment.place(position), reason)
        if has_followers and not checked.is_short:
            raise DamagedLog(segment.place(position), f"{reason or 'zeros'}, and segments follow")
        if reason and whole_batch_at(segment.file, position, size) is not None:
            # the batch before this position may be the damaged batch
            before = segment.locate(checked.next_offset - 1) if position else None
            place = segment.place(position if before is None else before[0])
            raise DamagedLog(place, f"{reason}, and the batch is whole")
        follower = whole_batch_follows(segment.file, position, size, segment.base_offset) if reason else None
        if follower is not None:
            raise DamagedLog(segment.place(position), f"{reason}, and a whole batch follows at byte {follower}")
        if checked.next_offset < recovery_point:
            reason = f"{reason or 'zeros'}, and all up to offset {recovery_point - 1} was synced"
            raise DamagedLog(segment.place(position), reason)

    def _keep_tail(self, segment: Segment, position: int, size: int) -> str:
        kept = self.storage.file(self._free_name(f"{segment_name(segment.base_offset)}{LOG_SUFFIX}.{position}"))
        with contextlib.closing(kept):
            for at in range(position, size, _CHUNK):
                kept.pwrite(segment.file.pread(min(_CHUNK, size - at), at), at - position)
            kept.sync()
        self.storage.sync_directory(self.directory)
        return kept.path

    def _free_name(self, name: str) -> str:
        names = {entry.name for entry in self.storage.entries(self.directory)}
        number, free = 1, name + ASIDE_SUFFIX
        while free in names:
            number += 1
            free = f"{name}.{number}{ASIDE_SUFFIX}"
        return f"{self.directory}/{free}"
