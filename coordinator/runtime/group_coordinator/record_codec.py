"""Converts the core's records to batches of __consumer_offsets and back. It knows formats only.

It remembers nothing between two loads. Some records are not for this core: key types of a later Kafka, and other kinds
of groups. They stay in the log as they are and are logged once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

from google_crc32c import value as crc32c

from muster.coordinator.groups.common.records import pack
from muster.coordinator.log import CorruptBatch, batches
from muster.coordinator.log.records.building import build_packed
from muster.coordinator.log.records.compression import UNPACKED_LIMIT, unpack
from muster.coordinator.log.records.headers import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    TRANSACTIONAL,
    read_header,
    unpack_for_replay,
)
from muster.coordinator.log.records.scanning import KEY_AT, pairs_of, unpack_row
from muster.coordinator.runtime.loader import Unreadable
from muster.coordinator.state_machine.interface import (
    Decoded,
    EndTransaction,
    Now,
    Producer,
    Record,
    TransactionalBatch,
)
from muster.protocol.message import MalformedMessage
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.records import OFFSETS, UnknownRecord

KEYS_KEPT: Final = 50_000
"""Keys of commits that a load recognizes by their bytes. Each key appears many times between two compactions."""
OFFSET_COMMIT: Final = 1
_NOT_PLAIN: Final = COMPRESSION_MASK | TRANSACTIONAL | CONTROL
_USUAL_COMMIT: Final = Struct(">hqiBq3s16s")
_USUAL_SIZE: Final = _USUAL_COMMIT.size
_unpack_commit = _USUAL_COMMIT.unpack
_commit_at = _USUAL_COMMIT.unpack_from
_TOPIC_ID_TAG: Final = b"\x01\x00\x10"
"""The layout of an OffsetCommitValue of version 4 without metadata and with a topic id.

