"""Converts the core's records to batches of __consumer_offsets and back. Unknown records stay in the log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any, Final

from google_crc32c import value as crc32c

from muster.coordinator.groups.common.state import pack
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
from muster.coordinator.log.records.reader import records_of
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
"""How many keys of commits a load remembers. Each key appears many times in a log between two compactions."""
OFFSET_COMMIT: Final = 1
_AFTER_KEY: Final = 43
"""The bytes of a usual value (`_is_usual`) and of the number of headers, 0, at the end of a record."""
_NOT_PLAIN: Final = COMPRESSION_MASK | TRANSACTIONAL | CONTROL
_unpack_usual = Struct(">2xqi1xq3x16s").unpack
_unpack_shape = Struct(">H12xB8x3s16xB").unpack_from
_USUAL_SHAPE = (4, 1, b"\x01\x00\x10", 0)
"""The same fields as in `_is_usual`, and the number of headers. To compare them takes half as long."""
_is_usual = re.compile(rb"\x00\x04.{12}\x01.{8}\x01\x00\x10.{16}", re.DOTALL).fullmatch
"""The layout of an OffsetCommitValue of version 4 without metadata and with a topic id.

The fields are version, offset, leader epoch, length of the metadata, commit timestamp. Then the tags: the number of
tagged fields, the tag and size of the first field, and the topic id. Such a value can always be read.
"""


class RecordCodec:
    """The `interfaces.RecordCodec` of a shard in the running server. `partition` is for log lines."""

    __slots__ = ("_partition",)

    def __init__(self, partition: int) -> None:
        self._partition = partition

    def encode(self, records: Sequence[Record]) -> tuple[list[bytes], int]:
        """Each record as its bytes in a batch (`records.pack`), and the total number of bytes."""
        rows = [pack(record) for record in records]
        return rows, sum(map(len, rows))

    def build(self, rows: Sequence[bytes], now: Now, producer: Producer | None) -> bytearray:
        """One batch with these rows and the wall clock's timestamp, in the transaction of `producer` or in none."""
        return build_packed(rows, timestamp_ms=now.wall_ms, producer=producer)

    def reader(self) -> RecordReader:
        """A reader for one load of a log."""
        return RecordReader(self._partition)


