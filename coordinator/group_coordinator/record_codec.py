"""The core's records <-> batches of __consumer_offsets. Knows formats only: appends nothing, decides nothing.

Records that no core replays (key types of a later Kafka, other kinds of groups) stay in the log as they are and are
told of once. What transactions committed, in a log that Kafka wrote, counts from their marker on; what they aborted
never does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

import structlog
from google_crc32c import value as crc32c

from muster.coordinator.core.interface import Now, Record
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
from muster.coordinator.log.records.scanning import KEY_AT, Pair, pairs_of, unpack_row
from muster.protocol.message import MalformedMessage, Message
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.records import OFFSETS, UnknownRecord

log = structlog.get_logger("muster.shard")

Row = tuple[bytes, bytes | None]
"""Key and value of a record that is written; a value of None is a tombstone."""
Decoded = tuple[Message, Message | None]

KEYS_KEPT = 50_000
"""Keys that are known by their bytes while logs are read: each stands there many times between two compactions."""
_keys: dict[bytes, tuple[int, Message]] = {}
"""Those, of the log that is being read: given back when something is written."""
OFFSET_COMMIT = 1
_NOT_PLAIN = COMPRESSION_MASK | TRANSACTIONAL | CONTROL
_USUAL_COMMIT = Struct(">hqiBqHB16s")
_unpack_commit = _USUAL_COMMIT.unpack
_commit_at = _USUAL_COMMIT.unpack_from
_USUAL_COMMIT_LENGTH = 2 * _USUAL_COMMIT.size  # a zigzag varint
_USUAL_COMMIT_SIZE = _USUAL_COMMIT.size
"""An OffsetCommitValue of version 4 without metadata and with a topic id: version, offset, leader epoch, length of the
metadata, commit timestamp, number of tagged fields and first tag, its size, topic id. Other layouts of this size differ
in one of the four that are compared."""


class OpenTransaction(NamedTuple):
    """A transaction in a log that a cluster wrote, of which nothing says how it ended."""

    producer_id: int
    producer_epoch: int
    newest_ms: int
    """Wall: the timestamp of its last record."""
    offsets: Sequence[tuple[str, str, int]]
    """What it would commit: group, topic, partition."""


class OffsetsLogCodec:
    """What a shard's `Codec` is in the running server; `partition` is for log lines."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._told: set[tuple[int, int | None]] = set()
        self.reading = -1
        """Offset of the batch that is being read."""
        self._open: dict[int, list[tuple[int, bytes, Decoded]]] = {}
        """Producer id -> what its open transaction has committed: offset, key, record."""
        self._standing: dict[int, tuple[int, int]] = {}
        """Producer id -> epoch and newest timestamp of its open transaction."""
        self._since: dict[bytes, int] = {}
        """Key -> offset of the last record outside of transactions, since one has been open."""

    def encode(self, records: Sequence[Record]) -> tuple[list[bytes], int]:
        """Each record as it stands in a batch (`records.pack`), and the bytes of them all."""
        rows = [pack(record) for record in records]
        return rows, sum(map(len, rows))

    def build(self, rows: Sequence[bytes], now: Now) -> bytearray:
        """One batch with these rows, stamped with the wall clock."""
        if _keys:
            _keys.clear()
        return build_packed(rows, timestamp_ms=now.wall_ms)

    def read(self, chunk: bytes) -> Iterator[Decoded]:
        """Key and value (None: a tombstone) of each record that a core knows how to replay.

        To be given a log from its start to its end, in chunks of whole batches. CorruptBatch when one is damaged.
        """
        decode, known = self._decode, _keys.get
        at, stop = 0, len(chunk)
        while at < stop:
            base, length, crc, attributes, count = unpack_for_replay(chunk, at)
            end = at + length + LENGTH_OVERHEAD
            if base <= self.reading:  # from the start again
                self._open.clear()
                self._standing.clear()
                self._since.clear()
            self.reading = base
            if crc32c(chunk[at + CRC_START : end]) != crc:
                raise CorruptBatch(f"the CRC of the batch at offset {base} is wrong")
            if attributes & _NOT_PLAIN:
                yield from self._special(chunk[at:end])
                at = end
                continue
            if count == 1 and length > _USUAL_COMMIT_SIZE + HEADER_SIZE and not self._open:
                # one commit, of a key that was met before: what most of a log consists of
                size, more, stamp, delta, key_length = unpack_row(chunk, at + HEADER_SIZE)
                after = at + KEY_AT + (key_length >> 1)
                if (
                    size >= 128 > more
                    and not (stamp or delta or key_length & 129)
                    and (found := known(chunk[at + KEY_AT : after])) is not None
                    and after + _USUAL_COMMIT_SIZE < end
                    and chunk[after] == _USUAL_COMMIT_LENGTH
                ):
                    version, offset, epoch, metadata, timestamp, tags, size, topic_id = _commit_at(chunk, after + 1)
                    if version == 4 and metadata == 1 and tags == 0x0100 and size == 16 and found[0] == OFFSET_COMMIT:
                        yield found[1], OffsetCommitValue(offset, epoch, "", timestamp, -1, topic_id)
                        at = end
                        continue
            for pair in pairs_of(chunk, at + HEADER_SIZE, count):
                # what `_decode` does for nearly all records of nearly all logs, in line
                key, value = pair
                found = None if key is None else known(key)
                if found is not None and value is not None and len(value) == _USUAL_COMMIT_SIZE:
                    version, offset, epoch, metadata, timestamp, tags, size, topic_id = _unpack_commit(value)
                    if version == 4 and metadata == 1 and tags == 0x0100 and size == 16 and found[0] == OFFSET_COMMIT:
                        yield found[1], OffsetCommitValue(offset, epoch, "", timestamp, -1, topic_id)
                        continue
                decoded = decode(pair)
                if decoded is not None:
                    yield decoded
            if self._open:
                self._note(chunk[at:end])
            at = end

    def _decode(self, pair: Pair) -> Decoded | None:
        key, value = pair
        if key is None:
            return None
        try:
            kind, message = _keys.get(key) or self._decode_key(key)
            if value is None:
                return message, None
            return message, OFFSETS.decode_value(kind, value)[1]
        except UnknownRecord as error:
            self._tell(error)
        except MalformedMessage as error:
            log.error("skipped a record that cannot be read", partition=self._partition, error=str(error))
        return None

    def _decode_key(self, key: bytes) -> tuple[int, Message]:
        if len(_keys) >= KEYS_KEPT:
            _keys.clear()
        found = _keys[key] = OFFSETS.decode_key(key)
        return found

    # -- batches that are compressed, or of a transaction

    def _special(self, batch: bytes) -> Iterator[Decoded]:
        header = read_header(batch)
        if header.is_control:
            yield from self._end_transaction(header.producer_id, batch)
            return
        if header.is_transactional:
            self._open.setdefault(header.producer_id, [])
            self._standing[header.producer_id] = (header.producer_epoch, header.max_timestamp)
        for offset, pair in self._pairs(batch):
            decoded = self._decode(pair)
            if decoded is None or pair[0] is None:
                continue
            if header.is_transactional:
                self._open[header.producer_id].append((offset, pair[0], decoded))
            else:
                yield decoded
        if self._open and not header.is_transactional:
            self._note(batch)

    def _pairs(self, batch: bytes) -> list[tuple[int, Pair]]:
        header = read_header(batch)
        data = bytes(unpack(batch, header, UNPACKED_LIMIT))
        pairs = pairs_of(data, HEADER_SIZE, header.record_count)
        # offsets may have gaps after a compaction: only their order against those of other batches matters
        return [(header.base_offset, pair) for pair in pairs]

    def _note(self, batch: bytes) -> None:
        self._since.update({pair[0]: offset for offset, pair in self._pairs(batch) if pair[0] is not None})

    def _end_transaction(self, producer_id: int, batch: bytes) -> Iterator[Decoded]:
        pending = self._open.pop(producer_id, [])
        self._standing.pop(producer_id, None)
        for _, records in batches.read(batch, check_crc=False):
            if any(batches.control_kind(record) == batches.CONTROL_COMMIT for record in records):
                # as on Kafka: what was committed later than this, without a transaction, stays
                yield from (decoded for offset, key, decoded in pending if self._since.get(key, -1) < offset)
        if not self._open:
            self._since.clear()

    def open_transactions(self) -> list[OpenTransaction]:
        """Those that what was read has begun and not ended, in the order of their beginning."""
        return [
            OpenTransaction(producer_id, *self._standing[producer_id], _offsets_of(pending))
            for producer_id, pending in self._open.items()
        ]

    def abort(self, transaction: OpenTransaction, now: Now) -> bytearray:
        """The marker that aborts a transaction, to be appended: it is open no more."""
        self._open.pop(transaction.producer_id, None)
        self._standing.pop(transaction.producer_id, None)
        return batches.build_control(
            batches.CONTROL_ABORT,
            timestamp_ms=now.wall_ms,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
        )

    def _tell(self, unknown: UnknownRecord) -> None:
        what = (unknown.type, unknown.version)
        if what not in self._told:
            self._told.add(what)
            log.warning("records of an unknown kind are left alone", partition=self._partition, what=str(unknown))


def _offsets_of(pending: Sequence[tuple[int, bytes, Decoded]]) -> list[tuple[str, str, int]]:
    keys = (key for _, _, (key, value) in pending if value is not None)
    return [(key.group, key.topic, key.partition) for key in keys if isinstance(key, OffsetCommitKey)]
