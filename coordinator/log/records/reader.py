"""Reads the records of an uncompressed batch, with aiokafka's compiled reader.

A record (KIP-98) has these fields:

* varint length of the bytes after it, attributes int8, varint timestamp delta (ms), varint offset delta;
* varint key length (-1: none), key, varint value length (-1: tombstone), value, headers.

Varints are zigzag: n is stored as 2n, or as -2n - 1 when it is negative.

aiokafka's reader copies keys and values, and reads all headers that a record claims. So `count_parts` counts records
and headers before a client's batch is read. `views_of` reads a batch with a record of megabytes without a copy.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple, Protocol

from muster.coordinator.log.errors import BatchError, CorruptBatch, UnsupportedCompression
from muster.coordinator.log.records.aiokafka_records import (
    CorruptRecordException,
    DefaultRecordBatch,
    UnsupportedCodecError,
    cramjam,
)
from muster.coordinator.log.records.headers import HEADER_SIZE, BatchHeader, Buffer

Headers = list[tuple[str, bytes | None]]
_SHIFTS = tuple(range(7, 64, 7))
UNREADABLE = (
    CorruptRecordException,
    gzip.BadGzipFile,
    EOFError,
    zlib.error,
    ValueError,
    IndexError,
    struct.error,
    OverflowError,
    MemoryError,
)


class LogRecord(Protocol):
    """One record, as aiokafka's reader yields it."""

    offset: int
    timestamp: int
    """The time in ms of the record's creation, or of its append when the batch says so."""
    key: bytes | None
    value: bytes | None
    """The value is None in a tombstone."""
    headers: Headers


class Reading:  # as a generator, this class would take a third of the time of a small batch
    """Raises `kind` in place of the errors of the reader and the codecs."""

    __slots__ = ("_header", "_kind")

    def __init__(self, kind: type[BatchError], header: BatchHeader) -> None:
        self._kind = kind
        self._header = header

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None or isinstance(error, BatchError):
            return
        offset = self._header.base_offset
        if isinstance(error, UnsupportedCodecError):
            raise UnsupportedCompression(f"at offset {offset}: {error}") from error
        if isinstance(error, (*UNREADABLE, cramjam.DecompressionError)):
            raise self._kind(f"the records of the batch at offset {offset} cannot be read: {error!r}") from error


def records_of(batch: bytes, base_offset: int) -> list[LogRecord]:
    """Return the records of one uncompressed batch v2, whose CRC was checked. Raises CorruptBatch."""
    try:
        return list(DefaultRecordBatch(batch))
    except UNREADABLE as error:
        raise CorruptBatch(f"the records of the batch at offset {base_offset} cannot be read: {error!r}") from error


# -- without a copy


def varint(data: Buffer, at: int) -> tuple[int, int]:
    """Return a zigzag varint and the position after it. Raises ValueError when the varint is too long."""
    value = data[at]
    at += 1
    if value < 128:
        return (value >> 1) ^ -(value & 1), at
    value &= 127
    for shift in _SHIFTS:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return (value >> 1) ^ -(value & 1), at
    raise ValueError("a varint of more than ten bytes")


def _slice(data: memoryview, at: int) -> tuple[memoryview | None, int]:
    """Return the bytes after their length (None for a negative length), and the position after them."""
    size, at = varint(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def count_parts(data: Buffer, count: int, max_parts: int) -> tuple[int, int]:
    """Return how many records and headers a batch has, up to `max_parts`, and the size of its largest record."""
    parts, largest, at = count, 0, HEADER_SIZE
    with suppress(IndexError, ValueError):
        for _ in range(count):
            size = data[at]
            if size < 128 or size & 1 or data[at + 1] >= 128:
                size, at = varint(data, at)
            else:
                # the usual case; a call for each number would cost more than all other work on it
                size = (size & 127 | data[at + 1] << 7) >> 1
                at += 2
            if size > largest:
                largest = size
            end = at + size
            here = at + 1
            while data[here] >= 128:  # the timestamp delta
                here += 1
            here += 1
            while data[here] >= 128:  # the offset delta
                here += 1
            length, here = varint(data, here + 1)
            if length > 0:
                here += length
            length, here = varint(data, here)
            if length > 0:
                here += length
            if here >= end:
                break
            if data[here]:
                headers, _ = varint(data, here)
                parts += max(headers, 0)
                if parts > max_parts:
                    break
            at = end
    return parts, largest


class View(NamedTuple):
    """One record of a batch; its key and value are views of the batch's bytes."""

    offset: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None


def views_of(data: Buffer, header: BatchHeader) -> Iterator[View]:
    """Yield the records of a batch without copying bytes. Raises ValueError or IndexError."""
    view, at = memoryview(data), HEADER_SIZE
    for _ in range(header.record_count):
        size, at = varint(view, at)
        end = at + size
        if not 0 <= size <= len(view) - at:
            raise ValueError(f"a record of {size} bytes with {len(view) - at} bytes left")
        if view[at] > 127:
            raise ValueError(f"a record with attributes {view[at]}")
        timestamp_delta, here = varint(view, at + 1)
        offset_delta, here = varint(view, here)
        key, here = _slice(view, here)
        value, here = _slice(view, here)
        headers, here = varint(view, here)
        if headers < 0:
            raise ValueError(f"a record with {headers} headers")
        for _ in range(headers):
            name, here = _slice(view, here)
            if name is None:
                raise ValueError("a header without a name")
            str(name, "utf-8")
            _, here = _slice(view, here)
        if here != end:
            raise ValueError(f"a record says that it has {size} bytes, it has {here - at}")
        timestamp = header.max_timestamp if header.is_log_append_time else header.base_timestamp + timestamp_delta
        yield View(header.base_offset + offset_delta, timestamp, key, value)
        at = end
    if at != len(view):
        raise ValueError(f"{len(view) - at} bytes follow the records")
