"""What the logs of this node have to write to the database, and the content of the next database write.

The logs report changes to this module. `collect` takes what is pending, up to a size. When the write counts, its logs
are informed. A log that another node leads meanwhile is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from muster.coordinator.log import folders
from muster.coordinator.log.checkpoints import partition_of
from muster.coordinator.log.disk_durability import DiskDurability
from muster.coordinator.log.durability import Availability, Durability
from muster.coordinator.log.file_names import read_other_name
from muster.coordinator.log.segments.log_segments import LogSegments
from muster.coordinator.log.storage.interfaces import Storage
from muster.coordinator.topics.names import METADATA_TOPIC
from muster.postgres import local_replica
from muster.postgres.database_log import DatabaseLog
from muster.postgres.segment_cache import SegmentCache
from muster.postgres.store import LIVE, NUMBERS_OF_A_SESSION, Changes, LogRow, NodeRegistration, SegmentRow
from muster.postgres.unsent_data import Upload, WrittenLog

WRITE_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of one database write; one larger batch may be alone in a write."""


@dataclass(eq=False, slots=True)
class DatabaseWrite:
    """The content of one database write: its changes, and the logs that they belong to."""

    changes: Changes = field(default_factory=Changes)
    parts: list[tuple[WrittenLog, int, set[int]]] = field(default_factory=list)
    """For each log: its end offset in this write (-1: no batch of it), and the segments that change."""

    def add(self, log: WrittenLog, add_changes: Callable[[], int]) -> None:
        """Let `add_changes` add the changes of a log; it returns the offset."""
        changes = self.changes
        batches, live, dead, facts = len(changes.batches), len(changes.live), len(changes.dead), len(changes.facts)
        next_offset = add_changes()
        segments = {row.segment_no for row in changes.batches[batches:]}
        segments.update(row.segment_no for row in changes.facts[facts:])
        self.parts.append((log, next_offset, segments.union(changes.live[live:], changes.dead[dead:])))

    def leave_out(self, log: WrittenLog) -> None:
        """Remove the changes of this log: another node leads it now."""
        for one, _, segments in self.parts:
            if one is log:
                self.changes.leave_out(log.log_no, segments)
        self.parts = [one for one in self.parts if one[0] is not log]

    def confirm(self) -> None:
        """Inform the logs that the database has this write."""
        for log, next_offset, _ in self.parts:
            if next_offset >= 0:
                log.confirm(next_offset)
            log.write_counted()


