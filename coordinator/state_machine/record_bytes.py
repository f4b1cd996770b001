"""Encodes the records of every core, as they stand in the log of a coordinator."""

from __future__ import annotations

from muster.coordinator.state_machine.interface import Record
from muster.protocol.records import KeyedRecords
from muster.protocol.wire import uv


def to_bytes(table: KeyedRecords, record: Record) -> tuple[bytes, bytes | None]:
    """A record's key and value; a tombstone's value is None. Raises UnrepresentableField."""
    key = table.encode_key(record.key)
    return key, None if record.value is None else table.encode_value(record.value, record.value_version)


def pack(table: KeyedRecords, record: Record) -> bytes:
    """A record as its bytes in a batch, after the length of the record: key, value, no headers."""
    return pack_pair(*to_bytes(table, record))


def pack_pair(key: bytes, value: bytes | None) -> bytes:
    """`pack` of a record whose key and value are bytes already."""
    # Lengths are zigzag varints.
    if value is None:
        return b"".join((uv(2 * len(key)), key, b"\x01\0"))
    return b"".join((uv(2 * len(key)), key, uv(2 * len(value)), value, b"\0"))
