"""Message sets: the log format of Kafka before 0.11 (magic 0 and 1).

Message sets are converted to record batches v2 in memory, so that all readers of batches can read them. They are never
written.

The fields of a message:

* offset int64, size int32 (of the bytes after it), CRC-32 uint32 (over all bytes after it), magic int8;
* attributes int8, timestamp int64 (ms; magic 1 only);
* key length int32 (-1: none), key, value length int32 (-1: none), value.

The value of a compressed message is a set of uncompressed messages. The offset of the compressed message is that of the
last message in it. With magic 0, the messages in it have offsets of the log. With magic 1, only the distances between
their offsets count (KIP-31).

The caller passes a function that decompresses (`Unpack`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from muster.protocol.wire import uv

Buffer = bytes | bytearray | memoryview
Unpack = Callable[[int, memoryview], Buffer]
"""Decompresses: takes Kafka's number of a codec and the compressed bytes. Its errors are not caught."""

LENGTH_OVERHEAD: Final = 12
"""The number of bytes of a message that its size field does not count: the offset and the size itself."""
MAGIC_POSITION: Final = 16
MIN_SIZES: Final[tuple[int, int]] = (26, 34)
"""The smallest possible size of a whole message, by magic."""

_CODEC: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_LZ4: Final = 3
_CRC_START: Final = 16
_KEY_AT: Final = (18, 26)
"""The position of the key's length within a message, by magic."""
_NO_TIMESTAMP: Final = -1
_RUN_BYTES: Final = 16 * 1024
"""Neighbouring plain messages become batches of about this size."""
_NULL: Final = b"\1"
"""The length -1 as encoded in a record batch v2."""
_MAX_DELTA: Final = (1 << 31) - 1
"""The largest distance of an offset from the base offset of its batch."""

_head = Struct(">qiIbb").unpack_from
_long = Struct(">q").unpack_from
_int = Struct(">i").unpack_from
_BATCH_HEADER: Final = Struct(">qiibIhiqqqhii")
_BATCH_LENGTH_OVERHEAD: Final = 12


class MalformedMessageSet(ValueError):
    """Bytes are no message, or a compressed message has no messages in it. The text says which."""


class Head(NamedTuple):
    """The fields in front of a message's key."""

    offset: int
    size: int
    """The bytes of the whole message, including its offset and size."""
    crc: int
    magic: int
    attributes: int
    timestamp: int
    """The timestamp in ms; -1 for magic 0, which has no timestamp."""

    @property
    def codec(self) -> int:
        """Kafka's number of the codec; 0 for a plain message."""
        return self.attributes & _CODEC

    @property
    def is_log_append_time(self) -> bool:
        """Whether the broker has set the timestamp."""
        return self.attributes & _LOG_APPEND_TIME != 0


def head_of(data: Buffer, at: int) -> Head | None:
    """Return the head of the message at `at`; None when the bytes are too few. The magic must be 0 or 1."""
    left = len(data) - at
    if left <= MAGIC_POSITION or left < MIN_SIZES[data[at + MAGIC_POSITION]]:
        return None
    offset, length, crc, magic, attributes = _head(data, at)
    if magic == 0:
        return Head(offset, length + LENGTH_OVERHEAD, crc, 0, attributes & _CODEC, _NO_TIMESTAMP)
    timestamp = max(_long(data, at + 18)[0], _NO_TIMESTAMP)
    return Head(offset, length + LENGTH_OVERHEAD, crc, 1, attributes & (_CODEC | _LOG_APPEND_TIME), timestamp)


def is_crc_right(data: Buffer, at: int, size: int, crc: int) -> bool:
    """Whether `data` has the whole message of `size` bytes at `at`, and `crc` is its CRC."""
    return at + size <= len(data) and crc32(memoryview(data)[at + _CRC_START : at + size]) == crc


def may_be_message(data: Buffer, at: int, size: int) -> bool:
    """Whether a message of `size` bytes at `at` has room for its key. The bytes may be no message at all.

    `data` must have at least `MIN_SIZES` bytes from `at` on.
    """
    magic = data[at + MAGIC_POSITION]
    key_size: int = _int(data, at + _KEY_AT[magic])[0]
    return -1 <= key_size <= size - MIN_SIZES[magic]


