"""Builds and reads record batches v2, with their records. Reads messages of old formats (magic 0 and 1) as batches.

aiokafka's compiled builder and reader process the records. This module sets the fields that the builder cannot set:
leader epoch, base offset, log-append time, control batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple, cast

from muster.coordinator.log.errors import CorruptBatch, InvalidRecords, MoreThanAllowed, UnsupportedCompression
from muster.coordinator.log.records.aiokafka_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from muster.coordinator.log.records.building import assemble
from muster.coordinator.log.records.compression import (
    NO_COMPRESSION,
    UNPACKED_LIMIT,
    ZSTD,
    Allowed,
    compress,
    unpack,
    unpack_set,
)
from muster.coordinator.log.records.headers import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    demand_crc,
    iterate,
    read_header,
    set_crc,
    set_log_append_time,
    stamp,
)
from muster.coordinator.log.records.reader import Headers, LogRecord, Reading, count_parts, views_of
from muster.protocol import message_sets
from muster.protocol.message_sets import MalformedMessageSet

Pair = tuple[bytes | None, bytes | None]
"""Key and value; a value of None is a tombstone."""
WithHeaders = tuple[bytes | None, bytes | None, Headers]

CONTROL_ABORT = 0
CONTROL_COMMIT = 1

UNCOUNTED_BYTES: Final = 128 * 1024
"""A batch of up to this many bytes has at most 64,000 headers, which are read in 4 ms."""
_LEAST_RECORD, _LEAST_HEADER = 7, 2
LARGE_RECORD_BYTES: Final = 1024 * 1024
"""A record of more bytes is not copied when it is read."""

_UNLIMITED = 1 << 30
_CONTROL_KEY = Struct(">hh")


def build(
    records: Sequence[Pair | WithHeaders],
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    compression: int = NO_COMPRESSION,
    log_append_time: bool = False,
) -> bytearray:
    """Build one batch of one or more `records` with the same timestamp, for `UnifiedLog.append`."""
    if not records:
        raise ValueError("a batch needs at least one record")
    builder = DefaultRecordBatchBuilder(
        MAGIC, compression, int(transactional), producer_id, producer_epoch, base_sequence, _UNLIMITED
    )
    append = builder.append
    for delta, record in enumerate(records):
        append(delta, timestamp_ms, record[0], record[1], record[2] if len(record) == 3 else [])
    buffer: bytearray = builder.build()
    stamp(buffer, 0, base_offset, len(buffer) - LENGTH_OVERHEAD, leader_epoch)
    if log_append_time:
        set_log_append_time(buffer, timestamp_ms)
    return buffer


def control_kind(record: LogRecord) -> int:
    """Return CONTROL_ABORT, CONTROL_COMMIT or another number; -1 when the key is not that of a marker."""
    key = record.key
    return _CONTROL_KEY.unpack_from(key)[1] if key is not None and len(key) >= _CONTROL_KEY.size else -1


def read(data: Buffer, *, check_crc: bool = True) -> Iterator[tuple[BatchHeader, list[LogRecord]]]:
    """Yield header and records of each whole batch in `data`. Raises CorruptBatch or UnsupportedCompression."""
    view = memoryview(data)
    for position, header in iterate(data):
        batch = view[position : position + header.size]
        if header.magic != MAGIC:
            yield _old_records(batch, header)
            continue
        if check_crc:
            demand_crc(batch, header)
        yield header, _records(batch, header)


def _old_records(message: Buffer, header: BatchHeader) -> tuple[BatchHeader, list[LogRecord]]:
    batch = as_batch(message)
    found = read_header(batch)
    header = header._replace(
        base_offset=found.base_offset, last_offset_delta=found.last_offset_delta, record_count=found.record_count
    )
    return header, _records(batch, found)


def _records(batch: Buffer, header: BatchHeader) -> list[LogRecord]:
    if header.compression > ZSTD:
        raise UnsupportedCompression(f"unknown compression type {header.compression} at offset {header.base_offset}")
    with Reading(CorruptBatch, header):
        # the reader takes any buffer, but its annotation says bytes
        return cast(list[LogRecord], list(DefaultRecordBatch(cast(Any, batch))))


def each(data: Buffer, header: BatchHeader) -> Iterator[LogRecord]:
    """Yield the records of the one batch in `data`. Raises CorruptBatch or UnsupportedCompression."""
    if header.magic != MAGIC:
        yield from _old_records(data, header)[1]
        return
    demand_crc(data, header)
    found = unpack(data, header, _UNLIMITED)
    has_large = (
        len(found) > LARGE_RECORD_BYTES and count_parts(found, header.record_count, _UNLIMITED)[1] > LARGE_RECORD_BYTES
    )
    with Reading(CorruptBatch, header):
        yield from _read(Plain(found, header, has_large))


class Plain(NamedTuple):
    """A batch from a client, uncompressed, within the limits."""

    data: Buffer
    header: BatchHeader
    has_large: bool


def plain(data: Buffer, header: BatchHeader, limits: Allowed) -> Plain:
    """Return the one batch in `data`, from a client, uncompressed.

    Raises MoreThanAllowed. Raises InvalidRecords where a batch of the log would raise CorruptBatch. After
    CORRUPT_MESSAGE a client would send the batch, whose CRC is right, for ever.
    """
    if (
        len(data) <= UNCOUNTED_BYTES
        and not header.attributes & COMPRESSION_MASK
        and header.record_count <= limits.parts
    ):
        return Plain(data, header, False)
    try:
        found = unpack(data, header, limits.unpacked_bytes)
    except CorruptBatch as error:
        raise InvalidRecords(str(error)) from error
    parts, largest = header.record_count, 0
    if parts <= limits.parts and not _is_surely_small(len(found), parts, limits):
        parts, largest = count_parts(found, parts, limits.parts)
    if parts > limits.parts:
        raise MoreThanAllowed(
            f"the batch has {header.record_count} records with {parts - header.record_count} headers or more, it may "
            f"have at most {limits.parts} of both together"
        )
    return Plain(found, header, largest > LARGE_RECORD_BYTES)


def _is_surely_small(size: int, records: int, limits: Allowed) -> bool:
    """Whether a batch of `size` bytes has no room for too many headers or a large record."""
    if size <= UNCOUNTED_BYTES:
        return True
    room = size - HEADER_SIZE - records * _LEAST_RECORD
    return size <= LARGE_RECORD_BYTES and records + room // _LEAST_HEADER <= limits.parts


def _read(batch: Plain) -> Iterable[LogRecord]:
    if batch.has_large:
        # the reader below copies each record at once: 64 MB take 60 ms and block the event loop
        return cast(Iterable[LogRecord], views_of(batch.data, batch.header))
    # aiokafka's reader takes any buffer, but its annotation says bytes
    return cast(Iterable[LogRecord], DefaultRecordBatch(cast(Any, batch.data)))


def greatest_timestamp(batch: Plain) -> int:
    """Return the greatest timestamp of all checked records in ms; -1 when no record has one. Raises InvalidRecords."""
    greatest, expected = NO_TIMESTAMP, batch.header.base_offset
    with Reading(InvalidRecords, batch.header):
        for record in _read(batch):  # this loop repeats `checked_records`, whose use would take 15 % more time
            if record.offset != expected:
                raise _misnumbered(record.offset, expected)
            expected += 1
            if record.timestamp > greatest:
                greatest = record.timestamp
    _check_count(batch.header, expected)
    return greatest


def checked_records(batch: Plain) -> Iterator[LogRecord]:
    """Yield the records, checked as Kafka's LogValidator checks every record. Raises InvalidRecords."""
    expected = batch.header.base_offset
    with Reading(InvalidRecords, batch.header):
        for record in _read(batch):
            if record.offset != expected:
                raise _misnumbered(record.offset, expected)
            expected += 1
            yield record
    _check_count(batch.header, expected)


