"""What a broker checks of the batch that a client sends, from its header alone (Kafka: ProduceRequest.validateRecords,
UnifiedLog.analyzeAndValidateRecords, LogValidator.validateBatch). Records themselves: `batches.check_records`.
"""

from __future__ import annotations

from muster.coordinator.log.errors import (
    BatchTooLarge,
    CorruptBatch,
    InvalidRecords,
    InvalidTimestamp,
    UnsupportedCompression,
)
from muster.coordinator.log.headers import (
    HEADER_SIZE,
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
_INT32_MAX = 2**31 - 1


def validate_produce(data: Buffer, *, max_message_bytes: int, allow_zstd: bool = True) -> BatchHeader:
    """The header of the one batch of a partition in Produce v3+, once it has passed every check that needs no records.

    `max_message_bytes`: the topic's `max.message.bytes`. `allow_zstd`: Produce v7+. Raises a BatchError, whose
    `error_code` is what Kafka answers.
    """
    if len(data) == 0:
        raise InvalidRecords("a partition of a Produce request must have one record batch, it has none")
    header = _one_batch(data)
    if header.compression > ZSTD:
        raise UnsupportedCompression(f"unknown compression type {header.compression}")
    if header.compression == ZSTD and not allow_zstd:
        raise UnsupportedCompression("zstd is allowed from Produce version 7")
    if header.base_offset != 0:
        raise InvalidRecords(f"the base offset of a batch from a client must be 0, it is {header.base_offset}")
    if header.size > max_message_bytes:
        raise BatchTooLarge(f"the batch has {header.size} bytes, the topic takes at most {max_message_bytes}")
    if not check_crc(data, 0, header):
        raise CorruptBatch(f"the batch's CRC is not the one it carries ({header.crc:#010x})")
    _check_fields(header)
    return header


def _one_batch(data: Buffer) -> BatchHeader:
    # the magic byte first: an old message set has its own layout, so nothing else of it would make sense
    if len(data) > _MAGIC_POSITION and data[_MAGIC_POSITION] != MAGIC:
        # as Kafka: bytes that no message set of any magic could be are damage, a real one of an old magic is refused
        if data[_MAGIC_POSITION] > MAGIC or not _LEGACY_OVERHEAD <= int.from_bytes(data[8:12], "big") <= _INT32_MAX:
            raise CorruptBatch("the records are no batch of any version")
        raise InvalidRecords(f"Produce version 3 and later take batches of magic {MAGIC} only, not {data[16]}")
    header = read_header(data)
    if header.length < MIN_LENGTH:
        raise CorruptBatch(f"the batch has length {header.length}, below the minimum {MIN_LENGTH}")
    if header.size > len(data):
        raise CorruptBatch(f"the batch says that it has {header.size} bytes, {len(data)} were sent")
    if header.size < len(data):
        left = len(data) - header.size
        if left < HEADER_SIZE or left < LENGTH_OVERHEAD + int.from_bytes(
            data[header.size + 8 : header.size + 12], "big"
        ):
            raise CorruptBatch(f"{left} bytes follow the batch and are no batch")
        raise InvalidRecords("a partition of a Produce request must have exactly one record batch")
    return header


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
    if header.is_log_append_time:
        raise InvalidTimestamp("a producer must not set the timestamp type LogAppendTime")
