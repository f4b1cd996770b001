"""How far a log on the disk is durable, which callbacks wait for durability, and how the log is synced."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from muster.coordinator.log.durability import AppendListeners, Availability
from muster.coordinator.log.errors import LogOffline
from muster.coordinator.log.segments.log_segments import LogSegments
from muster.coordinator.log.segments.segment import Segment
from muster.coordinator.log.segments.transaction_index import AbortedTransaction
from muster.coordinator.log.settings import MAX_INT64
from muster.coordinator.log.storage.interfaces import File
from muster.coordinator.log.storage.shared_sync import SharedSync, Sync, Waiter, Waiters

RESERVED_BYTES: Final = 64 * 1024
"""A log that waits for its syncs reserves this many bytes: syncs of a growing file take longer."""

CHECK_NAME_EACH_SYNCS: Final = 8
"""After this many syncs the server checks whether the file still has a name. A check takes 15 % of a commit's time."""
REMOVED: Final = "somebody removed it while the server runs"


class DiskDurability:
    """The durability of one log on the disk."""

    is_copied = False
    clean_offset = 0
    """Not used on a disk: a file of the data directory has the clean offsets of all logs (`cleaning.cleaner`)."""

    def __init__(
        self,
        segments: LogSegments,
        availability: Availability,
        recovery_point: int,
        sync: SharedSync | None,
        wait_for_sync: bool,
    ) -> None:
        """`sync`: threads for syncs. `wait_for_sync`: durable means synced, not only written (needs `sync`)."""
        self._segments = segments
        self._availability = availability
        availability.when_offline = self._fail_waiters
        self._sync = sync
        self.waits_for_sync = wait_for_sync and sync is not None
        self.recovery_point = recovery_point
        """All records before this offset are known to be on the disk: recovery begins here."""
        self.found_end = segments.end_offset
        """The log's end when it was opened: an earlier process may have acknowledged all records before this offset."""
        self.durable_offset = segments.end_offset
        self.listeners = AppendListeners()
        self._waiters = Waiters()
        self._syncing = False
        self._files: tuple[File, ...] = ()
        """The files of the running sync, which covers the records before `_target`."""
        self._target = 0
        self._names_changed = self._is_new = False
        """Whether names in the log's folder, and the name of the folder, have to be synced too."""
        self._syncs_until_check = 1
        """After how many syncs the server checks whether the active file still has its name."""
        self._cut_at = MAX_INT64
        """The lowest offset of a cut since the running sync began. The sync covers no record from this offset on."""
        self._unsynced: list[File] = []
        if self.waits_for_sync:
            # bytes of a killed process may be in the page cache only
            self.durable_offset = min(recovery_point, segments.end_offset)
            # changes of older segments may not be on the disk either: room that was given back, tails that were cut
            pairs = pairwise(segments)
            self._unsynced = [one.file for one, follower in pairs if follower.base_offset >= recovery_point]
        self._room_end = 0
        """The end of the reserved room of the active segment's file; 0: no room was reserved."""
        self._unflushed = 0
        self._flush_to = 0
        """`flush.messages` requires a sync up to this offset before appends up to it are acknowledged."""
        if sync is not None and segments.config.flush_messages < MAX_INT64:
            self._flush_to = segments.end_offset  # bytes that an earlier log could not sync
        self._flush_waiters = Waiters()
        self._clean_ms = 0

    def when_durable(self, position: int, callback: Waiter) -> None:
        """Call `callback(None)` once all records before `position` are durable, or `callback(error)` on a failure."""
        if position <= self.durable_offset:
            callback(None)
        else:
            self._wait(self._waiters, position, callback)

    def when_flushed(self, position: int, callback: Waiter) -> None:
        """Call back as `when_durable`, but after the sync that `flush.messages` requires: to acknowledge an append."""
        if position > self._flush_to or position <= self.recovery_point:
            self.when_durable(position, callback)
        else:
            self._wait(self._flush_waiters, position, callback)

    def when_synced(self, position: int, callback: Waiter) -> None:
        """Call `callback` once all records before `position` are on the disk, even if appends do not wait for it."""
        if position <= self.recovery_point or self._sync is None:
            callback(None)
        else:
            self._wait(self._flush_waiters, position, callback)

    def _wait(self, waiters: Waiters, position: int, callback: Waiter) -> None:
        """Let the next sync call `callback`. When the log is offline, call `callback` at once with the failure."""
        if self._availability.failure is not None:
            callback(self._availability.failure)
            return
        waiters.add(position, callback)
        if self._syncing and self._sync is not None:
            self._sync.wanted += 1
        else:
            self._start_sync()

    def _fail_waiters(self, failure: LogOffline) -> None:
        self._waiters.fail(failure)
        self._flush_waiters.fail(failure)

    def appended(self, count: int) -> None:
        """Note that `count` records were appended."""
        segments = self._segments
        self._unflushed += count
        if not self.waits_for_sync:
            self.durable_offset = segments.end_offset
        if self._unflushed >= segments.config.flush_messages and self._sync is not None:
            self._flush_to = segments.end_offset
            self._start_sync()
        for callback in self.listeners.callbacks:
            callback()

    def rolled(self, old: Segment) -> None:
        """Note that `old` is no longer the active segment."""
        with self._availability.failing(old.file.path):
            self._give_back_room(old)
        self._unsynced.append(old.file)
        # after this sync, a recovery after a kill checks only the new segment
        self._start_sync()

    def removed(self, removed: Sequence[Segment]) -> None:
        """Note that these segments are no longer part of the log."""

    def replaced(self, old: Sequence[Segment], new: Segment, aborted: Sequence[AbortedTransaction]) -> None:
        """Note that a compacted segment has replaced segments. `aborted`: the entries of its transaction index."""

    def compacted_to(self, offset: int) -> None:
        """Note that everything before `offset` is compacted."""

    def cut_to(self, end_offset: int) -> None:
        """Note that the log now ends at `end_offset`."""
        self._cut_at = min(self._cut_at, end_offset)
        self._room_end = 0
        self.found_end = min(self.found_end, end_offset)
        self._flush_to = min(self._flush_to, end_offset)
        self.durable_offset = min(self.durable_offset, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)

    def fetch_segment(self, base_offset: int, then: Callable[[Exception | None], object]) -> Callable[[], object]:  # noqa: ARG002  # no segment is absent
        """Fetch an absent segment, see `segments.absence.FetchSegment`. On the disk no segment is absent."""
        then(None)
        return lambda: None

    def in_background(self, job: Callable[[], object], done: Callable[[], object] = lambda: None) -> None:
        """Run a job for which no caller waits, then call `done`. The next start repeats a failed job."""
        if self._sync is None:
            with contextlib.suppress(OSError):
                job()
            done()
        else:
            self._sync.run(job, lambda _: done())

    def sync_if_older(self, mono_ms: int) -> None:
        """Begin a sync when something was appended and the last sync began `flush.ms` ago or earlier."""
        if self._unflushed and mono_ms - self._clean_ms >= self._segments.config.flush_ms:
            self._start_sync()
        if not self._unflushed:
            self._clean_ms = mono_ms

    def _start_sync(self) -> None:
        """Sync what is written, in a thread. Callers that begin to wait meanwhile share the next sync."""
        if self._sync is not None and not self._syncing and self._availability.failure is None:
            self._syncing = True
            self._sync.sync(self._begin_sync)

    def _begin_sync(self) -> Sync:
        """Return the job that syncs everything written until now, and the function for its result."""
        segments = self._segments
        active = segments.active
        if self.waits_for_sync and active.size + RESERVED_BYTES // 4 > self._room_end:
            self._reserve_room(active)
        self._unflushed = 0
        self._cut_at = MAX_INT64
        self._target, self._files = segments.end_offset, (active.file,)
        self._names_changed = self.recovery_point <= active.base_offset
        if self._unsynced:
            self._files, self._unsynced, self._names_changed = (*self._unsynced, active.file), [], True
        self._is_new = self.recovery_point == 0
        return self._sync_files, self._synced

    def _sync_files(self) -> None:
        """Sync in a thread what `_begin_sync` has named. If one sync serves many logs, it is not called."""
        if self._availability.failure is not None:
            # The log was opened again. A sync by the new log must get the failure, which the system reports only once.
            return
        for file in self._files:
            file.sync()
        segments = self._segments
        if self._names_changed:
            segments.storage.sync_directory(segments.directory)
        if self._is_new:  # the name of the directory must not be lost either
            segments.storage.sync_directory("")
        segments.storage.verify()

    def _synced(self, failure: OSError | None) -> None:
        self._syncing = False
        if self._availability.failure is not None:
            return
        if failure is not None:
            self._availability.fail(self._files[-1].path, failure)
            return
        target = self._target if self._target < self._cut_at else self._cut_at
        waits_for_sync = self.waits_for_sync
        if waits_for_sync:
            self._syncs_until_check -= 1
            if self._syncs_until_check <= 0:
                self._syncs_until_check = CHECK_NAME_EACH_SYNCS
                file = self._segments.active.file
                if file.is_removed():
                    self._availability.fail(file.path, OSError(REMOVED))
                    return
        if target > self.recovery_point:
            self.recovery_point = target
        if waits_for_sync and target > self.durable_offset:
            self.durable_offset = target
            self._waiters.release(target)
            for callback in self.listeners.callbacks:
                callback()
        flush_waiters = self._flush_waiters
        if flush_waiters.queue:
            flush_waiters.release(self.recovery_point)
        if self._waiters.queue or self._unsynced or flush_waiters.queue:
            self._start_sync()

    def _reserve_room(self, active: Segment) -> None:
        self._room_end = active.size + RESERVED_BYTES
        with contextlib.suppress(OSError):  # on a full disk the next write fails
            active.file.allocate(min(self._room_end, max(self._segments.config.segment_bytes, active.size)))

    def _give_back_room(self, segment: Segment) -> None:
        if self._room_end:
            self._room_end = 0
            segment.file.truncate(segment.size)

    def flush(self) -> None:
        """Sync everything written, and wait for the disk. Raises LogOffline."""
        segments = self._segments
        end_offset, active = segments.end_offset, segments.active
        if self.recovery_point == end_offset and not self._unsynced and not self._room_end:
            return
        with self._availability.failing(active.file.path):
            self._give_back_room(active)
            for file in [*self._unsynced, active.file]:
                file.sync()
            segments.storage.sync_directory(segments.directory)
        self._unsynced = []
        self._unflushed = 0
        self.recovery_point = end_offset
        if self.waits_for_sync and self.durable_offset < end_offset:
            self.durable_offset = end_offset
            self._waiters.release(end_offset)
        self._flush_waiters.release(end_offset)

    def close(self, failure: LogOffline) -> None:
        """Call all waiting callbacks with `failure`; no callback is called afterwards."""
        self._fail_waiters(failure)
        self.listeners.clear()
