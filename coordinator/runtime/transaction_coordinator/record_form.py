"""Packs the record of a transactional id in one step. `state_machine.record_bytes.pack` does the same field by field.

Each transaction has four of these records. The gain, with that of the other fast paths, is in docs/dev/decisions.md. A
property test holds both equal. Records that differ from what Kafka 4.3 usually writes are left to `pack`.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Any, Final

from muster.coordinator.state_machine.interface import Record
from muster.coordinator.state_machine.record_bytes import pack
from muster.protocol.records import TRANSACTION_STATE
from muster.protocol.wire import UVARINTS, put_many, uv

_SHORT: Final = len(UVARINTS) // 2 - 1
_VERSION: Final = 1
_KEY: Final = Struct(">hH").pack
"""Type of the record, length of the id."""
_HEAD: Final = Struct(">hqhib").pack
"""Version; producer id and epoch, timeout, status."""
_TIMES: Final = Struct(">qq").pack
"""The time of the last update, and of the start."""
_TAGS: Final = Struct(">3sq2sh").pack
_TWO_TAGS: Final = b"\x02\x00\x08"
"""The number of tagged fields; then number and size of the first: the previous producer id."""
_SECOND_TAG: Final = b"\x02\x02"
"""Number and size of the second tagged field: the client's transaction version."""


def packed(record: Record) -> bytes:
    """A record of `__transaction_state` as its bytes in a batch. Raises UnrepresentableField."""
    value: Any = record.value
    if (
        value is None
        or record.value_version != _VERSION
        or value.previous_producer_id == -1
        or value.next_producer_id != -1
        or value.next_producer_epoch != -1
        or not value.client_transaction_version
    ):
        return pack(TRANSACTION_STATE, record)
    try:
        name = record.key.transactional_id.encode()  # type: ignore[attr-defined]  # there is one type of key
        rows = _rows(value.transaction_partitions)
        if len(name) > _SHORT - 4:
            return pack(TRANSACTION_STATE, record)
        body = (
            _HEAD(
                _VERSION, value.producer_id, value.producer_epoch, value.transaction_timeout_ms,
                value.transaction_status,
            )
            + rows
            + _TIMES(value.transaction_last_update_timestamp_ms, value.transaction_start_timestamp_ms)
            + _TAGS(_TWO_TAGS, value.previous_producer_id, _SECOND_TAG, value.client_transaction_version)
        )  # fmt: skip
    except (error, UnicodeEncodeError):
        return pack(TRANSACTION_STATE, record)  # it reports what is wrong
    key_size = len(name) + 4
    return b"".join((UVARINTS[2 * key_size], _KEY(0, len(name)), name, uv(2 * len(body)), body, b"\0"))


def _rows(partitions: Any) -> bytes:
    if partitions is None:
        return b"\0"
    parts = [uv(len(partitions) + 1)]
    for row in partitions:
        topic, ids = row.topic.encode(), row.partition_ids
        if len(topic) > _SHORT:
            raise error
        parts += (UVARINTS[len(topic) + 1], topic, uv(len(ids) + 1), put_many("i", len(ids))(*ids), b"\0")
    return b"".join(parts)
