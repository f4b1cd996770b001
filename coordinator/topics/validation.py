"""What is checked of a client's batch (Kafka's ProduceRequest, UnifiedLog and LogValidator).

Three functions make the checks, in Kafka's order. `first_batch` refuses a whole request, and `only_batch` refuses a row
before anything is appended. `checked` refuses a batch: by its header, and by what the configs of its topic require of
its records. The functions are pure, and may run in any thread.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from google_crc32c import value as crc32c

from muster.coordinator.log import (
    BatchError,
    BatchTooLarge,
    CorruptBatch,
    InvalidRecords,
    LogConfig,
    UnsupportedCompression,
    batches,
)
from muster.coordinator.log.records.compression import CODECS, SMALL, ZSTD, Allowed
from muster.coordinator.log.records.headers import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_POSITION,
    MIN_LENGTH,
    NO_PRODUCER_ID,
    BatchHeader,
    Buffer,
    read_header,
    set_timestamps,
    unpack_header,
)
from muster.coordinator.log.records.reader import LogRecord
from muster.coordinator.topics.errors import InvalidRecords as RefusedRecords
from muster.protocol.errors import ErrorCode

Batch = bytes | bytearray | memoryview

NO_TIMESTAMP = -1
ANY_AGE_MS = 2**63 - 1
_LEGACY_OVERHEAD: Final = 14

MAX_FAULTS = 10_000
"""The most refused records that an answer names; Kafka names all."""
_SHOWN = 3


class Checked(NamedTuple):
    """The batch to store, its header, and how many bytes the client's compressed records unpacked to."""

    batch: Batch
    header: BatchHeader
    unpacked_bytes: int


def first_batch(data: Buffer) -> BatchHeader | None:
    """Return the header of the first batch in a row of Produce; None without a whole batch v2.

    Kafka checks this batch first (RequestUtils.flag). Raises CorruptBatch: the whole request is refused then.
    """
    if len(data) >= HEADER_SIZE:
        header = BatchHeader._make(unpack_header(data))
        if header.magic == MAGIC and MIN_LENGTH <= header.length <= len(data) - LENGTH_OVERHEAD:
            return header
    if _size_of_batch(data, 0) is None or data[MAGIC_POSITION] != MAGIC:
        return None
    raise CorruptBatch(f"the batch has a length below the minimum {MIN_LENGTH}")


def only_batch(data: Buffer, header: BatchHeader | None, *, allow_zstd: bool = True) -> BatchHeader:
    """Return the header of the one batch v2 of a row in Produce v3+ (ProduceRequest.validateRecords).

    `header`: the result of `first_batch`. `allow_zstd`: Produce v7+. Raises a BatchError. A part of a batch may follow.
    """
    if header is None:
        raise _no_batch(data)
    if header.compression == ZSTD and not allow_zstd:
        raise UnsupportedCompression("zstd is allowed from Produce version 7")
    if header.size < len(data) and _size_of_batch(data, header.size) is not None:
        raise InvalidRecords("a partition of a Produce request must have exactly one record batch")
    return header


def _no_batch(data: Buffer) -> InvalidRecords:
    if len(data) == 0:
        return InvalidRecords("a partition of a Produce request must have one record batch, it has none")
    if _size_of_batch(data, 0) is None:
        return InvalidRecords("a partition of a Produce request must have one record batch, its bytes end before that")
    return InvalidRecords(f"Produce version 3 and later take batches of magic {MAGIC} only, not {data[16]}")


def _size_of_batch(data: Buffer, position: int) -> int | None:
    """Return the size of the batch at `position`, of any magic; None when the bytes end before the batch does.

    Kafka: ByteBufferLogInputStream.nextBatchSize. Raises CorruptBatch for bytes that no batch could be.
    """
    left = len(data) - position
    if left < LENGTH_OVERHEAD:
        return None
    length = int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
    if length < _LEGACY_OVERHEAD:
        raise CorruptBatch(f"Record size {length} is less than the minimum record overhead ({_LEGACY_OVERHEAD})")
    if left <= MAGIC_POSITION:
        return None
    magic = data[position + MAGIC_POSITION]
    if magic > MAGIC:
        raise CorruptBatch(f"Invalid magic found in record: {magic if magic < 128 else magic - 256}")
    return length + LENGTH_OVERHEAD if length + LENGTH_OVERHEAD <= left else None


def is_small(batch: Batch, header: BatchHeader) -> bool:
    """Whether to try with `SMALL` first. The batch may have more records than its header says."""
    return len(batch) <= SMALL.unpacked_bytes and header.record_count <= SMALL.parts