Its fields: version, offset, leader epoch, length of the metadata, commit timestamp. Then the tags: number of tagged
fields, tag and size of the first, topic id. Other layouts of this size differ in the version, the length of the
metadata or the tag.
"""


class RecordCodec:
    """The `Codec` of a shard in the running server. `partition` is for log lines."""

    __slots__ = ("_partition",)

    def __init__(self, partition: int) -> None:
        self._partition = partition

    def encode(self, records: Sequence[Record]) -> tuple[list[bytes], int]:
        """Each record as its bytes in a batch (`records.pack`), and the total number of bytes."""
        rows = [pack(record) for record in records]
        return rows, sum(map(len, rows))

    def build(self, rows: Sequence[bytes], now: Now, producer: Producer | None) -> bytearray:
        """One batch with these rows and the wall clock's timestamp. With a `producer`, it is of that producer's
        transaction.
        """
        return build_packed(rows, timestamp_ms=now.wall_ms, producer=producer)

    def reader(self) -> RecordReader:
        """A reader for one load of a log."""
        return RecordReader(self._partition)


class RecordReader:
    """Reads a log from its start to its end, in chunks of whole batches."""

    __slots__ = ("_at", "_keys", "_unreadable", "offset")

    def __init__(self, partition: int) -> None:
        self.offset = -1
        """The offset of the batch that was read last."""
        self._at = 0
        self._keys: dict[bytes | None, OffsetCommitKey] = {}
        self._unreadable = Unreadable(partition)

    def read(self, chunk: bytes) -> Iterator[Iterator[Decoded] | TransactionalBatch | EndTransaction]:
        """The content of the chunk, in its order.

        It has records that count at once and are to be replayed before the next is read. It also has the records of a
        transaction's batch, and ends of transactions. Raises CorruptBatch when a batch is damaged.
        """
        self._at = 0
        while self._at < len(chunk):
            yield self._plain(chunk)
            if self._at < len(chunk):
                yield self._special(chunk)

    def _plain(self, chunk: bytes) -> Iterator[Decoded]:
        """The records up to the next batch that is compressed or belongs to a transaction.

        Most records of most logs are commits without metadata, with a key that was read before. They are decoded in
        line. Without that a load takes 60 to 80 % longer. Without `_single_commit` a log of single commits takes 25 %
        longer.
        """
        at, stop = self._at, len(chunk)
        key_of, decode = self._keys.get, self._decode
        while at < stop:
            base, length, crc, attributes, count = unpack_for_replay(chunk, at)
            self._at = at
            self.offset = base
            end = at + length + LENGTH_OVERHEAD
            if crc32c(chunk[at + CRC_START : end]) != crc:
                raise CorruptBatch(f"the CRC of the batch at offset {base} is wrong")
            if attributes & _NOT_PLAIN:
                return
            if count == 1 and (commit := self._single_commit(chunk, at, end)) is not None:
                yield commit
                at = end
                continue
            for key, value in pairs_of(chunk, at + HEADER_SIZE, count):
                known = key_of(key)
                if known is not None and value is not None and len(value) == _USUAL_SIZE:
                    version, offset, epoch, metadata, timestamp, tag, topic_id = _unpack_commit(value)
                    if version == 4 and metadata == 1 and tag == _TOPIC_ID_TAG:
                        yield known, OffsetCommitValue(offset, epoch, "", timestamp, -1, topic_id)
                        continue
                decoded = decode(key, value)
                if decoded is not None:
                    yield decoded
            at = end
        self._at = at

    def _single_commit(self, chunk: bytes, at: int, end: int) -> Decoded | None:
        """The record of a batch that holds one usual commit of a known key. None for any other batch."""
        if end - at <= HEADER_SIZE + _USUAL_SIZE:
            return None
        size, more, deltas, key_length = unpack_row(chunk, at + HEADER_SIZE)
        value_at = at + KEY_AT + (key_length >> 1)
        if size < 128 or more >= 128 or deltas or key_length & 129 or value_at + _USUAL_SIZE >= end:
            return None
        known = self._keys.get(chunk[at + KEY_AT : value_at])
        if known is None or chunk[value_at] != 2 * _USUAL_SIZE:  # a zigzag varint
            return None
        version, offset, epoch, metadata, timestamp, tag, topic_id = _commit_at(chunk, value_at + 1)
        if version != 4 or metadata != 1 or tag != _TOPIC_ID_TAG:
            return None
        return known, OffsetCommitValue(offset, epoch, "", timestamp, -1, topic_id)

    def _special(self, chunk: bytes) -> Iterator[Decoded] | TransactionalBatch | EndTransaction:
        """The content of the batch at `_at`, whose CRC is right."""
        header = read_header(chunk, self._at)
        batch = chunk[self._at : self._at + header.size]
        self._at += len(batch)
        if header.is_control:
            ((_, records),) = batches.read(batch, check_crc=False)
            kinds = [batches.control_kind(record) for record in records]
            return EndTransaction(header.producer_id, header.producer_epoch, batches.CONTROL_COMMIT in kinds)
        data = bytes(unpack(batch, header, UNPACKED_LIMIT))
        pairs = pairs_of(data, HEADER_SIZE, header.record_count)
        found = [decoded for pair in pairs if (decoded := self._decode(*pair)) is not None]
        if header.is_transactional:
            return TransactionalBatch(header.producer_id, header.producer_epoch, header.max_timestamp, found)
        return iter(found)

    def _decode(self, key: bytes | None, value: bytes | None) -> Decoded | None:
        if key is None:
            return None
        try:
            kind, message = OFFSET_COMMIT, self._keys.get(key)
            if message is None:
                kind, message = OFFSETS.decode_key(key)
                if kind == OFFSET_COMMIT:
                    if len(self._keys) >= KEYS_KEPT:
                        self._keys.clear()
                    self._keys[key] = message
            return message, None if value is None else OFFSETS.decode_value(kind, value)[1]
        except (UnknownRecord, MalformedMessage) as error:
            self._unreadable.tell(error)
        return None
