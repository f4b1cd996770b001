"""Raw rows for the tests: written by the codec, or damaged."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from muster.pipeline.schema import DECODED, RAW
from muster.protocol.message import Message
from muster.protocol.messages.group_records.legacy_offset_commit import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.records import OFFSETS

Pair = tuple[bytes | None, bytes | None]


def raw_batch(pairs: list[Pair], **columns: Any) -> pa.RecordBatch:
    """Rows of RAW with these keys and values, at offsets from 100 on of partition 7."""
    rows = [
        {
            "topic": "__consumer_offsets",
            "partition": 7,
            "offset": 100 + i,
            "timestamp_ms": 1_000 + i,
            "key": key,
            "value": value,
        }
        for i, (key, value) in enumerate(pairs)
    ]
    for name, values in columns.items():
        for row, value in zip(rows, values, strict=True):
            row[name] = value
    return pa.RecordBatch.from_pylist(rows, RAW)


def commit(version: int = 4, group: str = "g", topic: str = "t", partition: int = 0, **value: Any) -> Pair:
    """Key and value of an offset commit."""
    key = OFFSETS.encode_key(OffsetCommitKey(group, topic, partition))
    return key, OFFSETS.encode_value(OffsetCommitValue(**value), version)


def legacy_commit(group: str = "g", topic: str = "t", partition: int = 0, **value: Any) -> Pair:
    """Key and value of an offset commit as Kafka 0.8.2 wrote it."""
    key = OFFSETS.encode_key(LegacyOffsetCommitKey(group, topic, partition))
    return key, OFFSETS.encode_value(LegacyOffsetCommitValue(**value), 0)


def record(key: Message, value: Message | None, version: int = 0) -> Pair:
    """Key and value of any record."""
    return OFFSETS.encode_key(key), None if value is None else OFFSETS.encode_value(value, version)


def in_order(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Decoded rows by partition and offset."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row["log_partition"], row["log_offset"]))


def filled(row: dict[str, Any]) -> dict[str, Any]:
    """A row of `decode_record` with all columns; missing columns are null."""
    return dict.fromkeys(DECODED.names) | row
