"""Syncing the folders of new logs: a topic is acknowledged only when the folders of its partitions, and the files in
them that hold the topic's id, would survive a power cut. Syncs run in a thread and serve all that wait.
"""

from __future__ import annotations

import contextlib

from muster.coordinator.log.errors import LogOffline
from muster.coordinator.log.storage.interfaces import Storage
from muster.coordinator.log.storage.shared_sync import SharedSync, Sync, Waiter, Waiters


class NewFolders:
    """Syncs the folders that were made in a data directory."""

    def __init__(self, storage: Storage, sync: SharedSync | None) -> None:
        """Without `sync` nothing waits for the disk, and nothing is synced here."""
        self._storage = storage
        self._sync = sync
        self._unsynced: list[str] = []
        self._under_way: list[str] = []
        self._has_failed = False
        self._made = self._synced = 0
        self._waiters = Waiters()
        self._syncing = False

    def add(self, folder: str) -> None:
        """It was made just now, or a file in it was written."""
        if self._sync is not None:
            self._unsynced.append(folder)
            self._made += 1

    def when_synced(self, callback: Waiter) -> None:
        """Call `callback(None)` once all that were added so far are on the disk, or `callback(error)`."""
        if self._synced == self._made:
            callback(None)
            return
        self._waiters.add(self._made, callback)
        self._start()

    def sync_now(self) -> bool:
        """Wait until all that were added are on the disk; False when a sync of some has failed before, as nobody knows
        what the disk has of them. Raises OSError.
        """
        folders = [*self._under_way, *self._unsynced]  # a thread may be at the first ones, or never get to them
        for folder in folders:
            self._sync_folder(folder)
        if folders:
            self._storage.sync_directory("")
        return not self._has_failed

    def _start(self) -> None:
        if self._sync is not None and not self._syncing:
            self._syncing = True
            self._sync.sync(self._begin, lambda: 2 * len(self._unsynced) + 1)

    def _begin(self) -> Sync:
        folders, self._unsynced = self._unsynced, []
        self._under_way = folders
        made = self._made

        def job() -> None:
            for folder in folders:
                self._sync_folder(folder)
            self._storage.sync_directory("")
            self._storage.verify()

        return job, lambda failure: self._ended(made, failure)

    def _sync_folder(self, folder: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile: nothing of it needs to last
            for entry in self._storage.entries(folder):
                file = self._storage.file(f"{folder}/{entry.name}")
                file.sync()
                file.close()
            self._storage.sync_directory(folder)

    def _ended(self, made: int, failure: OSError | None) -> None:
        """A sync is over. After one that failed the next start checks the folders against the topic catalogue; the
        failure of the disk is reported where records are written.
        """
        self._syncing = False
        self._synced = made
        self._under_way = []
        self._has_failed |= failure is not None
        if failure is not None:
            self._waiters.fail(LogOffline(failure.filename or self._storage.root, failure.strerror or str(failure)))
        else:
            self._waiters.release(made)
        if self._waiters:
            self._start()
