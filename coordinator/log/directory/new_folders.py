"""Syncs the folders of new logs.

A topic is acknowledged only when its partitions' folders, with the topic's id in them, would survive a power cut. Syncs
run in a thread and serve all waiting callers.
"""

from __future__ import annotations

import contextlib

from muster.coordinator.log.errors import LogOffline
from muster.coordinator.log.storage.interfaces import Storage
from muster.coordinator.log.storage.shared_sync import SharedSync, Sync, Waiter, Waiters


class NewFolders:
    """Syncs the folders that were made in a data directory."""

    def __init__(self, storage: Storage, sync: SharedSync | None) -> None:
        """Without `sync` no caller waits for the disk, and nothing is synced here."""
        self._storage = storage
        self._sync = sync
        self._unsynced: list[str] = []
        self._under_way: list[str] = []
        self._has_failed = False
        self._made = self._synced = 0
        self._waiters = Waiters()
        self._syncing = False

    def add(self, folder: str) -> None:
        """Note that a folder was created just now, or a file in it was written."""
        if self._sync is not None:
            self._unsynced.append(folder)
            self._made += 1

    def when_synced(self, callback: Waiter) -> None:
        """Call `callback(None)` once all folders added so far are on the disk, or `callback(error)`."""
        if self._synced == self._made:
            callback(None)
            return
        self._waiters.add(self._made, callback)
        self._start()

    def sync_now(self) -> bool:
        """Wait until all added folders are on the disk. Raises OSError.

        False when an earlier sync of some folders has failed: their state on the disk is unknown.
        """
        folders = [*self._under_way, *self._unsynced]  # a thread may be at the first ones, or never sync them
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
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile: it need not survive
            for entry in self._storage.entries(folder):
                file = self._storage.file(f"{folder}/{entry.name}")
                file.sync()
                file.close()
            self._storage.sync_directory(folder)

    def _ended(self, made: int, failure: OSError | None) -> None:
        """Note the end of a sync. After a failed sync the next start checks the folders against the topic catalogue.

        Writes of records report the failure of the disk.
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
