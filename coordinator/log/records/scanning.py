"""Reads the records of an uncompressed batch in place. Only this module knows the layout of a record.

A record (KIP-98) has these fields:

* varint length of the bytes after it, attributes int8, varint timestamp delta (ms), varint offset delta;
* varint key length (-1: none), key, varint value length (-1: tombstone), value, headers.

Varints are zigzag: n is stored as 2n, or as -2n - 1 when it is negative.

Each function reads only the fields that its caller needs. `rows_of` reads all for compaction, and `views_of` reads a
client's records. `pairs_of` reads keys and values for replay, `scan_keys` keys for compaction, and `parts_of` only
counts. Varints are read inline where a call for each would cost more than 5 % of the function. The tests check that all
functions agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple

from muster.coordinator.log.errors import CorruptBatch
from muster.coordinator.log.records.headers import HEADER_SIZE, BatchHeader, Buffer

Pair = tuple[bytes | None, bytes | None]
"""Key and value; a value of None is a tombstone."""
_SHIFTS_FROM_0 = tuple(range(0, 64, 7))
_SHIFTS = _SHIFTS_FROM_0[1:]


def varint(data: Buffer, at: int) -> tuple[int, int]:
    """Return a zigzag varint and the position after it. Raises ValueError when it is too long."""
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


def raw_varint(data: Buffer, at: int) -> tuple[int, int]:
    """Return a varint without zigzag decoding, and the position after it. Raises ValueError when it is too long."""
    value = 0
    for shift in _SHIFTS_FROM_0:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a varint of more than ten bytes")


class Row(NamedTuple):
    """One record of a batch."""

    offset_delta: int
    timestamp_delta: int
    attributes: int
    key: bytes | None
    is_tombstone: bool
    raw: bytes
    """All bytes, from the record's length on."""
    tail: bytes
    """The bytes from the length of the key on: they do not depend on the batch."""


def rows_of(batch: bytes, header: BatchHeader) -> list[Row]:
    """Return the records of a batch. Raises CorruptBatch when their number or lengths are wrong."""
    found: list[Row] = []
    position, end = HEADER_SIZE, len(batch)
    try:
        for _ in range(header.record_count):
            start = position
            size, body = varint(batch, position)
            position = body + size
            if size < 0 or position > end:
                raise CorruptBatch(f"a record of {size} bytes in the batch at offset {header.base_offset}")
            timestamp_delta, at = varint(batch, body + 1)
            offset_delta, tail = varint(batch, at)
            key_size, at = varint(batch, tail)
            key = None
            if key_size >= 0:
                key = batch[at : at + key_size]
                at += key_size
            value_size, at = varint(batch, at)
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
    except CorruptBatch:
        raise
    except (IndexError, ValueError) as error:
        raise CorruptBatch(f"the records of the batch at offset {header.base_offset} end too early") from error
    if position != end:
        raise CorruptBatch(f"{end - position} bytes follow the records of the batch at offset {header.base_offset}")
    return found