class PendingWrites:
    """The `log.durability.Engine` of a registered node: see the module."""

    def __init__(
        self,
        storage: Storage,
        registration: NodeRegistration,
        run_job: Callable[[Callable[[], object], Callable[[object], object]], object],
        cache: SegmentCache | None,
        *,
        changed: Callable[[], object],
        failed: Callable[[str], object],
    ) -> None:
        """`changed` is called when something has to be written, `failed` when the node must give up. The other
        arguments are those of `database_writer.DatabaseWriter`.
        """
        self._storage = storage
        self._run_job = run_job
        self._cache = cache
        self._changed = changed
        self.failed = failed
        self._logs: dict[tuple[bytes, int], LogRow] = {}
        self._known: dict[int, dict[int, SegmentRow]] = {}
        self._numbers = registration.epoch * NUMBERS_OF_A_SESSION
        self._last_number = self._numbers + NUMBERS_OF_A_SESSION
        self._new_logs: list[LogRow] = []
        self._dropped: list[int] = []
        self._dead: list[int] = []
        self._under_way: DatabaseWrite | None = None
        self._opened: dict[int, DatabaseLog] = {}
        self._wanted: dict[DatabaseLog, None] = {}
        """Logs that have something to write, in the order of their requests."""
        self._uploads: deque[Upload] = deque()

    # -- which logs are led here

    def lead(self, row: LogRow, segments: Sequence[SegmentRow]) -> None:
        """Note a log that was loaded from these segments of the database, and is about to be opened."""
        self._logs[row.topic_id, row.partition] = row
        self._known[row.log_no] = {one.base_offset: one for one in segments if one.state == LIVE}
        # A staged segment belongs to a leader that did not finish it.
        others = [one.segment_no for one in segments if one.state != LIVE]
        if others:
            self._dead += others
            self._changed()

    def leave(self, topic_id: bytes, partition: int) -> None:
        """Forget a log that another node leads: nothing more of it is written. The log was closed before."""
        row = self._logs.pop((topic_id, partition), None)
        if row is None:
            return
        self._known.pop(row.log_no, None)
        self._new_logs = [one for one in self._new_logs if one.log_no != row.log_no]
        log = self._opened.pop(row.log_no, None)
        if log is None:
            return
        self._wanted.pop(log, None)
        if self._under_way is not None:
            self._under_way.leave_out(log)

    def drop(self, row: LogRow, segments: Sequence[SegmentRow]) -> None:
        """Remove the log of a topic that was deleted while no node led the partition."""
        self._dropped.append(row.log_no)
        self._dead += [one.segment_no for one in segments]
        self._changed()

    # -- calls of the logs

    def durability(self, segments: LogSegments, availability: Availability) -> Durability:
        """See `Engine`. The metadata log is read from the database, and never written by this engine."""
        place = partition_of(segments.directory)
        if place == (METADATA_TOPIC, 0):
            return DiskDurability(segments, availability, segments.end_offset, None, wait_for_sync=False)
        topic_id = folders.read_topic_id(self._storage, segments.directory)
        assert place is not None  # the log manager has made the folder
        assert topic_id is not None  # the log manager has written the topic id into the folder
        row, is_new = self._logs.get((topic_id, place[1])), False
        if row is None:
            is_new = True
            row = LogRow(self.next_number(), *place, topic_id, segments.start_offset)
            self._logs[topic_id, place[1]] = row
            self._new_logs.append(row)
        known = self._known.pop(row.log_no, {})
        cache = self._cache if local_replica.is_read_in_parts(place[0]) else None
        log = DatabaseLog(
            self, row.log_no, segments, availability, known, is_new=is_new, clean_offset=row.clean_offset, cache=cache
        )
        if row.log_no in self._opened:
            # the new object does not know what the old object has sent
            self.failed(f"the local replica of {segments.directory} has failed")
        self._opened[row.log_no] = log
        return log

    def dropped(self, folder: str) -> None:
        other, topic_id = read_other_name(folder), None
        if other is not None and self._storage.is_directory(folder):
            topic_id = folders.read_topic_id(self._storage, folder) or other.uuid
        row = None if other is None or topic_id is None else self._logs.pop((topic_id, other.partition[1]), None)
        if row is None:
            return
        log = self._opened.pop(row.log_no, None)
        if log is None:
            self._dead += [one.segment_no for one in self._known.pop(row.log_no, {}).values()]
        else:
            self._wanted.pop(log, None)
            self._dead += log.numbers()
        self._dropped.append(row.log_no)
        self._changed()

    def request_write(self, log: DatabaseLog) -> None:
        self._wanted[log] = None
        self._changed()

    def next_number(self) -> int:
        """A number that no segment and no log has."""
        self._numbers += 1
        if self._numbers >= self._last_number:
            self.failed("it has no numbers left")
        return self._numbers

    def stage(self, upload: Upload) -> None:
        self._uploads.append(upload)
        self._changed()

    def in_background(self, job: Callable[[], object], done: Callable[[], object]) -> None:
        self._run_job(job, lambda _: done())

    # -- the next database write

    @property
    def is_empty(self) -> bool:
        """Whether no log has anything to write, apart from segments that only save space."""
        return not (self._wanted or self._new_logs or self._dropped)

    @property
    def has_work(self) -> bool:
        """Whether there is anything to write."""
        return bool(not self.is_empty or self._dead or self._uploads)

    @property
    def waiting_bytes(self) -> int:
        """The bytes that no database write has taken yet."""
        return sum(log.waiting_bytes for log in self._wanted)

    def collect(self) -> DatabaseWrite:
        """The content of the next database write. Raises OSError."""
        write = DatabaseWrite()
        changes = write.changes
        changes.new_logs, self._new_logs = self._new_logs, []
        changes.dropped, self._dropped = self._dropped, []
        changes.dead, self._dead = self._dead, []
        left = WRITE_BYTES

        def add_changes() -> int:
            nonlocal left
            next_offset, left = log.add_changes(changes, left)
            return next_offset

        while self._wanted and left > 0:
            log = next(iter(self._wanted))
            write.add(log, add_changes)
            del self._wanted[log]
            if left <= 0:
                self._wanted[log] = None  # behind the other logs: this log may have more to write
        if self._uploads and left > WRITE_BYTES // 2:
            self._add_upload(write)
        self._under_way = write
        return write

    def _add_upload(self, write: DatabaseWrite) -> None:
        upload = self._uploads[0]

        def add_part() -> int:
            if not upload.add_part(write.changes):
                self._uploads.popleft()
            return -1

        write.add(upload.log, add_part)

    def write_ended(self) -> None:
        """Note that the database write that `collect` returned is not under way any more."""
        self._under_way = None
