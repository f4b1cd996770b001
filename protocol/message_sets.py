"""Message sets: what a log consists of where a Kafka before 0.11 wrote it (magic 0 and 1). Read, and turned into record
batches v2 in memory, so that whoever reads batches reads them too; nothing writes them.

A message: offset int64, size int32 (of what follows it), CRC-32 uint32 (over all that follows it), magic int8,
attributes int8, timestamp int64 (ms; magic 1 only), key length int32 (-1: none), key, value length int32 (-1: none),
value. The value of a compressed message is a set of messages, none of which is compressed; it stands at the offset of
the last of them. Inside, magic 0 has offsets of the log, magic 1 has such that only their distances count (KIP-31).

Whoever calls brings the codecs: `Unpack` takes Kafka's number of a codec and the packed bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

Buffer = bytes | bytearray | memoryview
Unpack = Callable[[int, memoryview], Buffer]
"""Codec and packed bytes -> what was packed. What it raises goes through."""

LENGTH_OVERHEAD: Final = 12
"""Bytes in front of what the size counts."""
MAGIC_POSITION: Final = 16
MIN_SIZES: Final = (26, 34)
"""The least that a whole message takes, by magic."""

_CODEC: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_LZ4: Final = 3
_CRC_START: Final = 16
_KEY_AT: Final = (18, 26)
"""Where the length of the key stands, by magic."""
_NO_TIMESTAMP: Final = -1
_RUN_BYTES: Final = 16 * 1024
"""Plain messages that follow one another make batches of about this size."""
_MAX_DELTA: Final = (1 << 31) - 1

_head = Struct(">qiIbb").unpack_from
_long = Struct(">q").unpack_from
_int = Struct(">i").unpack_from
_BATCH_HEADER: Final = Struct(">qiibIhiqqqhii")
_BATCH_LENGTH_OVERHEAD: Final = 12


class MalformedMessageSet(ValueError):
    """Bytes that are no message, or a compressed message that holds something else than messages; says which."""


class Head(NamedTuple):
    """What stands in front of a message's key."""

    offset: int
    size: int
    """Bytes of the whole message, its offset and size included."""
    crc: int
    magic: int
    attributes: int
    timestamp: int
    """ms; -1: it has none (magic 0)."""

    @property
    def codec(self) -> int:
        """Kafka's number of the codec; 0: the message is plain."""
        return self.attributes & _CODEC

    @property
    def is_log_append_time(self) -> bool:
        """The broker set the timestamp."""
        return self.attributes & _LOG_APPEND_TIME != 0


def head_of(data: Buffer, at: int) -> Head | None:
    """The head of the message at `at`; None when the bytes end before a whole one could. The magic must be 0 or 1."""
    left = len(data) - at
    if left <= MAGIC_POSITION or left < MIN_SIZES[data[at + MAGIC_POSITION]]:
        return None
    offset, length, crc, magic, attributes = _head(data, at)
    if magic == 0:
        return Head(offset, length + LENGTH_OVERHEAD, crc, 0, attributes & _CODEC, _NO_TIMESTAMP)
    timestamp = max(_long(data, at + 18)[0], _NO_TIMESTAMP)
    return Head(offset, length + LENGTH_OVERHEAD, crc, 1, attributes & (_CODEC | _LOG_APPEND_TIME), timestamp)


def is_crc_right(data: Buffer, at: int, head: Head) -> bool:
    """Whether the message is whole in `data` and its CRC is right."""
    end = at + head.size
    return end <= len(data) and crc32(memoryview(data)[at + _CRC_START : end]) == head.crc


def may_be_message(data: Buffer, at: int, size: int) -> bool:
    """Whether the key of a message of `size` bytes at `at` fits into it: for a look at bytes that may be anything.
    There must be `MIN_SIZES` bytes of it.
    """
    magic = data[at + MAGIC_POSITION]
    key_size: int = _int(data, at + _KEY_AT[magic])[0]
    return -1 <= key_size <= size - MIN_SIZES[magic]


def _bounds(data: Buffer, at: int, head: Head) -> tuple[slice | None, slice | None]:
    """Where key and value of a whole message lie. Raises MalformedMessageSet."""
    end = at + head.size
    if head.size >= MIN_SIZES[head.magic] and end <= len(data):
        start = at + _KEY_AT[head.magic] + 4
        size: int = _int(data, start - 4)[0]
        key = slice(start, start + size) if size >= 0 else None
        start += max(size, 0) + 4
        if start <= end and size >= -1:
            size = _int(data, start - 4)[0]
            if size >= -1 and start + max(size, 0) == end:
                return key, slice(start, end) if size >= 0 else None
    raise MalformedMessageSet(f"the message at offset {head.offset} does not hold together")


# ---- as record batches v2


def runs(data: Buffer) -> Iterator[tuple[int, int]]:
    """Where the parts of a set begin and end that make one record batch each: a compressed message, or plain ones of
    one kind that follow one another. `data` must be whole messages.
    """
    start = at = 0
    first = before = None
    while at < len(data):
        head = head_of(data, at)
        if head is None or not MIN_SIZES[head.magic] <= head.size <= len(data) - at:
            raise MalformedMessageSet(f"{len(data) - at} bytes are no message")
        if before is None or first is None:
            first = head
        elif (
            head.codec
            or before.codec
            or head.attributes != first.attributes
            or head.magic != first.magic
            or (head.is_log_append_time and head.timestamp != first.timestamp)
            or head.offset <= before.offset
            or head.offset - first.offset > _MAX_DELTA
            or at + head.size - start > _RUN_BYTES
        ):
            yield start, at
            start, first = at, head
        before = head
        at += head.size
    if at > start:
        yield start, at