def _slice(data: memoryview, at: int) -> tuple[memoryview | None, int]:
    """Return the bytes after their length (None for a negative length), and the position after them."""
    size, at = varint(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def parts_of(data: Buffer, count: int, most: int) -> tuple[int, int]:
    """Return how many records and headers a batch of `count` records has, and the size of its largest record.

    It stops soon after `most`. It does not read the headers, so their claimed number costs no time. When a record is
    not valid, it counts the records before.
    """
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
                if parts > most:
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
    """Yield the records of a batch without copying bytes: for large records.

    Raises ValueError or IndexError for records that are not valid. Attributes above 127 are not valid either:
    aiokafka's reader takes them for a varint of two bytes.
    """
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


def pairs_of(data: bytes, at: int, count: int) -> list[Pair]:
    """Return key and value of `count` records from the byte `at` on: for replay, which must be fast.

    The CRC was checked before. Raises CorruptBatch when the records are not valid all the same.
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
                size, at = raw_varint(data, at)
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
                length, here = raw_varint(data, here)
            key = None
            if not length & 1:
                key = data[here : here + (length >> 1)]
                here += length >> 1
            length = data[here]
            if length < 128:
                here += 1
            else:
                length, here = raw_varint(data, here)
            found.append((key, None if length & 1 else data[here : here + (length >> 1)]))
            at += size >> 1
    except (IndexError, ValueError) as error:
        raise CorruptBatch("the records of a batch end too early") from error
    return found


def key_of_single(data: bytes, position: int) -> tuple[int, int] | None:
    """Return begin and end of the key of the first record in the batch at `position`.

    The record must have the usual shape: offset delta 0, the base timestamp, below 8 KB, with a key. Otherwise the
    result is None, and the caller reads the record in full.
    """
    at = position + (HEADER_SIZE + 1 if data[position + HEADER_SIZE] < 128 else HEADER_SIZE + 2)
    size = data[at + 3]
    if data[at + 1] or data[at + 2] or size & 1 or data[at - 1] >= 128:
        return None
    if size < 128:
        return at + 4, at + 4 + (size >> 1)
    more = data[at + 4]
    return None if more >= 128 else (at + 5, at + 5 + ((size & 127 | more << 7) >> 1))


ODD, PLAIN, HAS_TOMBSTONES = range(3)
"""The results of `scan_keys`."""
unpack_row: Final = Struct(">BBxHB").unpack_from
"""Unpacks the first bytes of a usual record: 64 to 8,191 bytes, small deltas, a key below 64 bytes.

* The record's size (two bytes), and attributes.
* Timestamp delta and offset delta: one byte each, read as one number.
* The length of the key (one byte).
"""
_ONE_BYTE_DELTAS: Final = 64
"""Up to so many records in a row, without gaps, have an offset delta of one byte each."""
KEY_AT = HEADER_SIZE + 6
"""The position of such a record's key, in a batch of one record."""


def scan_keys(data: bytes, at: int, count: int, base_offset: int, offsets: dict[bytes, int]) -> int:
    """Note key -> offset of `count` records from the byte `at` on. Returns PLAIN or HAS_TOMBSTONES.

    All records must have keys and be of the usual size. Otherwise it returns ODD, with some of them noted.
    """
    if count > _ONE_BYTE_DELTAS:
        return _scan_any_keys(data, at, count, base_offset, offsets)
    shape, twice_delta, place = PLAIN, 0, at
    for offset in range(base_offset, base_offset + count):
        size, more, deltas, length = unpack_row(data, place)
        if deltas != twice_delta or size < 128 or more >= 128 or length & 129:
            return _scan_any_keys(data, at, count, base_offset, offsets)
        twice_delta += 2
        key = place + 6
        after = key + (length >> 1)
        offsets[data[key:after]] = offset
        if data[after] == 1:
            shape = HAS_TOMBSTONES
        place += (size + (more << 7) - 124) >> 1
    return shape


def _scan_any_keys(data: bytes, at: int, count: int, base_offset: int, offsets: dict[bytes, int]) -> int:
    """`scan_keys` for records of any shape."""
    shape = PLAIN
    with suppress(IndexError, ValueError):
        for _ in range(count):
            size = data[at]
            if size < 128:
                at += 1
            elif data[at + 1] < 128:
                size = size & 127 | data[at + 1] << 7
                at += 2
            else:
                size, at = raw_varint(data, at)
            key = at + 1
            while data[key] >= 128:  # the timestamp delta
                key += 1
            key += 1
            delta = data[key]
            if delta < 128:
                key += 1
            else:
                delta, key = raw_varint(data, key)
            length = data[key]
            if length < 128:
                key += 1
            elif data[key + 1] < 128:
                length = length & 127 | data[key + 1] << 7
                key += 2
            else:
                length, key = raw_varint(data, key)
            if length & 1:
                return ODD
            after = key + (length >> 1)
            offsets[data[key:after]] = base_offset + (delta >> 1)
            if data[after] == 1:
                shape = HAS_TOMBSTONES
            at += size >> 1
        return shape
    return ODD
