"""What a topic's configs demand of a client's batch beyond its form: keys, timestamps, codec (Kafka's LogValidator).

The form (size, CRC, one batch, counts) is checked by `log.headers.validate_produce` before. Stores nothing.
"""

from __future__ import annotations

from muster.coordinator.groups.interface import Now
from muster.coordinator.log import LogConfig, batches
from muster.coordinator.log.headers import BatchHeader
from muster.coordinator.log.unpack import unpacked_limit
from muster.coordinator.topics.refusal import RecordsRefused
from muster.protocol.errors import ErrorCode

Batch = bytes | bytearray | memoryview

NO_TIMESTAMP = -1
ANY_AGE_MS = 2**63 - 1
"""message.timestamp.before.max.ms when no record is too old."""

_CODECS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


MOST_FAULTS = 10_000
"""An answer names at most so many records that are refused; Kafka names all."""

Fault = tuple[int, str]
"""The index of a record in its batch, and what is wrong with it."""


def check_batch(batch: Batch, header: BatchHeader, config: LogConfig, now: Now, partition: str) -> None:
    """Check what a client sent for `partition` ("topic-3"), record by record, in one pass and without keeping them.

    Raises `RecordsRefused` (INVALID_RECORD: a compacted topic misses keys; INVALID_TIMESTAMP), or a `BatchError`.
    """
    records = batches.checked_records(batch, header, unpacked_limit(config.max_message_bytes))
    need_keys = "compact" in config.cleanup_policy
    oldest, newest = _timestamps(header, config, now.wall_ms)
    if not need_keys and newest is None:
        for _ in records:
            pass
        return
    keyless = 0
    without_key: list[Fault] = []
    out_of_time: list[Fault] = []
    no_key = f"Compacted topic cannot accept message without key in topic partition {partition}."
    for index, record in enumerate(records):
        if need_keys and record.key is None:
            keyless += 1
            if keyless <= MOST_FAULTS:
                without_key.append((index, no_key))
        timestamp = record.timestamp
        in_time = newest is None or timestamp == NO_TIMESTAMP or oldest <= timestamp <= newest
        if newest is not None and not in_time and len(out_of_time) < MOST_FAULTS:
            out_of_time.append((index, _wrong_time(index, timestamp, oldest, newest)))
    if keyless:
        raise RecordsRefused(
            ErrorCode.INVALID_RECORD,
            f"One or more records have been rejected due to {keyless} record errors in total, and only showing the "
            f"first three errors at most: {[message for _, message in without_key[:3]]}",
            without_key,
        )
    if out_of_time:
        raise RecordsRefused(
            ErrorCode.INVALID_TIMESTAMP,
            "One or more records have been rejected due to invalid timestamp",
            out_of_time,
        )


def _timestamps(header: BatchHeader, config: LogConfig, wall_ms: int) -> tuple[int, int | None]:
    """The bounds of the timestamps that the topic takes; no upper one: they need not be looked at."""
    newest = wall_ms + config.message_timestamp_after_max_ms
    any_age = config.message_timestamp_before_max_ms == ANY_AGE_MS
    if config.message_timestamp_type != "CreateTime" or (any_age and header.max_timestamp <= newest):
        return 0, None
    return max(wall_ms - config.message_timestamp_before_max_ms, 0), newest


def _wrong_time(index: int, timestamp: int, oldest: int, newest: int) -> str:
    return (
        f"Timestamp {timestamp} of message with offset {index} is out of range. The timestamp should be within "
        f"[{oldest}, {newest}]"
    )


def as_stored(batch: Batch, header: BatchHeader, config: LogConfig) -> Batch:
    """The batch in the topic's own compression (compression.type), which as a rule is that of the producer."""
    codec = _CODECS.get(config.compression_type, header.compression)
    return batch if codec == header.compression else batches.recompress(bytes(batch), codec)
