"""Messages of magic 0 and 1, as brokers before 0.11 wrote them into their logs, made with aiokafka's builder."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import cramjam
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import strategies as st

GOLDEN = Path(__file__).parents[1] / "golden" / "old-formats"
SEGMENT = GOLDEN / "old-0" / "00000000000000000000.log"
GZIP, SNAPPY, LZ4 = 1, 2, 3
_LOG_APPEND_TIME = 0x08


class Row(NamedTuple):
    """One record. A record of magic 0 has the timestamp -1."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def messages(magic: int, rows: Sequence[Row], codec: int = 0, append_time_ms: int | None = None) -> bytes:
    """The rows as plain messages, or within one compressed message. `append_time_ms` is the timestamp that a broker
    set.
    """
    if not codec:
        return b"".join(_finished(_built(magic, [row]), row.offset, append_time_ms) for row in rows)
    last = rows[-1].offset
    if magic == 0:
        if codec == LZ4:
            return wrapped(0, last, LZ4, _broken_lz4(_built(0, rows)))
        return _finished(_built(0, rows, codec), last)
    inside = [row._replace(offset=row.offset - rows[0].offset) for row in rows]
    greatest = max(row.timestamp for row in rows)
    return _finished(_built(1, inside, codec), last, append_time_ms, timestamp=greatest)


def stamped(rows: Sequence[Row], append_time_ms: int | None) -> list[Row]:
    """The rows that a reader of `messages` gets."""
    return [row if append_time_ms is None else row._replace(timestamp=append_time_ms) for row in rows]


def wrapped(magic: int, offset: int, codec: int, packed: bytes | None, timestamp: int = -1) -> bytes:
    """A compressed message with any value."""
    body = struct.pack(">bb", magic, codec) + (struct.pack(">q", timestamp) if magic else b"") + struct.pack(">i", -1)
    body += struct.pack(">i", -1 if packed is None else len(packed)) + (packed or b"")
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def _built(magic: int, rows: Sequence[Row], codec: int = 0) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 24)
    for row in rows:
        builder.append(row.offset, row.timestamp if magic else None, row.key, row.value)
    return bytes(builder.build())


def _finished(data: bytes, offset: int, append_time_ms: int | None = None, timestamp: int | None = None) -> bytes:
    """The message with the fields that a broker sets in the outermost message."""
    out = bytearray(data)
    struct.pack_into(">q", out, 0, offset)
    if append_time_ms is not None:
        out[17] |= _LOG_APPEND_TIME
        timestamp = append_time_ms
    if timestamp is not None:
        struct.pack_into(">q", out, 18, timestamp)
    struct.pack_into(">I", out, 12, zlib.crc32(out[16:]))
    return bytes(out)


def _broken_lz4(data: bytes) -> bytes:
    """A frame whose header has the checksum that Kafka's producers gave it (KAFKA-3160), which others refuse."""
    frame = bytearray(bytes(cramjam.lz4.compress(data)))
    frame[14 if frame[4] & 0x08 else 6] ^= 0x5A
    return bytes(frame)


def rows_of(magic: int, base_offset: int, count: int) -> list[Row]:
    """Some rows, with every third key and value null, and gaps as compaction leaves them."""
    return [
        Row(
            base_offset + number + number // 4,
            1_450_000_000_000 + number * 7 if magic else -1,
            None if number % 3 == 1 else b"key-%d" % (number % 5),
            None if number % 3 == 2 else b"value %d " % number + b"x" * number,
        )
        for number in range(count)
    ]


_bytes_or_none = st.none() | st.binary(max_size=40)


@st.composite
def sets(draw: st.DrawFn, base_offset: int = 0) -> tuple[bytes, list[Row]]:
    """Part of a log in an old format, in one piece, and the rows that a reader gets."""
    out, expected, offset = b"", [], base_offset
    for _ in range(draw(st.integers(1, 5))):
        magic = draw(st.integers(0, 1))
        rows = []
        for _ in range(draw(st.integers(1, 6))):
            offset += draw(st.integers(0, 3))
            timestamp = draw(st.integers(-1, 2**41)) if magic else -1
            rows.append(Row(offset, timestamp, draw(_bytes_or_none), draw(_bytes_or_none)))
            offset += 1
        append_time_ms = draw(st.none() | st.integers(0, 2**41)) if magic else None
        out += messages(magic, rows, draw(st.sampled_from((0, GZIP, SNAPPY, LZ4))), append_time_ms)
        expected += stamped(rows, append_time_ms)
    return out, expected
