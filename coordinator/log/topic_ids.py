"""The file in a partition's directory that says whose it is (KIP-516), `partition.metadata`: read, written, and made
sure of when the log is opened.
"""

from __future__ import annotations

import structlog

from muster.coordinator.log import checkpoints
from muster.coordinator.log.durability import SharedSync
from muster.coordinator.log.errors import DamagedLog, MalformedCheckpoint
from muster.coordinator.log.position import Place
from muster.coordinator.log.storage import Storage

UNREADABLE = "it does not hold version 0 and a topic_id"
_logger = structlog.get_logger("muster.log")


def read(storage: Storage, directory: str) -> bytes | None:
    """The topic id noted there; None when there is none. Raises MalformedCheckpoint or OSError."""
    path = f"{directory}/{checkpoints.PARTITION_METADATA}"
    data = storage.load(path)
    return None if data is None else checkpoints.decode_topic_id(f"{storage.root}/{path}", data)


def write(storage: Storage, directory: str, topic_id: bytes, sync: SharedSync | None = None) -> None:
    """Note a topic id. Raises OSError.

    With `sync` nobody waits for the disk, but for a moment: what a power cut leaves in it, `settle` knows.
    """
    path = f"{directory}/{checkpoints.PARTITION_METADATA}"
    storage.save(path, checkpoints.encode_topic_id(topic_id), sync=sync is None)

    def job() -> None:
        file = storage.file(path)
        file.sync()
        file.close()
        storage.sync_directory(directory)

    if sync is not None:
        sync.sync(lambda: (job, _no_matter))


def _no_matter(failure: OSError | None) -> None:
    """It can be had again from the topic catalogue; that the disk fails is told by whoever writes records."""


def settle(
    storage: Storage, directory: str, topic_id: bytes, *, was_clean: bool, sync: SharedSync | None = None
) -> None:
    """See to it that the directory of a log that is to be opened says whose it is.

    `was_clean`: how the data directory was left. Raises DamagedLog when it says something that nobody can read.
    """
    path = f"{directory}/{checkpoints.PARTITION_METADATA}"
    try:
        if read(storage, directory) is not None:
            return
    except MalformedCheckpoint:
        full = f"{storage.root}/{path}"
        if was_clean or (storage.load(path) or b"").strip(b"\0"):
            raise DamagedLog(Place(full, 0), UNREADABLE) from None
        # what a power cut leaves of a file that was new
        _logger.warning("topic_id_restored", path=full)
    write(storage, directory, topic_id, sync)
