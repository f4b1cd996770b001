"""Building and reading record batches v2, with their records. aiokafka's compiled reader and builder do the records
and the codecs (`aiokafka_records`), what it cannot say (leader epoch, base offset, log-append time, control batches) is
set here.

Importing it takes some 20 ms, so it is loaded before the server is ready, never at the first commit.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol, cast

import cramjam

from muster.coordinator.log.errors import (
    BatchError,
    CorruptBatch,
    InvalidRecords,
    MoreThanAllowed,
    UnsupportedCompression,
)
from muster.coordinator.log.records.aiokafka_records import (
    CorruptRecordException,
    DefaultRecordBatch,
    DefaultRecordBatchBuilder,
    UnsupportedCodecError,
    lz4_encode,
    snappy_encode,
    zstd_encode,
)
from muster.coordinator.log.records.compression import Allowed, unpack
from muster.coordinator.log.records.headers import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    NO_LEADER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    check_crc,
    iterate,
    read_header,
    set_crc,
    set_log_append_time,
    stamp,
)
from muster.coordinator.log.records.old_format import as_batch
from muster.coordinator.log.records.scanning import assemble, parts_of, views_of

Headers = list[tuple[str, bytes | None]]
Pair = tuple[bytes | None, bytes | None]
"""Key and value; a value of None is a tombstone."""
WithHeaders = tuple[bytes | None, bytes | None, Headers]

NO_COMPRESSION, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = {"uncompressed": NO_COMPRESSION, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
"""Names as in `compression.type`."""
CONTROL_ABORT = 0
CONTROL_COMMIT = 1

UNCOUNTED_BYTES: Final = 128 * 1024
"""In so few bytes there is no room for headers that would take long: 64,000 are read in 4 ms."""
_LEAST_RECORD, _LEAST_HEADER = 7, 2
"""Bytes that a record and a header take at least."""
LARGE_RECORD_BYTES: Final = 1024 * 1024
"""A larger record is not copied to be looked at."""

_MAGIC = 2
_UNLIMITED = 1 << 30
_CONTROL_KEY = struct.Struct(">hh")
_END_TXN_MARKER = struct.Struct(">hi")
_ATTRIBUTES = struct.Struct(">h")
_UNREADABLE = (
    CorruptRecordException,
    cramjam.DecompressionError,
    gzip.BadGzipFile,
    EOFError,
    zlib.error,
    ValueError,
    IndexError,
    struct.error,
    OverflowError,
    MemoryError,
)
"""What aiokafka's reader and the codecs raise for bytes that are no records."""


class Record(Protocol):
    """One record, as aiokafka's reader yields it."""

    @property
    def offset(self) -> int:
        """Absolute."""

    @property
    def timestamp(self) -> int:
        """In ms; that of the append when the batch says so."""

    @property
    def key(self) -> bytes | None:
        """The key."""

    @property
    def value(self) -> bytes | None:
        """The value; None is a tombstone."""

    @property
    def headers(self) -> Headers:
        """Pairs of name and value, in order."""


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
    """One batch of `records`, at least one, all with the same timestamp; ready for `Log.append`."""
    if not records:
        raise ValueError("a batch needs at least one record")
    builder = DefaultRecordBatchBuilder(
        _MAGIC, compression, int(transactional), producer_id, producer_epoch, base_sequence, _UNLIMITED
    )
    append = builder.append
    for delta, record in enumerate(records):
        append(delta, timestamp_ms, record[0], record[1], record[2] if len(record) == 3 else [])
    return _finish(builder.build(), base_offset, leader_epoch, timestamp_ms if log_append_time else None)


def _finish(buffer: bytearray, base_offset: int, leader_epoch: int, append_time_ms: int | None) -> bytearray:
    stamp(buffer, 0, base_offset, len(buffer) - LENGTH_OVERHEAD, leader_epoch)
    if append_time_ms is not None:
        set_log_append_time(buffer, 0, append_time_ms)
    return buffer


