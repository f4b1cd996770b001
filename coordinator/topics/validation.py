"""What a topic's configs demand of a client's batch beyond its form: keys, timestamps, codec (Kafka's LogValidator).

The form (size, CRC, one batch, counts) is checked by `log.headers.validate_produce` before. Stores nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from muster.coordinator.groups.interface import Now
from muster.coordinator.log import LogConfig, batches
from muster.coordinator.log.headers import BatchHeader
from muster.coordinator.topics.refusal import RecordsRefused
from muster.protocol.errors import ErrorCode

Batch = bytes | bytearray | memoryview

NO_TIMESTAMP = -1
ANY_AGE_MS = 2**63 - 1
"""message.timestamp.before.max.ms when no record is too old."""

_CODECS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def check_batch(batch: Batch, header: BatchHeader, config: LogConfig, now: Now, partition: str) -> None:
    """Check what a client sent for `partition` ("topic-3").

    Raises `RecordsRefused` (INVALID_RECORD: a compacted topic misses keys; INVALID_TIMESTAMP), or a `BatchError`.
    """
    need_keys = "compact" in config.cleanup_policy
    if need_keys:
        _check_keys(batch, partition)
    batches.check_records(batch, header, need_keys=need_keys)
    if config.message_timestamp_type == "CreateTime":
        _check_timestamps(batch, header, config, now.wall_ms)


def _records(batch: Batch) -> Iterator[tuple[int, Any]]:
    for _, records in batches.read(bytes(batch), check_crc=False):
        yield from enumerate(records)


def _check_keys(batch: Batch, partition: str) -> None:
    faults = [
        (index, f"Compacted topic cannot accept message without key in topic partition {partition}.")
        for index, record in _records(batch)
        if record.key is None
    ]
    if faults:
        raise RecordsRefused(
            ErrorCode.INVALID_RECORD,
            f"One or more records have been rejected due to {len(faults)} record errors in total, and only showing the "
            f"first three errors at most: {[message for _, message in faults[:3]]}",
            faults,
        )


def _check_timestamps(batch: Batch, header: BatchHeader, config: LogConfig, wall_ms: int) -> None:
    newest = wall_ms + config.message_timestamp_after_max_ms
    if header.max_timestamp <= newest and config.message_timestamp_before_max_ms == ANY_AGE_MS:
        return
    oldest = max(wall_ms - config.message_timestamp_before_max_ms, 0)
    faults = [
        (
            index,
            f"Timestamp {record.timestamp} of message with offset {index} is out of range. The timestamp should be "
            f"within [{oldest}, {newest}]",
        )
        for index, record in _records(batch)
        if record.timestamp != NO_TIMESTAMP and not oldest <= record.timestamp <= newest
    ]
    if faults:
        raise RecordsRefused(
            ErrorCode.INVALID_TIMESTAMP,
            "One or more records have been rejected due to invalid timestamp",
            faults,
        )


def as_stored(batch: Batch, header: BatchHeader, config: LogConfig) -> Batch:
    """The batch in the topic's own compression (compression.type), which as a rule is that of the producer."""
    codec = _CODECS.get(config.compression_type, header.compression)
    return batch if codec == header.compression else batches.recompress(bytes(batch), codec)