class RecordReader:
    """Reads a log from its start to its end, in chunks of whole batches."""

    __slots__ = ("_at", "_key_of", "_keys", "_name_of", "_newest", "_unreadable", "offset", "replaced")

    def __init__(self, partition: int) -> None:
        self.offset = -1
        self.replaced = 0
        self._at = 0
        self._newest: dict[bytes | None, bytes | None] = {}
        """The newest value of each key whose first commit was yielded; None while the key has no newer value.

        Keys have names. The name is the part of a batch from the record's start to the value, with all lengths. So a
        batch with one commit is known by its bytes. A key without such a batch is its own name. No name of the first
        kind is a key: a record does not begin with its key.
        """
        self._name_of: dict[bytes | None, bytes] = {}
        self._keys: dict[bytes | None, OffsetCommitKey] = {}
        self._key_of: dict[bytes | None, bytes | None] = {}
        self._unreadable = Unreadable(partition)

    def read(self, chunk: bytes) -> Iterator[Iterator[Decoded] | TransactionalBatch | EndTransaction]:
        """See `interfaces.RecordReader`. Raises CorruptBatch when a batch is damaged."""
        self._at = 0
        while self._at < len(chunk):
            yield self._plain(chunk)
            if self._at < len(chunk):
                yield self._special(chunk)

    def rest(self) -> Iterator[Decoded]:
        """See `interfaces.RecordReader`."""
        return self._commits()

    def _plain(self, chunk: bytes) -> Iterator[Decoded]:
        """The records up to the next batch that is compressed or belongs to a transaction.

        Most records are commits. In a run of commits only two of each key are yielded. The first may create the group,
        the newest is in force. An unreadable commit replaces no other commit.

        Most batches hold one commit, of a known key. Such a batch is known by its bytes, and is not read.
        """
        value: bytes | None
        at, stop, replaced = self._at, len(chunk), 0
        newest, keys, decode, name_of = self._newest, self._keys, self._decode, self._name_of
        while at < stop:
            base, length, crc, attributes, count = unpack_for_replay(chunk, at)
            end = at + length + LENGTH_OVERHEAD
            if crc32c(chunk[at + CRC_START : end]) != crc:
                self.offset = base
                raise CorruptBatch(f"the CRC of the batch at offset {base} is wrong")
            value_at = end - _AFTER_KEY
            if (
                count == 1
                and not attributes & _NOT_PLAIN
                and (name := chunk[at + HEADER_SIZE : value_at]) in newest
                and _unpack_shape(chunk, value_at) == _USUAL_SHAPE
            ):
                newest[name] = chunk[value_at : end - 1]
                replaced += 1
                at = end
                continue
            self._at, self.offset = at, base
            if attributes & _NOT_PLAIN:
                self.replaced += replaced
                yield from self._commits()
                return
            for record in records_of(chunk[at:end], base):
                key, value = record.key, record.value
                known = name_of.get(key, key)
                if value is not None and known in newest and _is_usual(value):
                    newest[known] = value
                    replaced += 1
                    continue
                decoded = decode(key, value)
                if decoded is None:
                    continue
                if value is not None and key in keys:
                    if len(newest) >= KEYS_KEPT:
                        yield from self._commits()
                    if count == 1 and _is_usual(value) and not record.headers:
                        known = self._named(chunk[at + HEADER_SIZE : value_at], key)
                    newest[known] = None
                else:
                    yield from self._commits()
                yield decoded
            at = end
        self._at = at
        self.replaced += replaced

    def _named(self, name: bytes, key: bytes | None) -> bytes:
        """Remember the name of a key without a newest value, and return it."""
        if len(self._key_of) >= KEYS_KEPT and not self._newest:
            self._key_of.clear()
            self._name_of.clear()
        self._key_of[name] = key
        self._name_of[key] = name
        return name

    def _commits(self) -> Iterator[Decoded]:
        """The newest commit of each key, if it was not yielded yet."""
        newest, key_of = self._newest, self._key_of
        for name, value in newest.items():
            if value is not None:
                decoded = self._decode(key_of.get(name, name), value)
                if decoded is not None:
                    self.replaced -= 1
                    yield decoded
        newest.clear()

    def _special(self, chunk: bytes) -> Iterator[Decoded] | TransactionalBatch | EndTransaction:
        header = read_header(chunk, self._at)
        batch = chunk[self._at : self._at + header.size]
        self._at += len(batch)
        if header.is_control:
            ((_, records),) = batches.read(batch, check_crc=False)
            kinds = [batches.control_kind(record) for record in records]
            return EndTransaction(header.producer_id, header.producer_epoch, batches.CONTROL_COMMIT in kinds)
        data = bytes(unpack(batch, header, UNPACKED_LIMIT))
        decoded = (self._decode(one.key, one.value) for one in records_of(data, header.base_offset))
        found = [one for one in decoded if one is not None]
        if header.is_transactional:
            return TransactionalBatch(header.producer_id, header.producer_epoch, header.max_timestamp, found)
        return iter(found)

    def _decode(self, key: bytes | None, value: bytes | None) -> Decoded | None:
        if key is None:
            return None
        message: Any = self._keys.get(key)
        if message is not None and value is not None and _is_usual(value):
            offset, epoch, timestamp, topic_id = _unpack_usual(value)
            return message, OffsetCommitValue(offset, epoch, "", timestamp, -1, topic_id)
        try:
            kind = OFFSET_COMMIT
            if message is None:
                kind, message = OFFSETS.decode_key(key)
                if kind == OFFSET_COMMIT:
                    if len(self._keys) >= KEYS_KEPT:
                        self._keys.clear()
                    self._keys[key] = message
            return message, None if value is None else OFFSETS.decode_value(kind, value)[1]
        except (UnknownRecord, MalformedMessage) as error:
            self._unreadable.report(error)
        return None
