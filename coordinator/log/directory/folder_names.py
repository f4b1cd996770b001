"""The other names of partitions' folders, for folders to remove and for strays; Kafka's names (UnifiedLog)."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from muster.coordinator.log.checkpoints import Partition

DELETE_SUFFIX: Final = "-delete"
"""The partition was deleted; a thread removes its files later."""
STRAY_SUFFIX: Final = "-stray"
"""The folder belongs to no existing topic; it is left alone."""
MOST_BYTES: Final = 255
"""The limit of file systems for a name."""
_OTHER_NAME = re.compile(
    r"(?P<topic>.+)-(?P<index>\d{1,10})\.(?P<uuid>[0-9a-f]{32})(?P<suffix>-delete|-stray)", re.ASCII
)


class OtherName(NamedTuple):
    """The parts of such a name."""

    partition: Partition
    """The topic and index. A name that was too long has only the beginning of the topic."""
    suffix: str
    uuid: bytes
    """In a deleted topic's folder this is the topic's id, because the file with the id may be removed already."""


def other_name(partition: Partition, uuid: bytes, suffix: str) -> str:
    """Return a new name for the folder of a partition. `uuid`: 16 bytes that no other folder of it has."""
    topic, index = partition
    rest = f"-{index}.{uuid.hex()}{suffix}"
    return topic[: MOST_BYTES - len(rest)] + rest


def read_other_name(name: str) -> OtherName | None:
    """Return the parts of such a name; None for any other name."""
    found = _OTHER_NAME.fullmatch(name)
    return (
        None
        if found is None
        else OtherName((found["topic"], int(found["index"])), found["suffix"], bytes.fromhex(found["uuid"]))
    )