def build_control(
    kind: int,
    *,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int = 0,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """The marker that ends a transaction: `kind` is CONTROL_ABORT or CONTROL_COMMIT (KIP-98; EndTxnMarker v0)."""
    record = (_CONTROL_KEY.pack(0, kind), _END_TXN_MARKER.pack(0, coordinator_epoch))
    buffer = build(
        [record],
        timestamp_ms=timestamp_ms,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
    )
    _ATTRIBUTES.pack_into(buffer, CRC_START, TRANSACTIONAL | CONTROL)
    set_crc(buffer, 0, len(buffer))
    return buffer


def control_kind(record: Record) -> int:
    """CONTROL_ABORT, CONTROL_COMMIT or another number of a record in a control batch; -1 when its key is none of a
    marker.
    """
    key = record.key
    return _CONTROL_KEY.unpack_from(key)[1] if key is not None and len(key) >= _CONTROL_KEY.size else -1


def read(data: Buffer, *, check_crc: bool = True) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Header and records of each whole batch in `data`, control batches too; a partial last batch ends it quietly.

    CorruptBatch when a batch does not hold together, UnsupportedCompression for an unknown codec.
    """
    view = memoryview(data)
    for position, header in iterate(data):
        if header.magic != _MAGIC:
            yield _old_records(view[position : position + header.size], header)
            continue
        if check_crc and not _crc_is_right(data, position, header):
            raise CorruptBatch(f"the CRC of the batch at offset {header.base_offset} is wrong")
        yield header, _records(view[position : position + header.length + LENGTH_OVERHEAD], header)


_crc_is_right = check_crc


def _old_records(message: Buffer, header: BatchHeader) -> tuple[BatchHeader, list[Record]]:
    batch = as_batch(message)
    found = read_header(batch)
    header = header._replace(
        base_offset=found.base_offset, last_offset_delta=found.last_offset_delta, record_count=found.record_count
    )
    return header, _records(batch, found)


def _records(batch: Buffer, header: BatchHeader) -> list[Record]:
    if header.compression > ZSTD:
        raise UnsupportedCompression(f"unknown compression type {header.compression} at offset {header.base_offset}")
    try:
        # the reader takes any buffer, its annotation says bytes only
        return cast(list[Record], list(DefaultRecordBatch(cast(bytes, batch))))
    except UnsupportedCodecError as error:
        raise UnsupportedCompression(f"at offset {header.base_offset}: {error}") from error
    except _UNREADABLE as error:
        raise CorruptBatch(
            f"the records of the batch at offset {header.base_offset} cannot be read: {error!r}"
        ) from error


class Plain(NamedTuple):
    """A batch from a client, uncompressed, that is not too large."""

    data: Buffer
    header: BatchHeader
    """As it came: of the compressed batch."""
    has_large: bool
    """There is a record that is not to be copied."""


def plain(data: Buffer, header: BatchHeader, most: Allowed) -> Plain:
    """The one batch in `data`, from a client, uncompressed, for the functions below.

    Raises MoreThanAllowed; and InvalidRecords where the log would say CorruptBatch: a client asks again for ever when
    it hears that what it sent arrived damaged, and with a CRC that is right it did not.
    """
    try:
        found = unpack(data, header, most.unpacked_bytes)
    except CorruptBatch as error:
        raise InvalidRecords(str(error)) from error
    parts, largest = header.record_count, 0
    if parts <= most.parts and not _is_surely_little(len(found), parts, most):
        parts, largest = parts_of(found, parts, most.parts)
    if parts > most.parts:
        raise MoreThanAllowed(
            f"the batch has {header.record_count} records with {parts - header.record_count} headers or more, it may "
            f"have at most {most.parts} of both together"
        )
    return Plain(found, header, largest > LARGE_RECORD_BYTES)


def _is_surely_little(size: int, records: int, most: Allowed) -> bool:
    """Whether so many bytes have no room for too many headers or a large record: then nobody need count."""
    if size <= UNCOUNTED_BYTES:
        return True
    room = size - HEADER_SIZE - records * _LEAST_RECORD
    return size <= LARGE_RECORD_BYTES and records + room // _LEAST_HEADER <= most.parts


def _read(batch: Plain) -> Iterable[Record]:
    if batch.has_large:
        # the reader below copies each record, in one go: 64 MB take 60 ms, for which nobody else could run
        return cast(Iterable[Record], views_of(batch.data, batch.header))
    # it takes any buffer, its annotation says bytes only
    return cast(Iterable[Record], DefaultRecordBatch(cast(bytes, batch.data)))


def greatest_timestamp(batch: Plain) -> int:
    """The greatest timestamp of the records (ms; -1: none has one), all of which pass what Kafka's LogValidator checks
    of every record: they can be read, are as many as the header promises, and numbered one by one. A producer's own
    word on that timestamp is not taken, as by Kafka. Raises InvalidRecords.
    """
    header = batch.header
    greatest, expected = NO_TIMESTAMP, header.base_offset
    try:
        for record in _read(batch):
            if record.offset != expected:
                raise _misnumbered(record.offset, expected)
            expected += 1
            if record.timestamp > greatest:
                greatest = record.timestamp
    except BatchError:
        raise
    except _UNREADABLE as error:
        raise _cannot_be_read(header, error) from error
    _check_count(header, expected)
    return greatest


def checked_records(batch: Plain) -> Iterator[Record]:
    """The same records one by one as they pass, for topics that demand something of each. Raises the same."""
    header = batch.header
    expected = header.base_offset
    try:
        for record in _read(batch):
            if record.offset != expected:
                raise _misnumbered(record.offset, expected)
            expected += 1
            yield record
    except BatchError:
        raise
    except _UNREADABLE as error:
        raise _cannot_be_read(header, error) from error
    _check_count(header, expected)


def each(data: Buffer, header: BatchHeader) -> Iterator[Record]:
    """The records of the one batch in `data`, one by one: of a million that were asked for a time, the first may do.

    CorruptBatch when it does not hold together, UnsupportedCompression for an unknown codec.
    """
    if header.magic != _MAGIC:
        for _, records in read(data):
            yield from records
        return
    if not check_crc(data, 0, header):
        raise CorruptBatch(f"the CRC of the batch at offset {header.base_offset} is wrong")
    found = unpack(data, header, _UNLIMITED)
    is_large = len(found) > LARGE_RECORD_BYTES and parts_of(found, header.record_count, _UNLIMITED)[1]
    try:
        yield from _read(Plain(found, header, is_large > LARGE_RECORD_BYTES))
    except BatchError:
        raise
    except _UNREADABLE as error:
        raise CorruptBatch(
            f"the records of the batch at offset {header.base_offset} cannot be read: {error!r}"
        ) from error


def _misnumbered(offset: int, expected: int) -> InvalidRecords:
    return InvalidRecords(f"a record has offset {offset} in its batch where {expected} was expected")


def _cannot_be_read(header: BatchHeader, error: Exception) -> InvalidRecords:
    return InvalidRecords(f"the records of the batch at offset {header.base_offset} cannot be read: {error!r}")


def _check_count(header: BatchHeader, expected: int) -> None:
    if expected != header.base_offset + header.record_count:
        raise InvalidRecords(f"the batch holds {expected - header.base_offset} records and says {header.record_count}")


def recompress(batch: Plain, codec: int) -> bytes:
    """The batch, which was checked before, with its records under another codec (Kafka's number) and
    all else as it was (topics whose `compression.type` is not "producer").
    """
    header, records = batch.header, memoryview(batch.data)[HEADER_SIZE:]
    attributes = header.attributes & ~COMPRESSION_MASK | codec
    return assemble(header._replace(attributes=attributes), compress(records, codec), header.record_count)


_GZIP_HEADER = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
"""As Java writes it: no time, no name, no word on the system."""
_GZIP_TRAILER = struct.Struct("<II")


def _gzip(records: Buffer) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    trailer = _GZIP_TRAILER.pack(zlib.crc32(records), len(records) & 0xFFFF_FFFF)
    return b"".join((_GZIP_HEADER, packer.compress(records), packer.flush(), trailer))


_COMPRESS: tuple[Callable[[Any], bytes], ...] = (
    bytes,
    _gzip,
    snappy_encode,
    lambda records: lz4_encode(bytes(records)),  # it takes nothing else
    zstd_encode,
)


def compress(records: Buffer, codec: int) -> bytes:
    """The records of a batch, one after the other, as this codec (Kafka's number) stores them."""
    return _COMPRESS[codec](records)
