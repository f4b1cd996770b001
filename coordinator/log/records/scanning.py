"""The records inside one uncompressed batch as they lie there: where each begins, its key, whether it is a tombstone.
Nothing is decoded that compaction does not ask for, and batches are put together again from what is kept.

A record (KIP-98): varint length of what follows, attributes int8, varint timestamp delta (ms), varint offset delta,
varint key length (-1: none), key, varint value length (-1: tombstone), value, headers. Varints are zigzag.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from google_crc32c import value as crc32c

from muster.coordinator.log.errors import CorruptBatch
from muster.coordinator.log.records.headers import (
    CONTROL,
    CRC_START,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
)

DELETE_HORIZON = 0x40
"""Attribute: the base timestamp is the time (ms) from which tombstones and markers of the batch may go (KAFKA-8522)."""

_HEADER = struct.Struct(">qiibIhiqqqhii")


class Row(NamedTuple):
    """One record of a batch."""

    offset_delta: int
    timestamp_delta: int
    attributes: int
    key: bytes | None
    is_tombstone: bool
    raw: bytes
    """All of it, from its length on."""
    tail: bytes
    """From the length of its key on: what does not depend on the batch."""


def rows_of(batch: bytes, header: BatchHeader) -> list[Row]:
    """The records of an uncompressed batch. CorruptBatch when they are not as many, or not as long, as they say."""
    found: list[Row] = []
    position, end = HEADER_SIZE, len(batch)
    try:
        for _ in range(header.record_count):
            start = position
            size, position = _varint(batch, position)
            body = position
            position += size
            if size < 0 or position > end:
                raise CorruptBatch(f"a record of {size} bytes in the batch at offset {header.base_offset}")
            timestamp_delta, at = _varint(batch, body + 1)
            offset_delta, at = _varint(batch, at)
            tail = at
            key_size, at = _varint(batch, at)
            key = None
            if key_size >= 0:
                key = batch[at : at + key_size]
                at += key_size
            value_size, at = _varint(batch, at)
            if at + max(value_size, 0) > position:
                raise CorruptBatch(f"a record of the batch at offset {header.base_offset} is longer than it says")
            found.append(
                Row(
                    offset_delta,
                    timestamp_delta,
                    batch[body],
                    key,
                    value_size < 0,
                    batch[start:position],
                    batch[tail:position],
                )
            )
    except IndexError as error:
        raise CorruptBatch(f"the records of the batch at offset {header.base_offset} end too early") from error
    if position != end:
        raise CorruptBatch(f"{end - position} bytes follow the records of the batch at offset {header.base_offset}")
    return found


def parts_of(data: Buffer, count: int, most: int) -> tuple[int, int]:
    """How many records and headers there are in the `count` records of an uncompressed batch, and how many bytes the
    largest record has. Soon after `most` it does not count on. Headers are not looked at, so it does not matter how
    many a record says it has. When the records do not hold together, as many as come before that place.
    """
    parts, largest, at = count, 0, HEADER_SIZE
    try:
        for _ in range(count):
            size = data[at]
            if size < 128 or size & 1 or data[at + 1] >= 128:
                size, at = _varint(data, at)
            else:
                # as most are; a call for each number would cost more than all that is done with it
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
            length, here = _varint(data, here + 1)
            if length > 0:
                here += length
            length, here = _varint(data, here)
            if length > 0:
                here += length
            if here >= end:
                break
            if data[here]:
                headers, _ = _varint(data, here)
                parts += max(headers, 0)
                if parts > most:
                    break
            at = end
    except (IndexError, CorruptBatch):
        return parts, largest
    return parts, largest


class View(NamedTuple):
    """One record of a batch, its key and value where they lie."""

    offset: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None


def views_of(data: Buffer, header: BatchHeader) -> Iterator[View]:
    """The records of an uncompressed batch, without a copy of anything: for large ones. ValueError or IndexError when
    they do not hold together. So are attributes above 127: aiokafka's reader takes them for a varint of two bytes.
    """
    view, at = memoryview(data), HEADER_SIZE
    for _ in range(header.record_count):
        size, at = _long(view, at)
        end = at + size
        if not 0 <= size <= len(view) - at:
            raise ValueError(f"a record of {size} bytes with {len(view) - at} bytes left")
        if view[at] > 127:
            raise ValueError(f"a record with attributes {view[at]}")
        timestamp_delta, here = _long(view, at + 1)
        offset_delta, here = _long(view, here)
        key, here = _slice(view, here)
        value, here = _slice(view, here)
        headers, here = _long(view, here)
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


def _slice(view: memoryview, at: int) -> tuple[memoryview | None, int]:
    """Bytes behind their length, and the position after them."""
    size, at = _long(view, at)
    return (None, at) if size < 0 else (view[at : at + size], at + size)


def _long(view: memoryview, at: int) -> tuple[int, int]:
    try:
        return _varint(view, at)
    except CorruptBatch as error:
        raise ValueError(str(error)) from error


Pair = tuple[bytes | None, bytes | None]


def pairs_of(data: bytes, at: int, count: int) -> list[Pair]:
    """Key and value of `count` uncompressed records from the byte `at` on: for replay, where it counts how long that
    takes. The CRC was checked before; CorruptBatch when the records do not hold together all the same.
    """
    found: list[Pair] = []
    try:
        for _ in range(count):
            size = data[at]
            if size < 128:
                at += 1
            elif data[at + 1] < 128:
                size = size & 127 | data[at + 1] << 7
                at += 2
            else:
                size, at = _unsigned(data, at)
            here = at + 1
            while data[here] >= 128:  # the timestamp delta
                here += 1
            here += 1
            while data[here] >= 128:  # the offset delta
                here += 1
            here += 1
            length = data[here]
            if length < 128:
                here += 1
            else:
                length, here = _unsigned(data, here)
            key = None
            if not length & 1:
                key = data[here : here + (length >> 1)]
                here += length >> 1
            length = data[here]
            if length < 128:
                here += 1
            else:
                length, here = _unsigned(data, here)
            found.append((key, None if length & 1 else data[here : here + (length >> 1)]))
            at += size >> 1
    except IndexError as error:
        raise CorruptBatch("the records of a batch end too early") from error
    return found


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    """A varint of more than one byte, its zigzag left as it is, and the position after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise CorruptBatch("a varint of more than ten bytes")


