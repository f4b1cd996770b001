"""The control batch that ends a transaction, byte for byte as Kafka's EndTxnMarker (KIP-98)."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from google_crc32c import value as crc32c

from muster.coordinator.log.records import batches
from muster.coordinator.log.records.batches import CONTROL_ABORT, CONTROL_COMMIT
from muster.coordinator.log.records.headers import (
    CONTROL,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    pack_before_crc,
)

_NO_SEQUENCE = -1
_RECORD = Struct(">BBBBBhhBhiB")
"""Length, attributes, timestamp delta, offset delta, length of the key. Version and type. Length of the value. Version
and coordinator epoch. Number of headers. Lengths are zigzag varints of one byte.
"""
_USUAL = (0x20, 0, 0, 0, 8)
_USUAL_BYTES = bytes(_USUAL)
_VALUE_SIZE = 12
_pack_covered = Struct(">hiqqqhii5shhBhiB").pack
"""Packs all that the CRC covers: the fields of `pack_behind_crc`, then those of `_RECORD` with `_USUAL` as bytes."""
_LENGTH = HEADER_SIZE + _RECORD.size - LENGTH_OVERHEAD
_VALUE = Struct(">hi")


class EndMarker(NamedTuple):
    """The end of a transaction, as its coordinator writes it into a partition."""

    producer_id: int
    producer_epoch: int
    is_committed: bool
    coordinator_epoch: int
    transaction_version: int
    """2: the coordinator has raised the producer's epoch for this marker (KIP-890). 0 and 1: the epoch is unchanged."""


class Marker(NamedTuple):
    """The values in the record of a marker."""

    is_committed: bool
    coordinator_epoch: int


def build_marker(
    producer_id: int, producer_epoch: int, timestamp_ms: int, *, is_committed: bool, coordinator_epoch: int
) -> bytearray:
    """Build a control batch for `UnifiedLog.append`."""
    kind = CONTROL_COMMIT if is_committed else CONTROL_ABORT
    covered = _pack_covered(
        TRANSACTIONAL | CONTROL, 0, timestamp_ms, timestamp_ms, producer_id, producer_epoch, _NO_SEQUENCE, 1,
        _USUAL_BYTES, 0, kind, _VALUE_SIZE, 0, coordinator_epoch, 0,
    )  # fmt: skip
    return bytearray(pack_before_crc(0, _LENGTH, NO_LEADER_EPOCH, MAGIC, crc32c(covered)) + covered)


def read_marker(data: Buffer, header: BatchHeader) -> Marker | None:
    """Read the marker in a control batch. None when the batch is of another kind, or empty. Raises CorruptBatch."""
    if header.record_count == 0:
        return None
    if len(data) == HEADER_SIZE + _RECORD.size:
        *usual, version, kind, value_size, _, epoch, headers = _RECORD.unpack_from(data, HEADER_SIZE)
        if (
            tuple(usual) == _USUAL
            and value_size == _VALUE_SIZE
            and not (version or headers)
            and kind in (CONTROL_ABORT, CONTROL_COMMIT)
        ):
            return Marker(kind == CONTROL_COMMIT, epoch)
    for _, records in batches.read(data):
        for record in records:
            kind = batches.control_kind(record)
            if kind in (CONTROL_ABORT, CONTROL_COMMIT):
                value = record.value or b""
                epoch = _VALUE.unpack_from(value)[1] if len(value) >= _VALUE.size else -1
                return Marker(kind == CONTROL_COMMIT, epoch)
    return None
