"""Transaction markers, made record by record. The server packs a marker in one piece, with the same bytes."""

from __future__ import annotations

from struct import Struct

from muster.coordinator.log import batches
from muster.coordinator.log.records.headers import CONTROL, CRC_START, NO_LEADER_EPOCH, TRANSACTIONAL, set_crc

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_ATTRIBUTES = Struct(">h")


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
    buffer = batches.build(
        [(_KEY.pack(0, kind), _VALUE.pack(0, coordinator_epoch))],
        timestamp_ms=timestamp_ms,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
    )
    _ATTRIBUTES.pack_into(buffer, CRC_START, TRANSACTIONAL | CONTROL)
    set_crc(buffer, len(buffer))
    return buffer
