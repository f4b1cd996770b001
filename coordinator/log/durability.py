"""Up to where a log is durable, who waits for that, and how it is synced.

A sync never runs on the event loop: only `flush` waits for the disk, at a stop.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, Protocol

import structlog

from muster.coordinator.log.append_listeners import AppendListeners
from muster.coordinator.log.availability import Availability
from muster.coordinator.log.errors import LogOffline
from muster.coordinator.log.segments.log_segments import LogSegments
from muster.coordinator.log.segments.segment import Segment
from muster.coordinator.log.segments.transaction_index import AbortedTransaction
from muster.coordinator.log.settings import MAX_INT64
from muster.coordinator.log.storage.interfaces import File
from muster.coordinator.log.storage.shared_sync import SharedSync, Sync, Waiter, Waiters

RESERVED_BYTES: Final = 64 * 1024
"""How much room a log that waits for its syncs has in advance: the syncs of a file that does not grow write its bytes
and nothing else."""

CHECK_NAME_EACH_SYNCS: Final = 8
"""After so many syncs the file is asked whether it still has a name: after each it took 15 % of a commit's CPU. What
is removed in between is found within a second (`DirectoryMonitor`).
"""
_logger = structlog.get_logger("muster.log")
REMOVED: Final = "somebody removed it while the server runs"


class LogDurability(Protocol):
    """Up to where one log is durable, and who waits for that: `Durability` by the disk, another engine in its own way.

    The methods are those of `Durability`. `waits_for_sync`: durable means more than written. `is_copied`: its files are
    a copy with which another process may go on at once; such a log also knows up to where it was compacted.
    """

    waits_for_sync: bool
    is_copied: bool
    clean_offset: int
    durable_offset: int
    listeners: AppendListeners

    @property
    def recovery_point(self) -> int: ...  # noqa: D102
    @property
    def found_end(self) -> int: ...  # noqa: D102

    def when_durable(self, position: int, callback: Waiter) -> None:
        """See `Durability`, as for all that follows."""

    def when_flushed(self, position: int, callback: Waiter) -> None: ...  # noqa: D102
    def when_synced(self, position: int, callback: Waiter) -> None: ...  # noqa: D102
    def appended(self, count: int) -> None: ...  # noqa: D102
    def rolled(self, old: Segment) -> None: ...  # noqa: D102
    def removed(self, doomed: Sequence[Segment]) -> None: ...  # noqa: D102
    def replaced(  # noqa: D102
        self, old: Sequence[Segment], new: Segment, aborted: Sequence[AbortedTransaction]
    ) -> None: ...
    def compacted_to(self, offset: int) -> None: ...  # noqa: D102
    def cut_to(self, end_offset: int) -> None: ...  # noqa: D102
    def bring(  # noqa: D102
        self, base_offset: int, then: Callable[[Exception | None], object], /
    ) -> Callable[[], object]: ...
    def in_background(  # noqa: D102
        self, job: Callable[[], object], done: Callable[[], object] = ..., /
    ) -> None: ...
    def sync_if_older(self, mono_ms: int) -> None: ...  # noqa: D102
    def flush(self) -> None: ...  # noqa: D102
    def close(self, failure: LogOffline) -> None: ...  # noqa: D102


class Engine(Protocol):
    """What makes logs durable elsewhere than on the disk of the data directory, which is a copy of it then."""

    def durability(self, segments: LogSegments, availability: Availability) -> LogDurability:
        """Of a log that was just opened."""

    def dropped(self, folder: str) -> None:
        """The log in a folder of that name, which it was given when its topic was deleted, is not needed any more."""


class Durability:
    """Of one log."""

    is_copied = False
    clean_offset = 0
    """A file of the data directory says it of all logs (`cleaning.cleaner`)."""

    def __init__(
        self,
        segments: LogSegments,
        availability: Availability,
        recovery_point: int,
        sync: SharedSync | None,
        wait_for_sync: bool,
    ) -> None:
        """`sync`: threads to sync in; `wait_for_sync`: durable means synced, not only written (needs `sync`)."""
        self._segments = segments
        self._availability = availability
        availability.when_offline = self._fail_waiters
        self._sync = sync
        self.waits_for_sync = wait_for_sync and sync is not None
        self.recovery_point = recovery_point
        """Up to here the log is known to be on the disk: recovery begins here."""
        self.found_end = segments.end_offset
        """Where the log ended when it was opened: all before it may have been acknowledged by an earlier process."""
        self.durable_offset = segments.end_offset
        """All before it is durable."""
        self.listeners = AppendListeners()
        self._waiters = Waiters()
        self._syncing = False
        self._syncs_until_check = 1
        self._cut_at = MAX_INT64
        """The lowest offset that was cut off since the running sync began: it says nothing of what came there since."""
        self._unsynced: list[File] = []
        """Files of segments that are not appended to any more."""
        if self.waits_for_sync:
            # what a killed process left behind may stand in the page cache only
            self.durable_offset = min(recovery_point, segments.end_offset)
            # and so may what was done to older segments before: room that was given back, tails that were cut
            pairs = pairwise(segments)
            self._unsynced = [one.file for one, follower in pairs if follower.base_offset >= recovery_point]
        self._room_end = 0
        """Up to here the active segment's file has room in advance; 0: none was asked for."""
        self._unflushed = 0
        """Records appended since the last sync began."""
        self._flush_to = 0
        """`flush.messages` demands that what comes up to here is synced before it is acknowledged."""
        if sync is not None and segments.config.flush_messages < MAX_INT64:
            self._flush_to = segments.end_offset  # what an earlier log could not sync
        self._flush_waiters = Waiters()
        self._clean_ms = 0
        """Monotonic: when `sync_if_older` last found nothing left to sync."""

    def when_durable(self, position: int, callback: Waiter) -> None:
        """Call `callback(None)` once all before `position` is durable, or `callback(error)` when it cannot be."""
        if position <= self.durable_offset:
            callback(None)
        elif self._availability.failure is not None:
            callback(self._availability.failure)
        else:
            self._wait(self._waiters, position, callback)

    def when_flushed(self, position: int, callback: Waiter) -> None:
        """`when_durable` for the acknowledgement of an append that ended at `position`: it also waits for the sync that
        `flush.messages` has demanded with that append (Kafka flushes in the append itself).
        """
        if position > self._flush_to or position <= self.recovery_point:
            self.when_durable(position, callback)
        elif self._availability.failure is not None:
            callback(self._availability.failure)
        else:
            self._wait(self._flush_waiters, position, callback)

    def when_synced(self, position: int, callback: Waiter) -> None:
        """Call `callback(None)` once all before `position` is on the disk, or `callback(error)` when it cannot be:
        also where the page cache is all that appends are promised. Without threads to sync in nothing is waited for.
        """
        if position <= self.recovery_point or self._sync is None:
            callback(None)
        elif self._availability.failure is not None:
            callback(self._availability.failure)
        else:
            self._wait(self._flush_waiters, position, callback)

    def _wait(self, waiters: Waiters, position: int, callback: Waiter) -> None:
        """Have `callback` called by a sync; one that is under way is followed by another."""
        waiters.add(position, callback)
        if self._syncing and self._sync is not None:
            self._sync.wanted += 1
        else:
            self._start_sync()

    def _fail_waiters(self, failure: LogOffline) -> None:
        self._waiters.fail(failure)
        self._flush_waiters.fail(failure)

    def appended(self, count: int) -> None:
        """So many records were appended."""
        end_offset = self._segments.end_offset
        self._unflushed += count
        if not self.waits_for_sync:
            self.durable_offset = end_offset
        if self._unflushed >= self._segments.config.flush_messages and self._sync is not None:
            self._flush_to = end_offset
            self._start_sync()
        for callback in self.listeners.callbacks:
            callback()

    def rolled(self, old: Segment) -> None:
        """`old` has just ceased to be the active segment."""
        with self._availability.failing(old.file.path):
            self._give_back_room(old)
        self._unsynced.append(old.file)
        # so that recovery after a kill has the new segment to look at and not the whole log
        self._start_sync()

    def removed(self, doomed: Sequence[Segment]) -> None:
        """These segments have ceased to be part of the log."""

    def replaced(self, old: Sequence[Segment], new: Segment, aborted: Sequence[AbortedTransaction]) -> None:
        """A compacted segment has taken their place; what its transaction index says."""

    def compacted_to(self, offset: int) -> None:
        """All before `offset` is compacted."""

    def cut_to(self, end_offset: int) -> None:
        """The log ends at `end_offset` now."""
        self._cut_at = min(self._cut_at, end_offset)
        self._room_end = 0
        self.found_end = min(self.found_end, end_offset)
        self._flush_to = min(self._flush_to, end_offset)
        self.durable_offset = min(self.durable_offset, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)

    def bring(self, base_offset: int, then: Callable[[Exception | None], object]) -> Callable[[], object]:  # noqa: ARG002
        """Have an absent segment brought, see `segments.absence.Bring`: here all of them are."""
        then(None)
        return lambda: None

    def in_background(self, job: Callable[[], object], done: Callable[[], object] = lambda: None) -> None:
        """Do what need not be waited for, then call `done`. What could not be done is done at the next start."""
        if self._sync is None:
            with contextlib.suppress(OSError):
                job()
            done()
        else:
            self._sync.run(job, lambda _: done())

    def sync_if_older(self, mono_ms: int) -> None:
        """Begin a sync when something was appended and the last one began `flush.ms` ago or earlier."""
        if self._unflushed and mono_ms - self._clean_ms >= self._segments.config.flush_ms:
            self._start_sync()
        if not self._unflushed:
            self._clean_ms = mono_ms

    def _start_sync(self) -> None:
        """Sync what is written, in a thread; those that come to wait meanwhile share the next one."""
        if self._sync is not None and not self._syncing and self._availability.failure is None:
            self._syncing = True
            self._sync.sync(self._begin_sync)

    def _begin_sync(self) -> Sync:
        """What was written until now is synced by the job that is returned."""
        if self.waits_for_sync:
            self._reserve_room()
        self._unflushed = 0
        self._cut_at = MAX_INT64
        segments, availability = self._segments, self._availability
        files, self._unsynced = [*self._unsynced, segments.active.file], []
        names_changed = len(files) > 1 or self.recovery_point <= segments.active.base_offset
        is_new = self.recovery_point == 0
        target = segments.end_offset

        def job() -> None:
            if availability.failure is not None:
                # a log that was opened anew has these files now, and would not hear of a failure told here
                return
            for file in files:
                file.sync()
            if names_changed:
                segments.storage.sync_directory(segments.directory)
            if is_new:  # nor may the directory itself be lost
                segments.storage.sync_directory("")
            segments.storage.verify()

        return job, lambda failure: self._synced(target, files[-1].path, failure)

    def _synced(self, target: int, path: str, failure: OSError | None) -> None:
        self._syncing = False
        if self._availability.failure is not None:
            return
        if failure is not None:
            self._availability.fail(path, failure)
            return
        if self.waits_for_sync and self._is_removed():
            self._availability.fail(self._segments.active.file.path, OSError(REMOVED))
            return
        target = min(target, self._cut_at)
        self.recovery_point = max(self.recovery_point, target)
        if self.waits_for_sync and target > self.durable_offset:
            self.durable_offset = target
            self._waiters.release(target)
            for callback in self.listeners.callbacks:
                callback()
        self._flush_waiters.release(self.recovery_point)
        if self._waiters or self._unsynced or self._flush_waiters:
            self._start_sync()

    def _is_removed(self) -> bool:
        """Whether the active segment's file has lost its name, as far as it is looked at."""
        self._syncs_until_check -= 1
        if self._syncs_until_check > 0:
            return False
        self._syncs_until_check = CHECK_NAME_EACH_SYNCS
        return self._segments.active.file.is_removed()

    def _reserve_room(self) -> None:
        """Before a sync, so that those that follow find a file that does not grow."""
        active = self._segments.active
        if active.size + RESERVED_BYTES // 4 > self._room_end:
            self._room_end = active.size + RESERVED_BYTES
            with contextlib.suppress(OSError):  # a disk that is full will say so to the next write
                active.file.allocate(min(self._room_end, max(self._segments.config.segment_bytes, active.size)))

    def _give_back_room(self, segment: Segment) -> None:
        if self._room_end:
            self._room_end = 0
            segment.file.truncate(segment.size)

    def flush(self) -> None:
        """Sync all that is written, waiting for the disk. Raises LogOffline."""
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
        """Those that still wait are told `failure`; no callback is called afterwards."""
        self._fail_waiters(failure)
        self.listeners.clear()
