"""The folders of partitions in a data directory: their topic ids (KIP-516), their names, the syncs of new folders."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from threading import Lock

import structlog

from muster.coordinator.log import checkpoints
from muster.coordinator.log.checkpoints import Partition
from muster.coordinator.log.errors import DamagedLog, LogOffline, MalformedCheckpoint, Place
from muster.coordinator.log.file_names import OtherName, other_name, read_other_name
from muster.coordinator.log.segments.leader_epochs import load_epochs
from muster.coordinator.log.storage.interfaces import Storage
from muster.coordinator.log.storage.shared_sync import SharedSync, Sync, Waiter, Waiters

UNREADABLE_TOPIC_ID = "it does not hold version 0 and a topic_id"
_logger = structlog.get_logger("muster.log")


def read_topic_id(storage: Storage, directory: str) -> bytes | None:
    """Return the topic id in `partition.metadata`; None without that file. Raises MalformedCheckpoint or OSError."""
    path = f"{directory}/{checkpoints.PARTITION_METADATA}"
    data = storage.load(path)
    return None if data is None else checkpoints.decode_topic_id(f"{storage.root}/{path}", data)


def other_topic(found: bytes, wanted: bytes) -> str:
    """Return the sentence for a folder that has another topic's id."""
    names = checkpoints.encode_uuid(found), checkpoints.encode_uuid(wanted)
    return "it names the topic {}, and the topic of this name is {}: the folder is another topic's".format(*names)


def write_topic_id(storage: Storage, directory: str, topic_id: bytes, *, sync: bool) -> None:
    """Write a topic id. `sync`: wait for the disk; else a power cut may leave part of the file. Raises OSError."""
    path = f"{directory}/{checkpoints.PARTITION_METADATA}"
    storage.save(path, checkpoints.encode_topic_id(topic_id), sync=sync)


def ensure_topic_id(storage: Storage, directory: str, topic_id: bytes, *, was_clean: bool, sync: bool) -> bool:
    """Write the topic's id, if the directory has none. True when the id was written. Raises DamagedLog."""
    path = f"{directory}/{checkpoints.PARTITION_METADATA}"
    try:
        known = read_topic_id(storage, directory)
        if known is not None and known != topic_id:
            raise DamagedLog(Place(f"{storage.root}/{path}", 0), other_topic(known, topic_id))
        if known is not None:
            return False
    except MalformedCheckpoint:
        full = f"{storage.root}/{path}"
        found = (storage.load(path) or b"").rstrip(b"\0")
        if was_clean or not checkpoints.encode_topic_id(topic_id).startswith(found):
            raise DamagedLog(Place(full, 0), UNREADABLE_TOPIC_ID) from None
        # the file has only the beginning of the id, as a power cut leaves a new file
        _logger.warning("the id of a topic was written again", path=full)
    write_topic_id(storage, directory, topic_id, sync=sync)
    return True


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
        """Note a new folder, or a new file in it."""
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
        """Wait until all added folders are on the disk. False when an earlier sync has failed. Raises OSError."""
        folders = [*self._under_way, *self._unsynced]  # the thread may be syncing the first folders, or may fail
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
        with contextlib.suppress(FileNotFoundError):  # a deleted folder need not survive
            for entry in self._storage.entries(folder):
                file = self._storage.file(f"{folder}/{entry.name}")
                file.sync()
                file.close()
            self._storage.sync_directory(folder)

    def _ended(self, made: int, failure: OSError | None) -> None:
        """Call the waiting callbacks. After a failed sync the next start checks the folders by the metadata log."""
        self._syncing = False
        self._synced = made
        self._under_way = []
        self._has_failed |= failure is not None
        if failure is not None:
            self._waiters.fail(LogOffline(failure.filename or self._storage.root, failure.strerror or str(failure)))
        else:
            self._waiters.release(made)
        if self._waiters.queue:
            self._start()


class PartitionFolders:
    """The folders of one data directory."""

    def __init__(self, storage: Storage, sync: SharedSync | None) -> None:
        """`sync`: threads for syncs; without it the syncs run in the caller's thread."""
        self._storage = storage
        self.files_lock = Lock()
        """Held while another thread changes the segments in a directory, or a log is opened."""
        self._sync = sync
        self.new = NewFolders(storage, sync)
        self.draw_uuid: Callable[[], bytes]

    def on_disk(self) -> list[Partition]:
        """The partitions that have a directory, in order."""
        found = [checkpoints.partition_of(entry.name) for entry in self._storage.entries("") if entry.is_directory]
        return sorted(partition for partition in found if partition is not None)

    def topic_id_on_disk(self, topic: str, partition: int) -> bytes | None:
        """Read the topic id in a partition's directory; None without an id."""
        return read_topic_id(self._storage, f"{topic}-{partition}")

    def topic_id_in(self, folder: str) -> bytes | None:
        """Read the topic id in a folder of any name; None without an id. Raises MalformedCheckpoint."""
        return read_topic_id(self._storage, folder)

    def note_topic_id(self, topic: str, partition: int, topic_id: bytes) -> None:
        """Write a topic id into a partition's directory. Raises OSError."""
        write_topic_id(self._storage, f"{topic}-{partition}", topic_id, sync=self._sync is None)
        self.new.add(f"{topic}-{partition}")

    def ensure_topic_id(self, topic: str, partition: int, topic_id: bytes, *, was_clean: bool) -> None:
        """Make sure that a log's directory has the topic's id. Raises DamagedLog for an unreadable id, and OSError."""
        folder = f"{topic}-{partition}"
        if ensure_topic_id(self._storage, folder, topic_id, was_clean=was_clean, sync=self._sync is None):
            self.new.add(folder)

    def leader_epoch_on_disk(self, topic: str, partition: int) -> int:
        """Return the newest leader epoch in a partition's directory; -1 without an epoch."""
        return load_epochs(self._storage, f"{topic}-{partition}").latest

    def has_folder(self, topic: str, partition: int) -> bool:
        """Whether a partition has a folder."""
        return self._storage.is_directory(f"{topic}-{partition}")

    def rename(self, folder: str, partition: Partition, suffix: str, uuid: bytes | None = None) -> str:
        """Rename the folder of a partition to a free name that ends in `suffix`; return the name. Raises OSError."""
        name = other_name(partition, uuid or self.draw_uuid(), suffix)
        while self._storage.is_directory(name):
            name = other_name(partition, self.draw_uuid(), suffix)
        with self.files_lock:
            self._storage.rename(folder, name)
        return name

    def put_back(self, folder: str, topic: str, partition: int) -> None:
        """Give a renamed folder its own name again. Raises OSError."""
        with self.files_lock:
            self._storage.rename(folder, f"{topic}-{partition}")

    def renamed_folders(self) -> list[tuple[str, OtherName]]:
        """Return the folders of deleted partitions whose files still exist, and the strays."""
        found = [(entry.name, read_other_name(entry.name)) for entry in self._storage.entries("") if entry.is_directory]
        return [(name, other) for name, other in found if other is not None]
