"""The core's records <-> batches of __transaction_state. Knows formats only, and remembers nothing between two loads.

Records of a later Kafka (keys or values of an unknown version) stay in the log as they are and are told of once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

import structlog
from google_crc32c import value as crc32c

from muster.coordinator.core.interface import Decoded, Now, Producer, Record
from muster.coordinator.log import CorruptBatch
from muster.coordinator.log.records.building import build_packed
from muster.coordinator.log.records.compression import UNPACKED_LIMIT, unpack
from muster.coordinator.log.records.headers import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    read_header,
    unpack_for_replay,
)
from muster.coordinator.log.records.scanning import Pair, pairs_of
from muster.protocol.api import MISFITS
from muster.protocol.message import MalformedMessage
from muster.protocol.messages.transaction_records.transaction_log import TransactionLogKey, TransactionLogValue
from muster.protocol.records import TRANSACTION_STATE, UnknownRecord
from muster.protocol.wire import put_many, uv, uvs

log = structlog.get_logger("muster.shard")

_NOT_PLAIN: Final = COMPRESSION_MASK | CONTROL
_NO_SEQUENCE: Final = -1
_KEY: Final = Struct(">hh").pack
"""Type of the record, length of the transactional id, which follows."""
_KEY_START: Final = 4
_HEAD: Final = Struct(">hqhib").pack
"""Version, producer id and epoch, timeout, state; the partitions follow."""
_TAIL: Final = Struct(">qqBBBqBBh").pack
"""Time of the change and of the begin; number of tagged fields, then tag, size and value of each: the producer id
before (tag 0) and the client's transaction version (tag 2).
"""


def to_bytes(record: Record) -> tuple[bytes, bytes | None]:
    """A record's key and value as they stand in the log; a tombstone's value is None."""
    key = TRANSACTION_STATE.encode_key(record.key)
    return key, None if record.value is None else TRANSACTION_STATE.encode_value(record.value, record.value_version)


def pack(record: Record) -> bytes:
    """A record as it stands in a batch, from the length of its key on: key, value, no headers."""
    key, value = record.key, record.value
    if (
        type(key) is TransactionLogKey
        and type(value) is TransactionLogValue
        and record.value_version == 1
        and value.client_transaction_version != 0
        and value.previous_producer_id != -1
        and value.next_producer_id == -1
        and value.next_producer_epoch == -1
    ):
        try:
            return _pack_change(key.transactional_id, value)
        except MISFITS:
            pass  # which `pack_any` says
    return pack_any(record)


def _pack_change(transactional_id: str, value: TransactionLogValue) -> bytes:
    """A change of a transaction of version 2, of which each has four: as `pack_any` in half of its time, which was 5 %
    of all that a transaction takes.
    """
    name, topics = transactional_id.encode(), value.transaction_partitions
    parts = [
        _HEAD(1, value.producer_id, value.producer_epoch, value.transaction_timeout_ms, value.transaction_status),
        b"\0" if topics is None else uv(len(topics) + 1),
    ]
    for topic in topics or ():
        text, ids = topic.topic.encode(), topic.partition_ids
        parts += (uvs(len(text) + 1), text, uv(len(ids) + 1), put_many("i", len(ids))(*ids), b"\0")
    changed_ms, start_ms = value.transaction_last_update_timestamp_ms, value.transaction_start_timestamp_ms
    parts.append(
        _TAIL(changed_ms, start_ms, 2, 0, 8, value.previous_producer_id, 2, 2, value.client_transaction_version)
    )
    body = b"".join(parts)
    size = len(name)
    return b"".join((uv(2 * (_KEY_START + size)), _KEY(0, size), name, uv(2 * len(body)), body, b"\0"))


def pack_any(record: Record) -> bytes:
    """`pack` for every record."""
    key, value = to_bytes(record)
    # lengths are zigzag varints
    if value is None:
        return b"".join((uv(2 * len(key)), key, b"\x01\0"))
    return b"".join((uv(2 * len(key)), key, uv(2 * len(value)), value, b"\0"))


class RecordCodec:
    """What a shard's `Codec` is in the running server; `partition` is for log lines."""

    __slots__ = ("_partition",)

    def __init__(self, partition: int) -> None:
        self._partition = partition

    def encode(self, records: Sequence[Record]) -> tuple[list[bytes], int]:
        """Each record as it stands in a batch, and the bytes of them all."""
        rows = [pack(record) for record in records]
        return rows, sum(map(len, rows))

    def build(self, rows: Sequence[bytes], now: Now, producer: Producer | None) -> bytearray:
        """One batch with these rows, stamped with the wall clock."""
        return build_packed(rows, timestamp_ms=now.wall_ms, producer=producer, base_sequence=_NO_SEQUENCE)

    def reader(self) -> RecordReader:
        """For one load of a log."""
        return RecordReader(self._partition)


class RecordReader:
    """Reads a log from its start to its end, in chunks of whole batches."""

    __slots__ = ("_partition", "_told", "offset")

    def __init__(self, partition: int) -> None:
        self.offset = -1
        """Of the batch that was read last."""
        self._partition = partition
        self._told: set[tuple[int, int | None]] = set()

    def read(self, chunk: bytes) -> Iterator[Iterator[Decoded]]:
        """What the chunk holds. A record says all of its transactional id, so only the newest of each key is decoded: a
        log that was not compacted yet has three for each transaction. CorruptBatch when a batch is damaged.
        """
        newest: dict[bytes, bytes | None] = {}
        at = 0
        while at < len(chunk):
            base, length, crc, attributes, count = unpack_for_replay(chunk, at)
            self.offset = base
            end = at + length + LENGTH_OVERHEAD
            if crc32c(chunk[at + CRC_START : end]) != crc:
                raise CorruptBatch(f"the CRC of the batch at offset {base} is wrong")
            pairs = pairs_of(chunk, at + HEADER_SIZE, count) if not attributes & _NOT_PLAIN else _special(chunk, at)
            newest.update((key, value) for key, value in pairs if key is not None)
            at = end
        yield self._decoded(newest)

    def _decoded(self, newest: dict[bytes, bytes | None]) -> Iterator[Decoded]:
        for key, value in newest.items():
            try:
                kind, message = TRANSACTION_STATE.decode_key(key)
                yield message, None if value is None else TRANSACTION_STATE.decode_value(kind, value)[1]
            except UnknownRecord as error:
                self._tell(error)
            except MalformedMessage as error:
                log.error("skipped a record that cannot be read", partition=self._partition, error=str(error))

    def _tell(self, unknown: UnknownRecord) -> None:
        what = (unknown.type, unknown.version)
        if what not in self._told:
            self._told.add(what)
            log.warning("records of an unknown kind are left alone", partition=self._partition, what=str(unknown))


def _special(chunk: bytes, at: int) -> list[Pair]:
    """The records of a batch that is compressed; a control batch says nothing of transactional ids."""
    header = read_header(chunk, at)
    if header.is_control:
        return []
    data = bytes(unpack(chunk[at : at + header.size], header, UNPACKED_LIMIT))
    return pairs_of(data, HEADER_SIZE, header.record_count)
