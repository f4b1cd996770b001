"""The names of the files of a segment, and those that they have while something is under way: Kafka's."""

from __future__ import annotations

from typing import Final

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
"""The state of producers where a segment begins, or where the log ended when it was closed."""
SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, SNAPSHOT_SUFFIX)
"""What a segment may leave in its directory."""

DELETED_SUFFIX: Final = ".deleted"
"""To be removed."""
TEMPORARY_SUFFIX: Final = ".tmp"
"""Being written."""
CLEANED_SUFFIX: Final = ".cleaned"
"""Being written by a compaction."""
SWAP_SUFFIX: Final = ".swap"
"""Written by a compaction, and whole: it counts, and takes the place of others."""
REPLACES_SUFFIX: Final = ".replaces"
"""Beside a `.log.swap`: up to which offset the segments go that it replaces. Kafka takes the end of its last batch, but
what stood behind that may be what a tombstone in one of them had removed."""
ASIDE_SUFFIX: Final = ".aside"
"""Of a file that was taken out of a log, and is kept."""
_DIGITS: Final = 20


def segment_name(base_offset: int) -> str:
    """The name of a segment's files without their suffix: the base offset in 20 digits."""
    return f"{base_offset:020d}"


def base_offset_of(name: str) -> int | None:
    """The base offset in the name of a segment's file; None for any other name."""
    digits, suffix = name[:_DIGITS], name[_DIGITS:]
    return int(digits) if len(digits) == _DIGITS and digits.isdigit() and suffix in SUFFIXES else None


def is_leftover(name: str) -> bool:
    """A file that only a change under way has."""
    return name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX, SWAP_SUFFIX)) or is_replaces_note(name)


def is_replaces_note(name: str) -> bool:
    """The file beside a compacted segment; not a segment whose name was made longer."""
    return len(name) == _DIGITS + len(REPLACES_SUFFIX) and name.endswith(REPLACES_SUFFIX)


def encode_replaces(end_offset: int) -> bytes:
    """The file that ends in REPLACES_SUFFIX."""
    return f"0\n{end_offset}\n".encode()


def decode_replaces(data: bytes) -> int | None:
    """The end offset in such a file; None when it is not one."""
    lines = data.split()
    return int(lines[1]) if len(lines) == 2 and lines[0] == b"0" and lines[1].isdigit() else None
