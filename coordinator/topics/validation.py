"""What a topic's configs require of a client's batch: keys, timestamps and codec (Kafka's LogValidator).

Pure: it gets a batch and settings, and returns the batch for the log or refuses it. It may run in any thread.
"""

from __future__ import annotations

from typing import NamedTuple

from muster.coordinator.log import LogConfig, batches, check_form, check_size
from muster.coordinator.log.records.batches import Record
from muster.coordinator.log.records.compression import CODECS, LITTLE, Allowed
from muster.coordinator.log.records.headers import BatchHeader, read_header, set_timestamps
from muster.coordinator.topics.errors import InvalidRecords
from muster.protocol.errors import ErrorCode

Batch = bytes | bytearray | memoryview

NO_TIMESTAMP = -1
ANY_AGE_MS = 2**63 - 1
"""The value of message.timestamp.before.max.ms when no record is too old."""

MOST_FAULTS = 10_000
"""The most refused records that an answer names; Kafka names all."""
_SHOWN = 3
"""The most refused records in the sentence of an answer."""


class Checked(NamedTuple):
    """The batch to store, its header, and how many bytes the client's compressed records unpacked to."""

    batch: Batch
    header: BatchHeader
    unpacked_bytes: int


def is_little(batch: Batch, header: BatchHeader) -> bool:
    """Whether to try with `LITTLE` first. The batch may have more records than its header says."""
    return len(batch) <= LITTLE.unpacked_bytes and header.record_count <= LITTLE.parts


def checked(
    batch: Batch, header: BatchHeader, config: LogConfig, wall_ms: int, partition: str, most: Allowed
) -> Checked:
    """Return what `partition` ("topic-3") stores of a client's batch.

    The batch gets the topic's own codec (compression.type), and the greatest timestamp of its records, whatever the
    header says. The log sets the offsets later. `header` is from `only_batch`.

    Raises a `BatchError` (MoreThanAllowed: more than `most`), or `InvalidRecords`. INVALID_RECORD: keys are missing in
    a compacted topic. INVALID_TIMESTAMP: a timestamp is out of the topic's range.
    """
    if header.size < len(batch):
        # as Kafka: part of another batch behind the first is dropped
        batch = memoryview(batch)[: header.size]
    check_form(batch, header, config.max_message_bytes)
    found = batches.plain(batch, header, most)
    unpacked_bytes = len(found.data) if header.compression else 0
    stamps, claims = config.stamps_append_time, header.is_log_append_time
    each = config.compacts or (claims if stamps else config.message_timestamp_before_max_ms != ANY_AGE_MS)
    if not each:
        greatest = batches.greatest_timestamp(found)
        each = not (stamps or NO_TIMESTAMP < greatest <= wall_ms + config.message_timestamp_after_max_ms)
    if each:
        greatest = _check_each(found, config, wall_ms, partition)
    codec = CODECS.get(config.compression_type, header.compression)
    if codec != header.compression:
        batch = batches.recompress(found, codec)
        header = read_header(batch)
        check_size(header, config.max_message_bytes)
    if not stamps and (claims or greatest != header.max_timestamp):
        batch = bytearray(batch)
        set_timestamps(batch, greatest)
        header = read_header(batch)
    return Checked(batch, header, unpacked_bytes)


def _check_each(batch: batches.Plain, config: LogConfig, wall_ms: int, partition: str) -> int:
    """Return the greatest timestamp when all records are valid. Raises `InvalidRecords`."""
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
        if found <= MOST_FAULTS:
            faults.append((index, fault))
    if wrong_time:
        sentence = "One or more records have been rejected due to invalid timestamp"
        raise InvalidRecords(ErrorCode.INVALID_TIMESTAMP, sentence, faults)
    if faults:
        shown = ", ".join(f"RecordError(batchIndex={at}, message='{fault}')" for at, fault in faults[:_SHOWN])
        raise InvalidRecords(
            ErrorCode.INVALID_RECORD,
            f"One or more records have been rejected due to {found} record errors in total, and only showing the "
            f"first three errors at most: [{shown}]",
            faults,
        )
    return greatest


def _described(record: Record, header: BatchHeader) -> str:
    """A record as Kafka's sentences name it (DefaultRecord.toString)."""
    key, value = (0 if data is None else len(data) for data in (record.key, record.value))
    kind = "PartialDefaultRecord" if header.compression else "DefaultRecord"
    return f"{kind}(offset={record.offset}, timestamp={record.timestamp}, key={key} bytes, value={value} bytes)"
