"""Kafka's names of the files and folders in a data directory, also the names that they have during a change."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from muster.coordinator.log.checkpoints import Partition

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
"""Ending of a file with the state of producers: where a segment begins, or where the closed log ends."""
SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, SNAPSHOT_SUFFIX)
"""The files that a segment may have in its directory."""

DELETED_SUFFIX: Final = ".deleted"
TEMPORARY_SUFFIX: Final = ".tmp"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
"""Ending of a file that a compaction has written completely. The file is valid, and replaces other segments."""
REPLACES_SUFFIX: Final = ".replaces"
"""Ending of a note beside a `.log.swap`: the offset up to which the swap replaces segments. Kafka has no such note."""
ASIDE_SUFFIX: Final = ".aside"
_DIGITS: Final = 20


def segment_name(base_offset: int) -> str:
    """Return the name of a segment's files without their suffix: the base offset in 20 digits."""
    return f"{base_offset:020d}"


def base_offset_of(name: str) -> int | None:
    """Return the base offset in the name of a segment's file; None for any other name."""
    digits, suffix = name[:_DIGITS], name[_DIGITS:]
    return int(digits) if len(digits) == _DIGITS and digits.isdigit() and suffix in SUFFIXES else None


def is_leftover(name: str) -> bool:
    """Whether a file of this name exists only during a change."""
    return name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX, SWAP_SUFFIX)) or is_replaces_note(name)


def is_replaces_note(name: str) -> bool:
    """Whether a file of this name is the note beside a compacted segment."""
    return len(name) == _DIGITS + len(REPLACES_SUFFIX) and name.endswith(REPLACES_SUFFIX)


def encode_replaces(end_offset: int) -> bytes:
    """Encode the note in a file with the ending REPLACES_SUFFIX."""
    return f"0\n{end_offset}\n".encode()


def decode_replaces(data: bytes) -> int | None:
    """Return the end offset in the note beside a compacted segment; None when `data` is no such note."""
    lines = data.split()
    return int(lines[1]) if len(lines) == 2 and lines[0] == b"0" and lines[1].isdigit() else None


DELETE_SUFFIX: Final = "-delete"
"""Ending of a deleted partition's folder. A thread removes the folder's files later."""
STRAY_SUFFIX: Final = "-stray"
"""Ending of a folder that belongs to no existing topic, and is left alone."""
MAX_BYTES: Final = 255
"""The longest name of a folder: file systems have this limit."""
_OTHER_NAME = re.compile(
    r"(?P<topic>.+)-(?P<index>\d{1,10})\.(?P<uuid>[0-9a-f]{32})(?P<suffix>-delete|-stray)", re.ASCII
)


class OtherName(NamedTuple):
    """The parts of the name that a deleted or stray folder has."""

    partition: Partition
    """The topic and index. A name that was too long has only the beginning of the topic."""
    suffix: str
    uuid: bytes
    """The id of a deleted topic, because the file with the id may be removed already."""


def other_name(partition: Partition, uuid: bytes, suffix: str) -> str:
    """Return a new name for the folder of a partition. `uuid`: 16 bytes that no other folder of the partition has."""
    topic, index = partition
    rest = f"-{index}.{uuid.hex()}{suffix}"
    return topic[: MAX_BYTES - len(rest)] + rest


def read_other_name(name: str) -> OtherName | None:
    """Return the parts of the name of a deleted or stray folder; None for any other name."""
    found = _OTHER_NAME.fullmatch(name)
    return (
        None
        if found is None
        else OtherName((found["topic"], int(found["index"])), found["suffix"], bytes.fromhex(found["uuid"]))
    )
