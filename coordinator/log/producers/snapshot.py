"""The state of a log's producers at one offset, in a file that Kafka's tools read (ProducerSnapshot, version 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct
from typing import Final

from google_crc32c import value as crc32c

from muster.coordinator.log.errors import MalformedCheckpoint
from muster.coordinator.log.producers.state import MAX_SEQUENCE, Producer, SeenBatch

VERSION: Final = 1
PRODUCERS_AT_ONCE: Final = 500
_HEAD = Struct(">hI")
"""Packs the version and the CRC of all following bytes."""
_COUNT = Struct(">i")
_ROW = Struct(">qhiqiqiq")
"""Producer id and epoch. Last sequence, last offset, offset delta and timestamp of the last batch. Coordinator epoch.
Start of the open transaction.
"""
_NONE = -1
_SEQUENCES = 1 << 31


def row_of(producer: Producer) -> bytes:
    """Encode one producer as it is now, with its last batch only, as on Kafka."""
    return _row(producer, producer.batches[-1] if producer.batches else None, producer.last_timestamp_ms)


def rows_of(producer: Producer) -> bytes:
    """Encode a producer with a row for each remembered batch, for the next node that leads the log."""
    earlier = b"".join(_row(producer, batch, batch.timestamp_ms) for batch in producer.batches[:-1])
    return earlier + row_of(producer)


def _row(producer: Producer, batch: SeenBatch | None, timestamp_ms: int) -> bytes:
    last_sequence, last_offset, delta = _NONE, _NONE, 0
    if batch is not None:
        last_sequence, last_offset = batch.last_sequence, batch.last_offset
        delta = batch.last_offset - batch.base_offset
    start = producer.transaction_start
    return _ROW.pack(
        producer.producer_id,
        producer.epoch,
        last_sequence,
        last_offset,
        delta,
        timestamp_ms,
        producer.coordinator_epoch,
        _NONE if start is None else start,
    )


def encode(rows: Iterable[bytes]) -> bytes:
    """Return the bytes of a file with the rows of all producers."""
    body = b"".join(rows)
    body = _COUNT.pack(len(body) // _ROW.size) + body
    return _HEAD.pack(VERSION, crc32c(body)) + body


def demand_whole(path: str, data: bytes) -> int:
    """Return how many producers a file has. Raises MalformedCheckpoint when its bytes have changed since the write."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise MalformedCheckpoint(f"{path} is no snapshot of producers: it has {len(data)} bytes")
    version, crc = _HEAD.unpack_from(data)
    if version != VERSION:
        raise MalformedCheckpoint(f"{path} is a snapshot of producers of version {version}, only {VERSION} is known")
    if crc != crc32c(data[_HEAD.size :]):
        raise MalformedCheckpoint(f"{path} is damaged: the CRC is not the one it carries")
    (count,) = _COUNT.unpack_from(data, _HEAD.size)
    if len(data) != _HEAD.size + _COUNT.size + count * _ROW.size:
        raise MalformedCheckpoint(f"{path} says that it has {count} producers, its length says otherwise")
    return int(count)


def decode(path: str, data: bytes) -> Iterator[list[Producer]]:
    """Yield the producers of a file, in parts. Raises MalformedCheckpoint only before the first part."""
    count, start = demand_whole(path, data), _HEAD.size + _COUNT.size
    for first in range(0, count, PRODUCERS_AT_ONCE):
        last = min(first + PRODUCERS_AT_ONCE, count)
        rows = data[start + first * _ROW.size : start + last * _ROW.size]
        yield [_producer(*row) for row in _ROW.iter_unpack(rows)]


def _producer(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    delta: int,
    timestamp_ms: int,
    coordinator_epoch: int,
    transaction_start: int,
) -> Producer:
    producer = Producer(producer_id, epoch)
    producer.coordinator_epoch = coordinator_epoch
    producer.last_timestamp_ms = timestamp_ms
    if transaction_start >= 0:
        producer.transaction_start = transaction_start
    if last_offset >= 0:
        first_sequence = (last_sequence - delta) % _SEQUENCES if last_sequence >= 0 else last_sequence
        batch = SeenBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp_ms)
        producer.batches.append(batch)
        producer.next_sequence = (last_sequence + 1) & MAX_SEQUENCE
    return producer


class RowsInTime:
    """The rows of producers as they are now, encoded in another thread while the producers continue."""

    __slots__ = ("_producers", "_row_of", "_rows")

    def __init__(self, producers: Sequence[Producer], row_of: Callable[[Producer], bytes]) -> None:
        self._producers = producers
        self._row_of = row_of
        self._rows: dict[int, bytes] = {}

    def keep(self, producer: Producer) -> None:
        """Keep the row of this producer, which is about to change."""
        if producer.producer_id not in self._rows:
            self._rows[producer.producer_id] = self._row_of(producer)

    def encode(self) -> bytes:
        """Return the file's bytes. A kept row replaces the producer's present row, which may mix old and new values."""
        rows, row_of = self._rows, self._row_of
        return encode([rows.setdefault(producer.producer_id, row_of(producer)) for producer in self._producers])