# ---- as record batches v2


def runs(data: Buffer) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each run of messages that becomes one record batch. `data` must be whole messages.

    A run is one compressed message, or neighbouring plain messages of one kind.
    """
    start = at = 0
    first_offset = last_offset = -1
    first_kind: tuple[int, int, int] | None = None
    while at < len(data):
        offset, end, _, magic, attributes = _message(data, at)
        is_appended = magic and attributes & _LOG_APPEND_TIME
        kind = (magic, attributes, _long(data, at + 18)[0] if is_appended else _NO_TIMESTAMP)
        if at > start and (
            kind != first_kind
            or attributes & _CODEC
            or offset <= last_offset
            or offset - first_offset > _MAX_DELTA
            or end - start > _RUN_BYTES
        ):
            yield start, at
            start = at
        if at == start:
            first_offset, first_kind = offset, kind
        last_offset, at = offset, end
    if at > start:
        yield start, at


def _message(data: Buffer, at: int) -> tuple[int, int, int, int, int]:
    """Return offset, end, CRC, magic and attributes of the message at `at`. Raises MalformedMessageSet if it is not
    whole.
    """
    left = len(data) - at
    if left >= MIN_SIZES[0]:
        offset, length, crc, magic, attributes = _head(data, at)
        if magic in (0, 1) and MIN_SIZES[magic] <= length + LENGTH_OVERHEAD <= left:
            return offset, at + length + LENGTH_OVERHEAD, crc, magic, attributes
    raise MalformedMessageSet(f"{left} bytes are no message")


def as_batch(data: Buffer, unpack: Unpack) -> bytearray:
    """Return one of the `runs` as a record batch v2, not compressed, with the same offsets and timestamps.

    The CRC of the batch is 0. An empty compressed message becomes a batch without records. The CRC of each message is
    checked. Raises MalformedMessageSet, and what `unpack` raises.
    """
    at, last_offset, view = 0, -1, memoryview(data)
    while at < len(data):
        last_offset, end, crc, _, _ = _message(data, at)
        if crc32(view[at + _CRC_START : end]) != crc:
            raise MalformedMessageSet(f"the CRC of the message at offset {last_offset} is wrong")
        at = end
    first = head_of(data, 0)
    if first is None:
        raise MalformedMessageSet(f"{len(data)} bytes are no message")
    if not first.codec:
        return _batch(first, data, 0, first.offset, last_offset)
    if first.size != len(data):
        raise MalformedMessageSet(f"a message follows the compressed one at offset {first.offset}")
    inside = _inside(first, data, unpack)
    offsets = _ends(inside, first.offset)
    if offsets is None:
        return _batch(first, b"", 0, first.offset, first.offset)
    moved = first.offset - offsets[1] if first.magic else 0
    base_offset, last_offset = offsets[0] + moved, max(first.offset, offsets[1] + moved)
    if not 0 <= base_offset <= last_offset <= base_offset + _MAX_DELTA:
        raise MalformedMessageSet(f"the message at offset {first.offset} holds messages from offset {base_offset} on")
    return _batch(first, inside, moved, base_offset, last_offset)


def _inside(head: Head, data: Buffer, unpack: Unpack) -> Buffer:
    start, stop = _value_of(data, 0, head.size, head.magic, head.offset)
    if stop < start:
        raise MalformedMessageSet(f"the compressed message at offset {head.offset} has no value")
    packed = memoryview(data)[start:stop]
    if head.codec == _LZ4 and head.magic == 0:
        packed = memoryview(_with_right_checksum(bytes(packed)))
    return unpack(head.codec, packed)


def _value_of(data: Buffer, at: int, end: int, magic: int, offset: int) -> tuple[int, int]:
    """Return begin and end of a whole message's value. For a message without a value, the end is before the begin."""
    start: int = at + _KEY_AT[magic] + 8
    size: int = _int(data, start - 8)[0]
    if size > 0:
        start += size
    if size >= -1 and start <= end:
        size = _int(data, start - 4)[0]
        if size == end - start or (size == -1 and start == end):
            return start, start + size
    raise MalformedMessageSet(f"the message at offset {offset} has a length that does not fit its size")


