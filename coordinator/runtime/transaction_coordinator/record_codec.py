"""Converts the core's records to batches of __transaction_state and back. This module decides nothing.

Records of a later Kafka (keys or values of an unknown version) stay in the log, and are logged once.

`packed` packs the record of a transactional id in one step. `protocol.records.pack_record` packs field by field, with
513 instructions of Python instead of 225. Each EndTxn has two such records. So both functions stay, and a property test
compares them. `pack_record` packs records that differ from what Kafka 4.4 usually writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct, error
from typing import Any, Final

from google_crc32c import value as crc32c

from muster.coordinator.log import CorruptBatch
from muster.coordinator.log.records.building import build_packed
from muster.coordinator.log.records.compression import UNPACKED_LIMIT, unpack
from muster.coordinator.log.records.headers import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    LENGTH_OVERHEAD,
    read_header,
    unpack_for_replay,
)
from muster.coordinator.log.records.reader import LogRecord, records_of
from muster.coordinator.runtime.loader import Unreadable
from muster.coordinator.state_machine.interface import Decoded, Now, Producer, Record
from muster.coordinator.transactions.transaction import SharedRows
from muster.protocol.message import MalformedMessage
from muster.protocol.records import TRANSACTION_STATE, UnknownRecord, pack_record
from muster.protocol.wire import UVARINTS, put_many, uv

_SHORT: Final = len(UVARINTS) // 2 - 1
_VERSION: Final = 1
_KEY: Final = Struct(">hH").pack
_HEAD: Final = Struct(">hqhib").pack
"""Packs version, producer id, producer epoch, timeout and status."""
_TIMES: Final = Struct(">qq").pack
_TAGS: Final = Struct(">3sq2sh").pack
_TAG: Final = Struct(">3sq").pack
_ONE_TAG: Final = b"\x01\x00\x08"
_TWO_TAGS: Final = b"\x02\x00\x08"
"""The number of tagged fields; then the tag and size of the first field, the previous producer id."""
_SECOND_TAG: Final = b"\x02\x02"
"""The tag and size of the second tagged field, the client's transaction version."""


def packed(record: Record) -> bytes:
    """A record of `__transaction_state` as its bytes in a batch. Raises UnrepresentableField."""
    value: Any = record.value
    if (
        value is None
        or record.value_version != _VERSION
        or value.previous_producer_id == -1
        or value.next_producer_id != -1
        or value.next_producer_epoch != -1
    ):
        return pack_record(TRANSACTION_STATE, record)
    try:
        name = record.key.transactional_id.encode()  # type: ignore[attr-defined]  # there is one type of key
        partitions = value.transaction_partitions
        rows = partitions.packed if type(partitions) is SharedRows else None
        if rows is None:
            rows = _rows(partitions)
            if type(partitions) is SharedRows:
                partitions.packed = rows
        if len(name) > _SHORT - 4:
            return pack_record(TRANSACTION_STATE, record)
        body = (
            _HEAD(
                _VERSION, value.producer_id, value.producer_epoch, value.transaction_timeout_ms,
                value.transaction_status,
            )
            + rows
            + _TIMES(value.transaction_last_update_timestamp_ms, value.transaction_start_timestamp_ms)
            + (
                _TAGS(_TWO_TAGS, value.previous_producer_id, _SECOND_TAG, value.client_transaction_version)
                if value.client_transaction_version
                else _TAG(_ONE_TAG, value.previous_producer_id)
            )
        )  # fmt: skip
    except (error, UnicodeEncodeError):
        return pack_record(TRANSACTION_STATE, record)  # `pack_record` raises an error that names the field
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


_NOT_PLAIN: Final = COMPRESSION_MASK | CONTROL
_NO_SEQUENCE: Final = -1


class RecordCodec:
    """The `interfaces.RecordCodec` of a shard in the running server. `partition` is for log lines."""

    __slots__ = ("_partition",)

    def __init__(self, partition: int) -> None:
        self._partition = partition

    def encode(self, records: Sequence[Record]) -> tuple[list[bytes], int]:
        """Each record as its bytes in a batch, and the total number of bytes."""
        if len(records) == 1:
            row = packed(records[0])
            return [row], len(row)
        rows = [packed(record) for record in records]
        return rows, sum(map(len, rows))

    def build(self, rows: Sequence[bytes], now: Now, producer: Producer | None) -> bytearray:
        """One batch with these rows and the wall clock's timestamp."""
        return build_packed(rows, timestamp_ms=now.wall_ms, producer=producer, base_sequence=_NO_SEQUENCE)

    def reader(self) -> RecordReader:
        """A reader for one load of a log."""
        return RecordReader(self._partition)


class RecordReader:
    """Reads a log from its start to its end, in chunks of whole batches."""

    __slots__ = ("_unreadable", "offset", "replaced")

    def __init__(self, partition: int) -> None:
        self.offset = -1
        self.replaced = 0
        self._unreadable = Unreadable(partition)

    def read(self, chunk: bytes) -> Iterator[Iterator[Decoded]]:
        """The newest record of each key in the chunk: a record has the whole state of its id. Raises CorruptBatch."""
        newest: dict[bytes, bytes | None] = {}
        at = 0
        while at < len(chunk):
            base, length, crc, attributes, _ = unpack_for_replay(chunk, at)
            self.offset = base
            end = at + length + LENGTH_OVERHEAD
            if crc32c(chunk[at + CRC_START : end]) != crc:
                raise CorruptBatch(f"the CRC of the batch at offset {base} is wrong")
            batch = chunk[at:end]
            records = records_of(batch, base) if not attributes & _NOT_PLAIN else _special(batch)
            newest.update((record.key, record.value) for record in records if record.key is not None)
            at = end
        yield self._decoded(newest)

    def rest(self) -> Iterator[Decoded]:
        """Return nothing: `read` keeps no records back."""
        return iter(())

    def _decoded(self, newest: dict[bytes, bytes | None]) -> Iterator[Decoded]:
        for key, value in newest.items():
            try:
                kind, message = TRANSACTION_STATE.decode_key(key)
                yield message, None if value is None else TRANSACTION_STATE.decode_value(kind, value)[1]
            except (UnknownRecord, MalformedMessage) as error:
                self._unreadable.report(error)


def _special(batch: bytes) -> list[LogRecord]:
    """The records of a compressed batch. A control batch has no records of transactional ids."""
    header = read_header(batch)
    if header.is_control:
        return []
    return records_of(bytes(unpack(batch, header, UNPACKED_LIMIT)), header.base_offset)
