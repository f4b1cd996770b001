"""Batches of records that are bytes already, built in one pass: what a commit needs, many times a second.

Knows what stands in front of a record in a batch v2 (KIP-98), and nothing inside it. No codec, no headers of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from google_crc32c import value as crc32c

from muster.coordinator.log.records.headers import LENGTH_OVERHEAD, MAGIC, NO_LEADER_EPOCH, NO_PRODUCER_ID
from muster.protocol.wire import UVARINTS, uv

_pack_head = Struct(">qiibI").pack
_pack_covered = Struct(">hiqqqhii").pack
"""What the CRC covers: attributes, last offset delta, base and max timestamp, producer id, producer epoch, base
sequence, record count."""
_HEAD_REST = 21 - LENGTH_OVERHEAD
_ONE_BYTE = 64
"""Below it a number is one byte as a zigzag varint."""
_DELTAS = [uv(2 * n) for n in range(_ONE_BYTE)]
_SHORT = len(UVARINTS) // 2
_LEADS = [uv(2 * n) + b"\0\0" for n in range(_SHORT)]
"""Length, attributes and timestamp delta of a record of so many bytes."""


def build_packed(records: Sequence[bytes], *, timestamp_ms: int) -> bytearray:
    """One batch of `records`, at least one, each from the length of its key on, all with the same timestamp; ready for
    `Log.append`.
    """
    count = len(records)
    if not count:
        raise ValueError("a batch needs at least one record")
    # base sequence 0 beside no producer is what Kafka's coordinator writes
    covered = _pack_covered(0, count - 1, timestamp_ms, timestamp_ms, NO_PRODUCER_ID, -1, 0, count)
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
    batch = bytearray(_pack_head(0, len(covered) + _HEAD_REST, NO_LEADER_EPOCH, MAGIC, crc32c(covered)))
    batch += covered
    return batch


def _lead(size: int) -> bytes:
    return _LEADS[size] if size < _SHORT else uv(2 * size) + b"\0\0"
