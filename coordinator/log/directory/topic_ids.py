"""The file in a partition's directory that holds the topic's id (KIP-516), `partition.metadata`: read, written, and
checked when the log is opened (Kafka: PartitionMetadataFile).
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
    """The topic id noted there; None when there is none. Raises MalformedCheckpoint or OSError."""
    path = f"{directory}/{checkpoints.PARTITION_METADATA}"
    data = storage.load(path)
    return None if data is None else checkpoints.decode_topic_id(f"{storage.root}/{path}", data)


def other_topic(found: bytes, wanted: bytes) -> str:
    """What is wrong with a folder that another topic's id is in."""
    names = checkpoints.encode_uuid(found), checkpoints.encode_uuid(wanted)
    return "it names the topic {}, and the topic of this name is {}: the folder is another topic's".format(*names)


def write(storage: Storage, directory: str, topic_id: bytes, *, sync: bool) -> None:
    """Note a topic id. Raises OSError.

    `sync`: wait for the disk. What a power cut leaves of it otherwise, `ensure` knows.
    """
    path = f"{directory}/{checkpoints.PARTITION_METADATA}"
    storage.save(path, checkpoints.encode_topic_id(topic_id), sync=sync)


def ensure(storage: Storage, directory: str, topic_id: bytes, *, was_clean: bool, sync: bool) -> bool:
    """Make sure that the directory of a log that is to be opened holds the topic's id; whether it had to be written.

    `was_clean`: how the data directory was left; `sync`: see `write`. Raises DamagedLog when it cannot be read.
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
        # the first part of it: what a power cut leaves of a file that was new
        _logger.warning("the id of a topic was written again", path=full)
    write(storage, directory, topic_id, sync=sync)
    return True