def _ends(inside: Buffer, outer: int) -> tuple[int, int] | None:
    """Return the first and the last offset in a decompressed set, unchanged; None when the set is empty."""
    first: int | None = None
    offset = at = 0
    while at < len(inside):
        if len(inside) - at <= MAGIC_POSITION or inside[at + MAGIC_POSITION] > 1:
            raise MalformedMessageSet(f"the compressed message at offset {outer} contains bytes that are no message")
        try:
            offset, at, _, _, attributes = _message(inside, at)
        except MalformedMessageSet as error:
            what = f"the compressed message at offset {outer} contains an incomplete message"
            raise MalformedMessageSet(what) from error
        if attributes & _CODEC:
            raise MalformedMessageSet(f"the compressed message at offset {outer} holds a compressed message")
        if first is None:
            first = offset
    return None if first is None else (first, offset)


def _batch(outer: Head, data: Buffer, moved: int, base_offset: int, last_offset: int) -> bytearray:
    """Return the plain messages in `data`, which were checked before, as one batch. `moved` is added to each offset."""
    out = bytearray(_BATCH_HEADER.size)
    moved -= base_offset
    appended_ms = outer.timestamp if outer.is_log_append_time else None
    count, at, base_timestamp, greatest = 0, 0, outer.timestamp, _NO_TIMESTAMP
    while at < len(data):
        offset, length, _, magic, _ = _head(data, at)
        end = at + length + LENGTH_OVERHEAD
        if appended_ms is not None:
            timestamp = appended_ms
        else:
            timestamp = max(_long(data, at + 18)[0], _NO_TIMESTAMP) if magic else _NO_TIMESTAMP
        if not count:
            base_timestamp = timestamp
        if timestamp > greatest:
            greatest = timestamp
        value, stop = _value_of(data, at, end, magic, offset)
        key = at + _KEY_AT[magic] + 4
        has_key = _int(data, key - 4)[0] >= 0
        delta, when = offset + moved, timestamp - base_timestamp
        body = b"".join(
            (
                b"\0",
                uv(when << 1 if when >= 0 else ~when << 1 | 1),
                uv(delta << 1 if delta >= 0 else ~delta << 1 | 1),
                uv(value - 4 - key << 1) if has_key else _NULL,
                data[key : value - 4],
                uv(stop - value << 1) if stop >= value else _NULL,
                data[value:stop],
                b"\0",
            )
        )
        out += uv(len(body) << 1)
        out += body
        count += 1
        at = end
    _BATCH_HEADER.pack_into(
        out, 0, base_offset, len(out) - _BATCH_LENGTH_OVERHEAD, -1, 2, 0, outer.attributes & _LOG_APPEND_TIME,
        last_offset - base_offset, base_timestamp, greatest if count else outer.timestamp, -1, -1, -1, count,
    )  # fmt: skip
    return out


# ---- LZ4 of magic 0

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_CONTENT_SIZE: Final = 0x08
_PRIMES: Final = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_MASK: Final = 0xFFFFFFFF


def _with_right_checksum(frame: bytes) -> bytes:
    """Return an LZ4 frame of magic 0 with the right checksum of its header.

    Old clients computed the checksum over too many bytes (KAFKA-3160), and every reader of magic 0 must accept that.
    """
    at = 14 if len(frame) > 4 and frame[4] & _CONTENT_SIZE else 6
    if frame[:4] != _LZ4_MAGIC or len(frame) <= at:
        return frame
    return b"".join((frame[:at], bytes((_short_xxh32(frame[4:at]) >> 8 & 0xFF,)), frame[at + 1 :]))


def _short_xxh32(data: bytes) -> int:
    """The hash XXH32, with seed 0, of less than 16 bytes."""
    one, two, three, four, five = _PRIMES
    found, at = five + len(data), 0
    while len(data) - at >= 4:
        found = _turned(found + int.from_bytes(data[at : at + 4], "little") * three, 17) * four
        at += 4
    for byte in data[at:]:
        found = _turned(found + byte * five, 11) * one
    found &= _MASK
    found = (found ^ found >> 15) * two & _MASK
    found = (found ^ found >> 13) * three & _MASK
    return found ^ found >> 16


def _turned(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> (32 - bits)) & _MASK
