"""The folders of a data directory: the partitions with a folder, their topic ids, and the names of folders.

It knows nothing of open logs.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from muster.coordinator.log import checkpoints
from muster.coordinator.log.checkpoints import Partition
from muster.coordinator.log.directory import topic_ids
from muster.coordinator.log.directory.folder_names import OtherName, other_name, read_other_name
from muster.coordinator.log.directory.new_folders import NewFolders
from muster.coordinator.log.segments.leader_epochs import load_epochs
from muster.coordinator.log.storage.interfaces import Storage
from muster.coordinator.log.storage.shared_sync import SharedSync, Waiter


class PartitionFolders:
    """The folders of one data directory."""

    def __init__(self, storage: Storage, sync: SharedSync | None) -> None:
        """`sync`: threads for syncs; without it the syncs run in the caller's thread."""
        self._storage = storage
        self.files_lock = Lock()
        """Held while another thread changes the segments in a directory, or a log is opened."""
        self._sync = sync
        self._new_folders = NewFolders(storage, sync)
        self.draw_uuid: Callable[[], bytes]
        """Set when the directory is opened."""

    def on_disk(self) -> list[Partition]:
        """The partitions that have a directory, in order."""
        found = [checkpoints.partition_of(entry.name) for entry in self._storage.entries("") if entry.is_directory]
        return sorted(partition for partition in found if partition is not None)

    def topic_id_on_disk(self, topic: str, partition: int) -> bytes | None:
        """Read the topic id in a partition's directory; None when it has none."""
        return topic_ids.read(self._storage, f"{topic}-{partition}")

    def topic_id_in(self, folder: str) -> bytes | None:
        """Read the topic id in a folder, whatever its name; None when it has none. Raises MalformedCheckpoint."""
        return topic_ids.read(self._storage, folder)

    def note_topic_id(self, topic: str, partition: int, topic_id: bytes) -> None:
        """Write a topic id into a partition's directory. Raises OSError."""
        topic_ids.write(self._storage, f"{topic}-{partition}", topic_id, sync=self._sync is None)
        self._new_folders.add(f"{topic}-{partition}")

    def ensure_topic_id(self, topic: str, partition: int, topic_id: bytes, *, was_clean: bool) -> None:
        """Make sure that the directory of a log has the topic's id. Raises DamagedLog for an unreadable id, and
        OSError.
        """
        folder = f"{topic}-{partition}"
        if topic_ids.ensure(self._storage, folder, topic_id, was_clean=was_clean, sync=self._sync is None):
            self._new_folders.add(folder)

    def leader_epoch_on_disk(self, topic: str, partition: int) -> int:
        """Return the newest leader epoch in a partition's directory; -1 when it has none."""
        return load_epochs(self._storage, f"{topic}-{partition}").latest

    def when_folders_durable(self, callback: Waiter) -> None:
        """Call `callback(None)` once the folders of all logs made so far are on the disk, or `callback(error)`."""
        self._new_folders.when_synced(callback)

    def sync_new(self) -> bool:
        """Wait until the folders of all logs made so far are on the disk. False when that is not sure. Raises
        OSError.
        """
        return self._new_folders.sync_now()

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
