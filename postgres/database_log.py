"""One log whose segments on this machine are a local replica. The log's records are durable when the database has them.

An append writes to the local replica at once and gets its offset there. The next database write takes from the replica
what the database does not have yet (`unsent_data`).

The replica of a log may lack older segments (`segment_cache`). For such a log, the node also writes the facts of each
full segment to the database. The node also writes a checkpoint: the state of the log where the active segment begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from muster.coordinator.log.checkpoints import LEADER_EPOCHS, encode_epochs
from muster.coordinator.log.durability import AppendListeners, Availability
from muster.coordinator.log.errors import LogError, LogOffline
from muster.coordinator.log.file_names import SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX, segment_name
from muster.coordinator.log.segments.log_segments import LogSegments
from muster.coordinator.log.segments.transaction_index import AbortedTransaction, encode
from muster.coordinator.log.settings import MAX_INT64
from muster.coordinator.log.storage.shared_sync import Waiter, Waiters
from muster.postgres.store import LIVE, Changes, Checkpoint, SegmentFacts, SegmentRow
from muster.postgres.unsent_data import UnsentData, Upload

if TYPE_CHECKING:
    from muster.coordinator.log.segments.segment import Segment
    from muster.postgres.segment_cache import SegmentCache

FACTS_AT_ONCE: Final = 4
"""The most segments whose facts one database write takes: the index of a large segment takes 10 ms to read."""


class LogWriter(Protocol):
    """What collects the changes of the logs for the database: `pending_writes.PendingWrites`."""

    def request_write(self, log: DatabaseLog) -> None:
        """Note that the log has something to write."""

    def next_number(self) -> int:
        """A number that no segment has."""

    def stage(self, upload: Upload) -> None:
        """Note a compacted segment, to be written when other records leave time for it."""

    def failed(self, what: str, /) -> object:
        """Note that the local replica can no longer be relied on."""

    def in_background(self, job: Callable[[], object], done: Callable[[], object]) -> None:
        """Do a job that works on files and that no caller waits for, then call `done`."""


class DatabaseLog:
    """The `log.durability.Durability` of one log."""

    waits_for_sync = True
    is_copied = True

    def __init__(
        self,
        writer: LogWriter,
        log_no: int,
        segments: LogSegments,
        availability: Availability,
        known: Mapping[int, SegmentRow],
        *,
        is_new: bool,
        clean_offset: int,
        cache: SegmentCache | None,
    ) -> None:
        """`known`: the segments of the database, by base offset. `is_new`: the database has nothing of the log yet.
        `clean_offset`: earlier leaders have compacted the log up to this offset. `cache`: fetches absent segments;
        None: the log has no absent segments.
        """
        self.log_no = log_no
        self._writer = writer
        self._segments = segments
        self._availability = availability
        availability.when_offline = self._went_offline
        self.durable_offset = segments.start_offset if is_new else segments.end_offset
        self.found_end = self.durable_offset
        self._waiters = Waiters()
        self.listeners = AppendListeners()
        self._numbers: dict[Segment, list[int]] = {}
        """The segments of the database that one segment of the replica replaces. A compacted segment may replace
        several segments, until the database has it.
        """
        self._new: list[SegmentRow] = []
        self._dead: list[int] = []
        self._uploads: dict[Segment, Upload] = {}
        self._unsent = UnsentData(lambda segment: self._numbers[segment][0])
        self._start_offset = segments.start_offset
        self._is_closed = False
        self.clean_offset = self._clean_offset_written = clean_offset
        self._cache = cache
        self._with_facts: set[Segment] = set()
        """Segments whose facts the database has."""
        self._facts_under_way: list[Segment] = []
        """Segments whose facts are part of the present database write."""
        self._may_need_checkpoint = len(segments) > 1
        """Whether a checkpoint may have to be written. Nearly always False: then no file is searched."""
        self._checkpoint = -1
        """The offset of the checkpoint that the database has from this leader, or gets in this write."""
        if cache is not None:
            segments.limit_bytes(cache.roll_bytes)
        for segment in segments:
            row = known.get(segment.base_offset)
            if row is None:
                self._add(segment)
                continue
            self._numbers[segment] = [row.segment_no]
            if row.size >= 0 and segment is not segments.active:
                self._with_facts.add(segment)
                if cache is not None and not segment.is_absent:
                    cache.kept(self, segment)
        if is_new:
            self._unsent.begin(segments)
        else:
            self._unsent.begin([segments.active], segments.active.size)
        if self._new or is_new:
            writer.request_write(self)

    @property
    def recovery_point(self) -> int:
        return self.durable_offset

    def _add(self, segment: Segment) -> None:
        number = self._writer.next_number()
        self._numbers[segment] = [number]
        self._new.append(SegmentRow(number, self.log_no, segment.base_offset, LIVE))

    # -- waiting for durability

    def when_durable(self, position: int, callback: Waiter) -> None:
        """Call `callback(None)` when the database has all records before `position`, `callback(error)` on a failure."""
        if position <= self.durable_offset:
            callback(None)
        elif self._availability.failure is not None:
            callback(self._availability.failure)
        else:
            self._waiters.add(position, callback)
            self._writer.request_write(self)

    when_flushed = when_durable
    when_synced = when_durable

    # -- changes of the local replica

    def appended(self, count: int) -> None:  # noqa: ARG002  # the number of records decides nothing here
        self._writer.request_write(self)
        for callback in self.listeners.callbacks:
            callback()

    def rolled(self, old: Segment) -> None:  # noqa: ARG002  # `_unsent` still has the old segment, if necessary
        self._may_need_checkpoint = True
        self._add(self._segments.active)
        self._unsent.rolled(self._segments.active)
        self._writer.request_write(self)

    def removed(self, doomed: Sequence[Segment]) -> None:
        """Note that these durable segments have left the log. If `doomed` is empty, only the log's start has moved."""
        for segment in doomed:
            self._forget(segment)
            self._dead += self._numbers.pop(segment, [])
            self._unsent.forget(segment)
        self._writer.request_write(self)

    def _forget(self, segment: Segment) -> None:
        self._uploads.pop(segment, None)
        self._with_facts.discard(segment)
        if self._cache is not None:
            self._cache.forget(segment)

    def replaced(self, old: Sequence[Segment], new: Segment, aborted: Sequence[AbortedTransaction]) -> None:
        """Note that a compacted segment has replaced others in the local replica. In the database the segment does so
        after the last part is written.
        """
        numbers: list[int] = []
        for segment in old:
            self._forget(segment)
            numbers += self._numbers.pop(segment, [])
            self._unsent.forget(segment)
        upload = Upload(self, new, self._writer.next_number(), b"".join(map(encode, aborted)))
        self._uploads[new] = upload
        self._numbers[new] = [*numbers, upload.number]
        self._writer.stage(upload)

    def is_upload(self, upload: Upload) -> bool:
        return not self._is_closed and self._uploads.get(upload.segment) is upload

    def uploaded(self, upload: Upload, changes: Changes) -> None:
        """Note that this database write has the last part of the upload. Only the new segment counts from now on."""
        del self._uploads[upload.segment]
        numbers = self._numbers[upload.segment]
        self._numbers[upload.segment] = [upload.number]
        changes.live.append(upload.number)
        changes.dead += [number for number in numbers if number != upload.number]
        self._add_facts(changes, upload.segment, upload.aborted)

    def compacted_to(self, offset: int) -> None:
        if not self._is_closed:
            self.clean_offset = offset
            self._writer.request_write(self)

    def cut_to(self, end_offset: int) -> None:
        """The database may have these records, so they cannot be cut off. The local replica cannot be used any more."""
        self._writer.failed(f"the local replica of {self._segments.directory} was cut off at offset {end_offset}")

    def in_background(self, job: Callable[[], object], done: Callable[[], object] = lambda: None) -> None:

        def is_done() -> None:
            done()
            if self._cache is not None and not self._is_closed:
                self._may_need_checkpoint = True  # the job may have been a snapshot of producers, for a checkpoint
                self._writer.request_write(self)

        self._writer.in_background(job, is_done)

    def sync_if_older(self, mono_ms: int) -> None:
        """Does nothing, because the files of a local replica need no sync."""

    # -- writing to the database

    def add_changes(self, changes: Changes, max_bytes: int) -> tuple[int, int]:
        """Add data that the database does not have yet to a database write, about `max_bytes`. Returns an offset and a
        number of bytes. All batches before the offset are added then (-1: the log had no batch). The number is the rest
        of `max_bytes` (0: the log may have more to write). Raises OSError.
        """
        changes.new_segments += self._new
        changes.dead += self._dead
        self._new, self._dead = [], []
        if self._segments.start_offset != self._start_offset:
            self._start_offset = changes.starts[self.log_no] = self._segments.start_offset
        next_offset = -1
        while max_bytes > 0:
            row = self._unsent.next_row(is_closed=self._is_closed)
            if row is None:
                break
            changes.batches.append(row)
            next_offset = row.next_offset
            max_bytes -= len(row.data)
        if self.clean_offset != self._clean_offset_written and not (self._uploads or self._is_closed):
            # the database has the offset up to which the log is compacted
            self._clean_offset_written = changes.clean[self.log_no] = self.clean_offset
        if self._cache is not None and not self._is_closed:
            self._add_due_facts(changes)
        return next_offset, max_bytes

    # -- facts of full segments

    def _add_due_facts(self, changes: Changes) -> None:
        """Add the facts of some segments that the database has no facts of. Add a checkpoint if the database has the
        facts of all segments then. Raises OSError.
        """
        segments = self._segments
        active = segments.active
        if not self._may_need_checkpoint or self._uploads or not self._unsent.is_only_in(active):
            return
        if active.base_offset <= self._checkpoint:
            self._may_need_checkpoint = False
            return
        path = f"{segments.directory}/{segment_name(active.base_offset)}{SNAPSHOT_SUFFIX}"
        producers = segments.storage.load(path)
        if producers is None:
            # the snapshot is being written, or the producers were not known when the segment began
            self._may_need_checkpoint = False
            return
        done = self._with_facts.union(self._facts_under_way)
        due = [segment for segment in segments[:-1] if segment not in done]
        for segment in due[:FACTS_AT_ONCE]:
            index = f"{segment.name}{TRANSACTION_INDEX_SUFFIX}"
            if not self._add_facts(changes, segment, segments.storage.load(index) or b""):
                # the snapshot is damaged: the next leader reads the whole log, and finds the damaged place
                self._checkpoint = MAX_INT64
                return
            segment.release()
        if len(due) <= FACTS_AT_ONCE:
            epochs = segments.storage.load(f"{segments.directory}/{LEADER_EPOCHS}") or encode_epochs(())
            changes.checkpoints.append(Checkpoint(self.log_no, active.base_offset, epochs, producers))
            self._checkpoint = active.base_offset

    def _add_facts(self, changes: Changes, segment: Segment, aborted: bytes) -> bool:
        """Add the facts of a segment to a database write. False: the facts cannot be known. Raises OSError."""
        if self._cache is None:
            return True
        try:
            figures = segment.figures()
        except LogError:
            return False
        changes.facts.append(SegmentFacts(self._numbers[segment][0], *figures[1:], aborted))
        self._facts_under_way.append(segment)
        return True

    def write_counted(self) -> None:
        """Note that the database has the write with batches or facts of this log."""
        written, self._facts_under_way = self._facts_under_way, []
        if self.clean_offset != self._clean_offset_written and not self._is_closed:
            self._writer.request_write(self)
        if self._is_closed or self._cache is None:
            return
        for segment in written:
            if segment in self._numbers:
                self._with_facts.add(segment)
                self._cache.kept(self, segment)
        if written:
            self._writer.request_write(self)  # more facts may have to be written

    def fetch_segment(self, base_offset: int, then: Callable[[Exception | None], object]) -> Callable[[], object]:
        segments = self._segments
        segment = segments[segments.index_for(base_offset)]
        if self._is_closed:
            then(LogOffline(segments.directory, "it is closed"))
        elif segment.is_absent and self._cache is not None:
            return self._cache.fetch(self, segment, self._numbers[segment][0], then)
        else:
            then(None)  # the reader looks again, and finds another segment in the place of this one
        return lambda: None

    @property
    def is_open(self) -> bool:
        return not self._is_closed

    def lacks(self, segment: Segment) -> bool:
        return not self._is_closed and segment.is_absent and segment in self._numbers

    def may_leave(self, segment: Segment) -> bool:
        return not (segment.is_held or self.stays or segment is self._segments.active)

    @property
    def stays(self) -> bool:
        """See `CachedLog`. The log cleaner reads a compacted log again and again."""
        return self._segments.config.compacts

    def failed(self, what: str) -> None:
        self._writer.failed(what)

    @property
    def waiting_bytes(self) -> int:
        """The bytes that no database write has taken yet."""
        return self._unsent.waiting_bytes(is_closed=self._is_closed)

    def confirm(self, next_offset: int) -> None:
        if next_offset > self.durable_offset:
            self.durable_offset = next_offset
            self._waiters.release(next_offset)
            for callback in self.listeners.callbacks:
                callback()

    # -- closing

    def _went_offline(self, failure: LogOffline) -> None:
        self._waiters.fail(failure)
        self._writer.failed(str(failure))

    def flush(self) -> None:
        """The files are about to be closed: keep the data that was not taken yet."""
        if self._unsent.hold():
            self._writer.request_write(self)

    def close(self, failure: LogOffline) -> None:
        self._is_closed = True
        if self._cache is not None:
            for segment in self._numbers:
                self._cache.forget(segment)
        self._waiters.fail(failure)
        self.listeners.clear()

    def numbers(self) -> list[int]:
        """The numbers of all segments of the log in the database: its topic is deleted."""
        return [number for numbers in self._numbers.values() for number in numbers]
