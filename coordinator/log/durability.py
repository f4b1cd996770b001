"""Up to where a log is durable, who is told, and how it is synced and closed.

A sync never runs on the event loop: only `flush` and `close` wait for the disk, at a stop.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

from muster.coordinator.log.errors import LogOffline
from muster.coordinator.log.segments.segment import Segment
from muster.coordinator.log.segments.segments import Contents, SegmentedLog
from muster.coordinator.log.settings import MAX_INT64, LogConfig
from muster.coordinator.log.storage.interfaces import File
from muster.coordinator.log.storage.shared_sync import SharedSync, Sync, Waiter, Waiters

RESERVED_BYTES: Final = 64 * 1024
"""How much room a log that waits for its syncs has in advance: the syncs of a file that does not grow write its bytes
and nothing else."""


LOOK_EACH_SYNCS: Final = 8
"""After so many syncs it is looked whether the file still has a name: after each it took 15 % of a commit's CPU. What
is removed between two looks is found within a second (`watch`).
"""
REMOVED: Final = "somebody removed it while the server runs"


class DurableLog(SegmentedLog):
    """A log whose readers and waiters learn how far it is durable."""

    def __init__(
        self, contents: Contents, config: LogConfig, *, sync: SharedSync | None = None, wait_for_sync: bool = False
    ) -> None:
        """`sync`: threads to sync in; `wait_for_sync`: durable means synced, not only written (needs `sync`)."""
        super().__init__(contents, config)
        self.waits_for_sync = wait_for_sync and sync is not None
        self.found_end = contents.end_offset
        """Where the log ended when it was opened: all before it may have been acknowledged, by whoever wrote it."""
        if self.waits_for_sync:
            # what a killed process left behind may stand in the page cache only
            self.durable_offset = min(self.recovery_point, self.end_offset)
        self.closed_cleanly = False
        self._listeners: tuple[Callable[[], object], ...] = ()
        self._waiters = Waiters()
        self._sync = sync
        self._syncing = False
        self._until_look = 1
        self._cut_at = MAX_INT64
        """The lowest offset that was cut off since the running sync began: it says nothing of what came there since."""
        self._unsynced: list[File] = []
        if self.waits_for_sync:
            # nor what was done to older segments before: room that was given back, tails that were cut
            followers = zip(self.segments, self._bases[1:], strict=False)
            self._unsynced = [one.file for one, end in followers if end >= self.recovery_point]
        self._room_end = 0
        """Up to here the active segment's file has room in advance; 0: none was asked for."""
        self._unflushed = 0
        """Records appended since the last sync began."""
        self._flush_to = 0
        """`flush.messages` demands that what comes up to here is synced before it is acknowledged."""
        if sync is not None and config.flush_messages < MAX_INT64:
            self._flush_to = self.end_offset  # what an earlier log could not sync
        self._to_flush = Waiters()
        self._looked_ms = 0
        """Monotonic: when `sync_if_older` last found nothing left to sync."""

    def on_append(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back after each append, and when more has become durable; returns what ends that. `callback` must be
        quick.
        """
        self._listeners = (*self._listeners, callback)

        def remove() -> None:
            self._listeners = tuple(held for held in self._listeners if held is not callback)

        return remove

    def when_durable(self, position: int, callback: Waiter) -> None:
        """Call `callback(None)` once all before `position` is durable, at once when it is; or `callback(error)` when
        it cannot be.
        """
        if position <= self.durable_offset:
            callback(None)
        elif self.failure is not None:
            callback(self.failure)
        else:
            self._wait(self._waiters, position, callback)

    def when_flushed(self, position: int, callback: Waiter) -> None:
        """`when_durable` for whoever acknowledges an append that ended at `position`: not before the sync has come to
        its end that `flush.messages` has demanded with that append (Kafka flushes in the append itself).
        """
        if position > self._flush_to or position <= self.recovery_point:
            self.when_durable(position, callback)
        elif self.failure is not None:
            callback(self.failure)
        else:
            self._wait(self._to_flush, position, callback)

    def _wait(self, waiters: Waiters, position: int, callback: Waiter) -> None:
        """Have `callback` called by a sync: the one under way is followed by another as soon as somebody wants one."""
        waiters.add(position, callback)
        if self._syncing and self._sync is not None:
            self._sync.wanted += 1
        else:
            self._start_sync()

    def _on_failure(self, failure: LogOffline) -> None:
        self._waiters.fail(failure)
        self._to_flush.fail(failure)

    def _on_roll(self, old: Segment) -> None:
        try:
            self._give_back_room(old)
        except OSError as error:
            raise self._failed(old.file.path, error) from error
        self._unsynced.append(old.file)
        # so that recovery after a kill has the new segment to look at and not the whole log
        self._start_sync()

    def _in_background(self, job: Callable[[], object]) -> None:
        if self._sync is None:
            job()
        else:
            self._sync.run(job, self._ignore)

    @staticmethod
    def _ignore(failure: OSError | None) -> None:
        """What could not be removed is removed at the next start."""

    def _cut_to(self, end_offset: int) -> None:
        self._cut_at = min(self._cut_at, end_offset)
        self._room_end = 0
        self.found_end = min(self.found_end, end_offset)
        self._flush_to = min(self._flush_to, end_offset)
        super()._cut_to(end_offset)

    def _advance(self, end_offset: int) -> None:
        """Records up to `end_offset` were appended."""
        self._unflushed += end_offset - self.end_offset
        self.end_offset = end_offset
        if not self.waits_for_sync:
            self.durable_offset = end_offset
        if self._unflushed >= self._config.flush_messages and self._sync is not None:
            self._flush_to = end_offset
            self._start_sync()
        for callback in self._listeners:
            callback()

    def sync_if_older(self, mono_ms: int) -> None:
        """Begin a sync when something was appended and the last one began `flush.ms` ago or earlier; nobody waits for
        it.
        """
        if self._unflushed and mono_ms - self._looked_ms >= self._config.flush_ms:
            self._start_sync()
        if not self._unflushed:
            self._looked_ms = mono_ms

    def _start_sync(self) -> None:
        """Sync what is written, in a thread; those that come to wait meanwhile share the next one."""
        if self._sync is not None and not self._syncing and self.failure is None:
            self._syncing = True
            self._sync.sync(self._begin_sync)

    def _begin_sync(self) -> Sync:
        """Now it begins: what was written until now is synced by it."""
        if self.waits_for_sync:
            self._reserve_room()
        self._unflushed = 0
        self._cut_at = MAX_INT64
        files, self._unsynced = [*self._unsynced, self._active.file], []
        names_changed = len(files) > 1 or self.recovery_point <= self._active.base_offset
        is_new = self.recovery_point == 0
        target = self.end_offset

        def job() -> None:
            if self.failure is not None:
                # a log that was opened anew has these files now: a failure that only we heard of would be lost on it
                return
            for file in files:
                file.sync()
            if names_changed:
                self._storage.sync_directory(self.directory)
            if is_new:  # nor may the directory itself be lost
                self._storage.sync_directory("")
            self._storage.verify()

        return job, lambda failure: self._synced(target, files[-1].path, failure)

    def _synced(self, target: int, path: str, failure: OSError | None) -> None:
        self._syncing = False
        if self.failure is not None:
            return
        if failure is not None:
            self._failed(path, failure)
            return
        if self.waits_for_sync and self._is_removed():
            self._failed(self._active.file.path, OSError(REMOVED))
            return
        target = min(target, self._cut_at)
        self.recovery_point = max(self.recovery_point, target)
        if self.waits_for_sync and target > self.durable_offset:
            self.durable_offset = target
            self._waiters.release(target)
            for callback in self._listeners:
                callback()
        self._to_flush.release(self.recovery_point)
        if self._waiters or self._unsynced or self._to_flush:
            self._start_sync()

    def _is_removed(self) -> bool:
        """Whether the active segment's file has lost its name, as far as it is looked at."""
        self._until_look -= 1
        if self._until_look > 0:
            return False
        self._until_look = LOOK_EACH_SYNCS
        return self._active.file.is_removed()

    def _reserve_room(self) -> None:
        """Before a sync, so that those that follow find a file that does not grow."""
        size = self._active.size
        if size + RESERVED_BYTES // 4 > self._room_end:
            self._room_end = size + RESERVED_BYTES
            with contextlib.suppress(OSError):  # a disk that is full will say so to the next write
                self._active.file.allocate(min(self._room_end, max(self._config.segment_bytes, size)))

    def _give_back_room(self, segment: Segment) -> None:
        if self._room_end:
            self._room_end = 0
            segment.file.truncate(segment.size)

    def flush(self) -> None:
        """Sync all that is written, waiting for the disk: for stops and tests, not for the event loop."""
        if self.recovery_point == self.end_offset and not self._unsynced and not self._room_end:
            return
        try:
            self._give_back_room(self._active)
            for file in [*self._unsynced, self._active.file]:
                file.sync()
            self._storage.sync_directory(self.directory)
        except OSError as error:
            raise self._failed(self._active.file.path, error) from error
        self._unsynced = []
        self._unflushed = 0
        self.recovery_point = self.end_offset
        if self.waits_for_sync and self.durable_offset < self.end_offset:
            self.durable_offset = self.end_offset
            self._waiters.release(self.end_offset)
        self._to_flush.release(self.end_offset)

    def close(self) -> None:
        """Write what lets the next start begin without recovery, give the handles back; nothing more is appended."""
        if self.failure is None:
            try:
                self.flush()
                self._active.seal()
            except LogOffline:
                pass  # it has been told; the stop is not a clean one
            except OSError as error:
                self._failed(self._active.file.path, error)
        self.closed_cleanly = self.failure is None
        self.abandon()

    def abandon(self) -> None:
        """Give all handles back without writing anything, as a killed process would; those that still wait are told."""
        for segment in self.segments:
            segment.file.close()
        if self.failure is None:
            self.failure = LogOffline(self.directory, "it is closed")
        self._waiters.fail(self.failure)
        self._to_flush.fail(self.failure)
        self._listeners = ()
