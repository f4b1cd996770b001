"""Finds the batch with an offset among bytes of a segment that begin with a batch."""

from __future__ import annotations

from muster.coordinator.log.errors import CorruptBatch
from muster.coordinator.log.records.headers import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    check_shape,
    read_header,
    unpack_bounds,
)
from muster.coordinator.log.segments.index import MAX_RELATIVE_OFFSET
from muster.coordinator.log.storage.interfaces import File


def batch_size(data: bytes, at: int) -> int:
    """Return the size in bytes of the batch that begins at `at`."""
    length: int = unpack_bounds(data, at)[1]
    return length + LENGTH_OVERHEAD


def find_offset(data: bytes, offset: int, file: File, position: int) -> int:
    """Return where the first batch in `data` begins that ends at `offset` or after it.

    Without such a batch, return the negated number of bytes that were searched. `data` begins with a batch, at byte
    `position` of `file`. Raises CorruptBatch.
    """
    at, stop = 0, len(data) - HEADER_SIZE
    while at <= stop:
        base, length, magic, delta = unpack_bounds(data, at)
        if magic != MAGIC:
            return _find_any(data, at, offset, file, position)
        if base + delta >= offset:
            return at
        at += length + LENGTH_OVERHEAD
    if at > MAX_RELATIVE_OFFSET:
        raise CorruptBatch(f"{file.path} has a batch of impossible length behind byte {position}")
    return -at if at else _find_any(data, 0, offset, file, position)


def _find_any(data: bytes, at: int, offset: int, file: File, position: int) -> int:
    """The same search from `at` on, for batches of any format."""
    try:
        while at < len(data):
            header = read_header(data, at)
            check_shape(header, position + at)
            if header.last_offset >= offset:
                return at
            at += header.length + LENGTH_OVERHEAD
    except CorruptBatch as error:
        if at == 0:
            raise CorruptBatch(f"{file.path} has no whole batch at byte {position}") from error
    return -at