def _varint(data: Buffer, at: int) -> tuple[int, int]:
    """A zigzag varint and the position after it."""
    byte = data[at]
    at += 1
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at
    value, shift = byte & 127, 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise CorruptBatch("a varint of more than ten bytes")


def _put_varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def payload(rows: Sequence[Row], moved_ms: int = 0) -> bytes:
    """The records one after the other, as they came; `moved_ms`: how much later their batch's base timestamp is now."""
    if moved_ms == 0:
        return b"".join([row.raw for row in rows])
    parts: list[bytes] = []
    for row in rows:
        body = b"".join(
            (
                bytes((row.attributes,)),
                _put_varint(row.timestamp_delta - moved_ms),
                _put_varint(row.offset_delta),
                row.tail,
            )
        )
        parts += (_put_varint(len(body)), body)
    return b"".join(parts)


def assemble(header: BatchHeader, records: bytes, record_count: int) -> bytes:
    """A batch with this header, these records (compressed as the header says) and a CRC and length that are right."""
    size = HEADER_SIZE + len(records)
    buffer = bytearray(size)
    _HEADER.pack_into(
        buffer, 0, *header._replace(length=size - LENGTH_OVERHEAD, crc=0, magic=MAGIC, record_count=record_count)
    )
    buffer[HEADER_SIZE:] = records
    struct.pack_into(">I", buffer, 17, crc32c(bytes(buffer[CRC_START:])))
    return bytes(buffer)


def empty(header: BatchHeader) -> bytes:
    """What is left of a batch whose producer must still be remembered (Kafka: DefaultRecordBatch.writeEmptyHeader)."""
    kept = header.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    return assemble(header._replace(attributes=kept, base_timestamp=NO_TIMESTAMP), b"", 0)
