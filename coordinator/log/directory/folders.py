"""The folders of a data directory: which partitions have one, what these say of themselves, and which names they get.

Knows nothing of what is open; `LogManager` is built on it.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

import structlog

from muster.coordinator.log.directory import checkpoints, topic_ids
from muster.coordinator.log.directory.checkpoints import Partition
from muster.coordinator.log.directory.folder_names import STRAY_SUFFIX, OtherName, other_name, read_other_name
from muster.coordinator.log.directory.new_folders import NewFolders
from muster.coordinator.log.errors import MalformedCheckpoint
from muster.coordinator.log.storage.interfaces import Storage
from muster.coordinator.log.storage.shared_sync import SharedSync, Waiter

_logger = structlog.get_logger("muster.log")


class PartitionFolders:
    """The folders of one data directory."""

    def __init__(self, storage: Storage, sync: SharedSync | None) -> None:
        """`sync`: threads for syncs; without it they are done here and now."""
        self.storage = storage
        self.files_lock = Lock()
        """Held by whoever changes which segments a partition's directory holds, in another thread than the event loop's
        or for a log that is just being opened.
        """
        self._sync = sync
        self._new_folders = NewFolders(storage, sync)
        self._draw_uuid: Callable[[], bytes]

    def on_disk(self) -> list[Partition]:
        """The partitions that have a directory, in order."""
        found = [checkpoints.partition_of(entry.name) for entry in self.storage.entries("") if entry.is_directory]
        return sorted(partition for partition in found if partition is not None)

    def topic_id_on_disk(self, topic: str, partition: int) -> bytes | None:
        """The topic id noted in a partition's directory; None when there is none."""
        return topic_ids.read(self.storage, f"{topic}-{partition}")

    def topic_id_in(self, folder: str) -> bytes | None:
        """The topic id noted in a folder, whatever its name; None when there is none. Raises MalformedCheckpoint."""
        return topic_ids.read(self.storage, folder)

    def note_topic_id(self, topic: str, partition: int, topic_id: bytes) -> None:
        """Write a topic id into a partition's directory. Raises OSError."""
        topic_ids.write(self.storage, f"{topic}-{partition}", topic_id, sync=self._sync is None)
        self._new_folders.add(f"{topic}-{partition}")

    def leader_epoch_on_disk(self, topic: str, partition: int) -> int:
        """The newest leader epoch noted in a partition's directory; -1 when there is none."""
        path = f"{topic}-{partition}/{checkpoints.LEADER_EPOCHS}"
        data = self.storage.load(path)
        try:
            epochs = [] if data is None else checkpoints.decode_epochs(path, data)
        except MalformedCheckpoint as error:
            _logger.warning("a checkpoint is ignored: it cannot be read", path=path, reason=str(error))
            return -1
        return epochs[-1][0] if epochs else -1

    def when_folders_durable(self, callback: Waiter) -> None:
        """Call `callback(None)` once the folders of all logs that were made so far are on the disk, or
        `callback(error)`.
        """
        self._new_folders.when_synced(callback)

    def has_folder(self, topic: str, partition: int) -> bool:
        """Whether a partition has a folder."""
        return self.storage.is_directory(f"{topic}-{partition}")

    def _free_name(self, key: Partition, uuid: bytes | None, suffix: str) -> str:
        name = other_name(key, uuid or self._draw_uuid(), suffix)
        while self.storage.is_directory(name):
            name = other_name(key, self._draw_uuid(), suffix)
        return name

    def set_aside_folder(self, folder: str, topic: str, partition: int) -> str:
        """`set_aside` for a folder that has another name already."""
        name = self._free_name((topic, partition), None, STRAY_SUFFIX)
        self.storage.rename(folder, name)
        return name

    def put_back(self, folder: str, topic: str, partition: int) -> None:
        """Give a folder that has another name its own again. Raises OSError."""
        with self.files_lock:
            self.storage.rename(folder, f"{topic}-{partition}")

    def renamed_folders(self) -> list[tuple[str, OtherName]]:
        """Folders that were deleted, but for their files, or set aside."""
        found = [(entry.name, read_other_name(entry.name)) for entry in self.storage.entries("") if entry.is_directory]
        return [(name, other) for name, other in found if other is not None]