def checked(
    batch: Batch, header: BatchHeader, config: LogConfig, wall_ms: int, topic: str, partition: int, limits: Allowed
) -> Checked:
    """Return what a partition stores of a client's batch.

    The batch gets the topic's own codec (compression.type), and the greatest timestamp of its records, whatever the
    header says. The log sets the offsets later. `header` is from `only_batch`.

    Raises a `BatchError` (MoreThanAllowed: more than `limits`), or `InvalidRecords` of topics. INVALID_RECORD: keys are
    missing in a compacted topic. INVALID_TIMESTAMP: a timestamp is out of the topic's range. Each error refuses one
    row, also the CorruptBatch of a wrong CRC. Only the CorruptBatch of `first_batch` refuses the request.
    """
    attributes, size = header.attributes, header.length + LENGTH_OVERHEAD
    if size < len(batch):
        # as on Kafka, part of another batch behind the first is dropped
        batch = memoryview(batch)[:size]
    is_right = (
        size <= config.max_message_bytes
        and header.base_offset == 0
        and attributes & COMPRESSION_MASK <= ZSTD
        and not attributes & CONTROL
        and 0 < header.record_count == header.last_offset_delta + 1
        and (header.base_sequence >= 0 or header.producer_id == NO_PRODUCER_ID)
        and crc32c(bytes(batch[CRC_START:])) == header.crc
    )
    if not is_right:
        raise _fault(batch, header, config.max_message_bytes)
    found = batches.plain(batch, header, limits)
    compression = attributes & COMPRESSION_MASK
    unpacked_bytes = len(found.data) if compression else 0
    stamps, claims = config.stamps_append_time, attributes & LOG_APPEND_TIME != 0
    each = config.compacts or (claims if stamps else config.message_timestamp_before_max_ms != ANY_AGE_MS)
    if not each:
        greatest = batches.greatest_timestamp(found)
        each = not (stamps or NO_TIMESTAMP < greatest <= wall_ms + config.message_timestamp_after_max_ms)
    if each:
        greatest = _check_each(found, config, wall_ms, f"{topic}-{partition}")
    codec = CODECS.get(config.compression_type, compression)
    if codec != compression:
        batch = batches.recompress(found, codec)
        header = read_header(batch)
        if header.size > config.max_message_bytes:
            raise _too_large(header, config.max_message_bytes)
    if not stamps and (claims or greatest != header.max_timestamp):
        batch = bytearray(batch)
        set_timestamps(batch, greatest)
        header = read_header(batch)
    return Checked(batch, header, unpacked_bytes)


def _fault(batch: Batch, header: BatchHeader, max_message_bytes: int) -> BatchError:
    """The first fault of a header, in Kafka's order (analyzeAndValidateRecords, LogValidator.validateBatch)."""
    delta, count = header.last_offset_delta, header.record_count
    if header.compression > ZSTD:
        return UnsupportedCompression(f"unknown compression type {header.compression}")
    if header.base_offset != 0:
        return InvalidRecords(f"the base offset of a batch from a client must be 0, it is {header.base_offset}")
    if header.size > max_message_bytes:
        return _too_large(header, max_message_bytes)
    if crc32c(bytes(batch[CRC_START:])) != header.crc:
        return CorruptBatch(f"the batch's CRC is not the one it carries ({header.crc:#010x})")
    if header.is_control:
        return InvalidRecords("clients are not allowed to write control records")
    if delta < 0:
        return InvalidRecords(f"the batch has an invalid range of offsets: 0 to {delta}")
    if count <= 0:
        return InvalidRecords(f"the batch says that it has {count} records")
    if count != delta + 1:
        return InvalidRecords(f"{count} records do not make the offsets 0 to {delta}")
    return InvalidRecords(f"sequence {header.base_sequence} from producer id {header.producer_id}")


def _too_large(header: BatchHeader, max_message_bytes: int) -> BatchTooLarge:
    # as on Kafka, the limit also counts for a batch that was compressed again
    return BatchTooLarge(f"the batch has {header.size} bytes, the topic takes at most {max_message_bytes}")


def _check_each(batch: batches.Plain, config: LogConfig, wall_ms: int, partition: str) -> int:
    """Return the greatest timestamp when all records are valid. Raises `RefusedRecords`."""
    header = batch.header
    oldest = wall_ms - config.message_timestamp_before_max_ms
    newest = wall_ms + config.message_timestamp_after_max_ms
    greatest, found, wrong_time = NO_TIMESTAMP, 0, False
    faults: list[tuple[int, str]] = []
    for index, record in enumerate(batches.checked_records(batch)):
        timestamp = record.timestamp
        greatest = max(greatest, timestamp)
        if config.compacts and record.key is None:
            fault = f"Compacted topic cannot accept message without key in topic partition {partition}"
        elif not config.stamps_append_time and timestamp != NO_TIMESTAMP:
            if oldest <= timestamp <= newest:
                continue
            wrong_time = True
            fault = (
                f"Timestamp {timestamp} of message with offset {index} is out of range. The timestamp should be within "
                f"[{oldest}, {newest}]"
            )
        elif header.is_log_append_time:
            wrong_time = True
            fault = (
                f"Invalid timestamp type in message {_described(record, header)}. Producer should not set timestamp "
                "type to LogAppendTime."
            )
        else:
            continue
        found += 1
        if found <= MAX_FAULTS:
            faults.append((index, fault))
    if wrong_time:
        sentence = "One or more records have been rejected due to invalid timestamp"
        raise RefusedRecords(ErrorCode.INVALID_TIMESTAMP, sentence, faults)
    if faults:
        shown = ", ".join(f"RecordError(batchIndex={at}, message='{fault}')" for at, fault in faults[:_SHOWN])
        raise RefusedRecords(
            ErrorCode.INVALID_RECORD,
            f"One or more records have been rejected due to {found} record errors in total, and only showing the "
            f"first three errors at most: [{shown}]",
            faults,
        )
    return greatest


def _described(record: LogRecord, header: BatchHeader) -> str:
    key, value = (0 if data is None else len(data) for data in (record.key, record.value))
    kind = "PartialDefaultRecord" if header.compression else "DefaultRecord"
    return f"{kind}(offset={record.offset}, timestamp={record.timestamp}, key={key} bytes, value={value} bytes)"
