"""Builds batches from records that are bytes already: for commits, many times a second, and for compaction."""

from __future__ import annotations

from collections.abc import Sequence

from google_crc32c import value as crc32c

from muster.coordinator.log.records.headers import (
    CONTROL,
    CRC_START,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    pack_before_crc,
    pack_behind_crc,
    pack_header,
    set_crc,
)
from muster.coordinator.log.records.reader import LogRecord
from muster.protocol.wire import UVARINTS, uv

_OUTSIDE = (0, NO_PRODUCER_ID, -1)
_ONE_BYTE = 64
"""A number below this limit is one byte as a zigzag varint."""
_DELTAS = [uv(2 * n) for n in range(_ONE_BYTE)]
_SHORT = len(UVARINTS) // 2
_LEADS = [uv(2 * n) + b"\0\0" for n in range(_SHORT)]
"""The first bytes of a record of each size: length, attributes and timestamp delta."""


def build_packed(
    records: Sequence[bytes], *, timestamp_ms: int, producer: tuple[int, int] | None = None, base_sequence: int = 0
) -> bytearray:
    """Build one batch of one or more `records` with the same timestamp, for `UnifiedLog.append`.

    Each record is given from the length of its key on. `producer`: id and epoch of the producer whose transaction has
    the batch. `base_sequence`: Kafka's group coordinator writes 0, its transaction coordinator -1.
    """
    count = len(records)
    if not count:
        raise ValueError("a batch needs at least one record")
    attributes, producer_id, epoch = _OUTSIDE if producer is None else (TRANSACTIONAL, *producer)
    covered = pack_behind_crc(
        attributes, count - 1, timestamp_ms, timestamp_ms, producer_id, epoch, base_sequence, count
    )
    if count == 1:
        record = records[0]
        covered += _lead(len(record) + 3) + b"\0" + record
    else:
        parts = [covered]
        for number, record in enumerate(records):
            size = len(record) + 3
            if number < _ONE_BYTE and size < _SHORT:
                parts.append(_LEADS[size])
                parts.append(_DELTAS[number])
            else:
                delta = uv(2 * number)
                parts.append(_lead(len(record) + 2 + len(delta)))
                parts.append(delta)
            parts.append(record)
        covered = b"".join(parts)
    batch = bytearray(
        pack_before_crc(0, len(covered) + (CRC_START - LENGTH_OVERHEAD), NO_LEADER_EPOCH, MAGIC, crc32c(covered))
    )
    batch += covered
    return batch


def _lead(size: int) -> bytes:
    return _LEADS[size] if size < _SHORT else uv(2 * size) + b"\0\0"


def _varint(value: int) -> bytes:
    return uv((value << 1) ^ (value >> 63))


def _sized(data: bytes | None) -> bytes:
    return b"\1" if data is None else uv(2 * len(data)) + data


def encode_records(records: Sequence[LogRecord], header: BatchHeader) -> bytes:
    """Return the records of a batch with this header, one after the other, with the attributes 0, as on Kafka."""
    parts: list[bytes] = []
    for record in records:
        body = [
            b"\0",
            _varint(record.timestamp - header.base_timestamp),
            _varint(record.offset - header.base_offset),
            _sized(record.key),
            _sized(record.value),
            uv(2 * len(record.headers)),
        ]
        for name, value in record.headers:
            body += (_sized(name.encode()), _sized(value))
        parts += (uv(2 * sum(map(len, body))), *body)
    return b"".join(parts)


def assemble(header: BatchHeader, records: bytes, record_count: int) -> bytes:
    """Build a batch with this header, and compute its CRC and length. The records are compressed as the header says."""
    size = HEADER_SIZE + len(records)
    buffer = bytearray(size)
    pack_header(
        buffer, 0, *header._replace(length=size - LENGTH_OVERHEAD, crc=0, magic=MAGIC, record_count=record_count)
    )
    buffer[HEADER_SIZE:] = records
    set_crc(buffer, size)
    return bytes(buffer)


def empty(header: BatchHeader) -> bytes:
    """Return an empty batch that keeps its producer's state (Kafka: DefaultRecordBatch.writeEmptyHeader)."""
    kept = header.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    return assemble(header._replace(attributes=kept, base_timestamp=NO_TIMESTAMP), b"", 0)
