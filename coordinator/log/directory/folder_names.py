"""Names that partitions' folders have beside their own: on their way out, or set aside; Kafka's (UnifiedLog)."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from muster.coordinator.log.checkpoints import Partition

DELETE_SUFFIX: Final = "-delete"
"""It was deleted; its files go when there is time."""
STRAY_SUFFIX: Final = "-stray"
"""It belongs to no topic that there is; it is left alone."""
MOST_BYTES: Final = 255
"""Of a name in a file system."""
_OTHER_NAME = re.compile(
    r"(?P<topic>.+)-(?P<index>\d{1,10})\.(?P<uuid>[0-9a-f]{32})(?P<suffix>-delete|-stray)", re.ASCII
)


class OtherName(NamedTuple):
    """What such a name says."""

    partition: Partition
    """The topic's name is cut when it was too long."""
    suffix: str
    uuid: bytes
    """Of a deleted topic's folder: the topic's id; its files may be gone in part, and with them what says so."""


def other_name(partition: Partition, uuid: bytes, suffix: str) -> str:
    """A name of its own for the folder of a partition. `uuid`: 16 bytes that no other folder of it has."""
    topic, index = partition
    rest = f"-{index}.{uuid.hex()}{suffix}"
    return topic[: MOST_BYTES - len(rest)] + rest


def read_other_name(name: str) -> OtherName | None:
    """None for any other name."""
    found = _OTHER_NAME.fullmatch(name)
    return (
        None
        if found is None
        else OtherName((found["topic"], int(found["index"])), found["suffix"], bytes.fromhex(found["uuid"]))
    )