def as_batch(data: Buffer, unpack: Unpack) -> bytearray:
    """What is one of the `runs`, as a record batch v2 with the same offsets and timestamps, not compressed, its CRC
    left 0. A compressed message that is empty becomes a batch without records.

    Checks the CRC of each message. Raises MalformedMessageSet, and what `unpack` raises.
    """
    first = head_of(data, 0)
    if first is None:
        raise MalformedMessageSet(f"{len(data)} bytes are no message")
    last, at = first, 0
    while at < len(data):
        head = head_of(data, at)
        if head is None or not is_crc_right(data, at, head):
            raise MalformedMessageSet(f"the CRC of the message at offset {(head or last).offset} is wrong")
        last = head
        at += head.size
    if not first.codec:
        return _batch(first, data, 0, first.offset, last.offset)
    if first.size != len(data):
        raise MalformedMessageSet(f"a message follows the compressed one at offset {first.offset}")
    inside = _inside(first, data, unpack)
    offsets = _ends(inside, first.offset)
    if offsets is None:
        return _batch(first, b"", 0, first.offset, first.offset)
    moved = first.offset - offsets[1] if first.magic else 0
    base_offset, end = offsets[0] + moved, max(first.offset, offsets[1] + moved)
    if not 0 <= base_offset <= end <= base_offset + _MAX_DELTA:
        raise MalformedMessageSet(f"the message at offset {first.offset} holds messages from offset {base_offset} on")
    return _batch(first, inside, moved, base_offset, end)


def _inside(head: Head, data: Buffer, unpack: Unpack) -> Buffer:
    value = _bounds(data, 0, head)[1]
    if value is None:
        raise MalformedMessageSet(f"the compressed message at offset {head.offset} has no value")
    packed = memoryview(data)[value]
    if head.codec == _LZ4 and head.magic == 0:
        packed = memoryview(_with_right_checksum(bytes(packed)))
    return unpack(head.codec, packed)


def _ends(inside: Buffer, offset: int) -> tuple[int, int] | None:
    """The first and the last offset in an unpacked set as they stand there; None: it is empty."""
    ends: tuple[int, int] | None = None
    at = 0
    while at < len(inside):
        if len(inside) - at <= MAGIC_POSITION or inside[at + MAGIC_POSITION] > 1:
            raise MalformedMessageSet(f"the compressed message at offset {offset} holds something else than messages")
        head = head_of(inside, at)
        if head is None or head.codec:
            what = "the beginning of a message" if head is None else "a compressed message"
            raise MalformedMessageSet(f"the compressed message at offset {offset} holds {what}")
        if not MIN_SIZES[head.magic] <= head.size <= len(inside) - at:
            raise MalformedMessageSet(f"the compressed message at offset {offset} holds one that is not whole")
        ends = (head.offset if ends is None else ends[0], head.offset)
        at += head.size
    return ends


def _batch(outer: Head, data: Buffer, moved: int, base_offset: int, last_offset: int) -> bytearray:
    """The plain messages in `data`, their offsets moved by so much, as one batch."""
    out = bytearray(_BATCH_HEADER.size)
    count, at, base_timestamp, greatest = 0, 0, outer.timestamp, _NO_TIMESTAMP
    while at < len(data):
        head = head_of(data, at)
        assert head is not None  # gone through once before
        timestamp = outer.timestamp if outer.is_log_append_time else head.timestamp
        if not count:
            base_timestamp = timestamp
        greatest = max(greatest, timestamp)
        key, value = _bounds(data, at, head)
        body = b"".join(
            (
                b"\0",
                _varint(timestamp - base_timestamp),
                _varint(head.offset + moved - base_offset),
                _field(data, key),
                _field(data, value),
                b"\0",
            )
        )
        out += _varint(len(body))
        out += body
        count += 1
        at += head.size
    _BATCH_HEADER.pack_into(
        out, 0, base_offset, len(out) - _BATCH_LENGTH_OVERHEAD, -1, 2, 0, outer.attributes & _LOG_APPEND_TIME,
        last_offset - base_offset, base_timestamp, greatest if count else outer.timestamp, -1, -1, -1, count,
    )  # fmt: skip
    return out


def _field(data: Buffer, where: slice | None) -> bytes:
    return b"\1" if where is None else _varint(where.stop - where.start) + bytes(data[where])


def _varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    if value < 128:
        return bytes((value,))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


# ---- LZ4 of magic 0

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_CONTENT_SIZE: Final = 0x08
_PRIMES: Final = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_MASK: Final = 0xFFFFFFFF


def _with_right_checksum(frame: bytes) -> bytes:
    """An LZ4 frame of magic 0 with the checksum that its header should have: Kafka took it over too many bytes
    (KAFKA-3160), and whatever reads magic 0 has to let that pass.
    """
    at = 14 if len(frame) > 4 and frame[4] & _CONTENT_SIZE else 6
    if frame[:4] != _LZ4_MAGIC or len(frame) <= at:
        return frame
    return b"".join((frame[:at], bytes((_short_xxh32(frame[4:at]) >> 8 & 0xFF,)), frame[at + 1 :]))


def _short_xxh32(data: bytes) -> int:
    """XXH32 with seed 0 of less than 16 bytes."""
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
