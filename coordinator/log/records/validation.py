"""The checks of a client's batch that need only its header, in Kafka's order.

Some refuse the whole request, some the row before anything is appended, some the batch. `topics.validation` checks the
records.
"""

from __future__ import annotations

from muster.coordinator.log.errors import BatchTooLarge, CorruptBatch, InvalidRecords, UnsupportedCompression
from muster.coordinator.log.records.headers import (
    LENGTH_OVERHEAD,
    MAGIC,
    MIN_LENGTH,
    BatchHeader,
    Buffer,
    check_crc,
    read_header,
)

ZSTD = 4
_MAGIC_POSITION = 16
_LEGACY_OVERHEAD = 14
"""The least size of a message of magic 0."""


def first_batch(data: Buffer) -> BatchHeader | None:
    """Return the header of the first batch in a row of Produce; None without a whole batch v2.

    Kafka checks it before anything else of the request: is it part of a transaction (RequestUtils.flag)?

    Raises CorruptBatch, in Kafka's words, for bytes that no batch could be: the whole request is refused then.
    """
    if _size_of_batch(data, 0) is None or data[_MAGIC_POSITION] != MAGIC:
        return None
    if int.from_bytes(data[8:12], "big") < MIN_LENGTH:
        raise CorruptBatch(f"the batch has a length below the minimum {MIN_LENGTH}")
    return read_header(data)


def only_batch(data: Buffer, header: BatchHeader | None, *, allow_zstd: bool = True) -> BatchHeader:
    """Return the header of the one batch v2 of a row in Produce v3+ (ProduceRequest.validateRecords).

    `header`: from `first_batch`. As on Kafka, bytes after the batch that are less than a batch are ignored:
    `header.size` is what to append. `allow_zstd`: Produce v7+. Raises a BatchError.
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


def check_size(header: BatchHeader, max_message_bytes: int) -> None:
    """Raises BatchTooLarge. As on Kafka it also checks a batch that was compressed again."""
    if header.size > max_message_bytes:
        raise BatchTooLarge(f"the batch has {header.size} bytes, the topic takes at most {max_message_bytes}")


def check_form(data: Buffer, header: BatchHeader, max_message_bytes: int) -> None:
    """Make all checks of a client's batch that need no records. `max_message_bytes`: the topic's `max.message.bytes`.

    Kafka: UnifiedLog.analyzeAndValidateRecords, LogValidator.validateBatch. Raises a BatchError, whose `error_code` is
    Kafka's answer.
    """
    if header.compression > ZSTD:
        raise UnsupportedCompression(f"unknown compression type {header.compression}")
    if header.base_offset != 0:
        raise InvalidRecords(f"the base offset of a batch from a client must be 0, it is {header.base_offset}")
    check_size(header, max_message_bytes)
    if not check_crc(data, 0, header):
        raise CorruptBatch(f"the batch's CRC is not the one it carries ({header.crc:#010x})")
    _check_fields(header)


def _size_of_batch(data: Buffer, position: int) -> int | None:
    """Return the size of the batch at `position`, of any magic; None when the bytes end before the batch does.

    To Kafka such bytes are no batch (ByteBufferLogInputStream.nextBatchSize). Raises CorruptBatch for bytes that no
    batch could be.
    """
    left = len(data) - position
    if left < LENGTH_OVERHEAD:
        return None
    length = int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
    if length < _LEGACY_OVERHEAD:
        raise CorruptBatch(f"Record size {length} is less than the minimum record overhead ({_LEGACY_OVERHEAD})")
    if left <= _MAGIC_POSITION:
        return None
    magic = data[position + _MAGIC_POSITION]
    if magic > MAGIC:
        raise CorruptBatch(f"Invalid magic found in record: {magic if magic < 128 else magic - 256}")
    return length + LENGTH_OVERHEAD if length + LENGTH_OVERHEAD <= left else None


def _check_fields(header: BatchHeader) -> None:
    if header.is_control:
        raise InvalidRecords("clients are not allowed to write control records")
    if header.last_offset_delta < 0:
        raise InvalidRecords(f"the batch has an invalid range of offsets: 0 to {header.last_offset_delta}")
    if header.record_count <= 0:
        raise InvalidRecords(f"the batch says that it has {header.record_count} records")
    if header.record_count != header.last_offset_delta + 1:
        raise InvalidRecords(f"{header.record_count} records do not make the offsets 0 to {header.last_offset_delta}")
    if header.has_producer_id and header.base_sequence < 0:
        raise InvalidRecords(f"sequence {header.base_sequence} from producer id {header.producer_id}")
