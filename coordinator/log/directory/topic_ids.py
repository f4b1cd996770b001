"""The file `partition.metadata` with the topic's id in a partition's directory (KIP-516; Kafka: PartitionMetadataFile).

It is read, written, and checked when the log is opened.
"""

from __future__ import annotations

import structlog

from muster.coordinator.log import checkpoints
from muster.coordinator.log.errors import DamagedLog, MalformedCheckpoint
from muster.coordinator.log.position import Place
from muster.coordinator.log.storage.interfaces import Storage

UNREADABLE = "it does not hold version 0 and a topic_id"
_logger = structlog.get_logger("muster.log")


def read(storage: Storage, directory: str) -> bytes | None:
    """Return the topic id in the file; None when the directory has no such file. Raises MalformedCheckpoint or
    OSError.
    """
    path = f"{directory}/{checkpoints.PARTITION_METADATA}"
    data = storage.load(path)
    return None if data is None else checkpoints.decode_topic_id(f"{storage.root}/{path}", data)


def other_topic(found: bytes, wanted: bytes) -> str:
    """Return the sentence for a folder that has another topic's id."""
    names = checkpoints.encode_uuid(found), checkpoints.encode_uuid(wanted)
    return "it names the topic {}, and the topic of this name is {}: the folder is another topic's".format(*names)


def write(storage: Storage, directory: str, topic_id: bytes, *, sync: bool) -> None:
    """Write a topic id. Raises OSError.

    `sync`: wait for the disk. Without it, a power cut may leave part of the file; `ensure` handles that.
    """
    path = f"{directory}/{checkpoints.PARTITION_METADATA}"
    storage.save(path, checkpoints.encode_topic_id(topic_id), sync=sync)


def ensure(storage: Storage, directory: str, topic_id: bytes, *, was_clean: bool, sync: bool) -> bool:
    """Make sure that the directory of a log that is opened has the topic's id. True when it was written.

    `was_clean`: whether the last stop was clean. `sync`: see `write`. Raises DamagedLog when the file cannot be read.
    """
    path = f"{directory}/{checkpoints.PARTITION_METADATA}"
    try:
        known = read(storage, directory)
        if known is not None and known != topic_id:
            raise DamagedLog(Place(f"{storage.root}/{path}", 0), other_topic(known, topic_id))
        if known is not None:
            return False
    except MalformedCheckpoint:
        full = f"{storage.root}/{path}"
        found = (storage.load(path) or b"").rstrip(b"\0")
        if was_clean or not checkpoints.encode_topic_id(topic_id).startswith(found):
            raise DamagedLog(Place(full, 0), UNREADABLE) from None
        # the beginning of the file: a power cut leaves that of a new file
        _logger.warning("the id of a topic was written again", path=full)
    write(storage, directory, topic_id, sync=sync)
    return True