def _misnumbered(offset: int, expected: int) -> InvalidRecords:
    return InvalidRecords(f"a record has offset {offset} in its batch where {expected} was expected")


def _check_count(header: BatchHeader, expected: int) -> None:
    if expected != header.base_offset + header.record_count:
        raise InvalidRecords(f"the batch holds {expected - header.base_offset} records and says {header.record_count}")


def recompress(batch: Plain, codec: int) -> bytes:
    """Return the checked batch with its records under another codec (Kafka's number): for `compression.type`."""
    header, records = batch.header, memoryview(batch.data)[HEADER_SIZE:]
    attributes = header.attributes & ~COMPRESSION_MASK | codec
    return assemble(header._replace(attributes=attributes), compress(records, codec), header.record_count)


# -- old formats


def runs(messages: Buffer) -> list[tuple[int, int]]:
    """Return begin and end of the parts of old messages that make one batch each. Raises CorruptBatch."""
    try:
        return list(message_sets.runs(messages))
    except MalformedMessageSet as error:
        raise CorruptBatch(str(error)) from error


def as_batch(run: Buffer) -> bytes:
    """Return one of the `runs` as an uncompressed batch v2, with the same offsets and timestamps.

    Raises CorruptBatch, UnsupportedCompression, or BatchTooLarge beyond `UNPACKED_LIMIT`.
    """
    try:
        batch = message_sets.as_batch(run, lambda codec, packed: unpack_set(codec, packed, UNPACKED_LIMIT))
    except MalformedMessageSet as error:
        raise CorruptBatch(str(error)) from error
    set_crc(batch, len(batch))
    return bytes(batch)
