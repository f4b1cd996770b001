"""Makes raw rows of record batches v2, many batches at once (numpy and Arrow).

A record (KIP-98) has these fields: varint length of the rest, attributes int8, varint timestamp delta (ms), varint
offset delta. Then varint key length (-1: no key), key, varint value length (-1: tombstone), value, headers. Varints are
zigzag. The start of a record depends on the record before. So the first records of all batches are read together, then
all second records, and so on. If only few batches have more records, these are read one by one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from muster.pipeline.gather import PAD, Ints, Mask, Octets, byte_slices, integers, numbers, varints
from muster.pipeline.schema import RAW
from muster.pipeline.sources.segment_reader import HEADER_SIZE, LENGTH_OVERHEAD, UNREADABLE, Damage, Stretch, unpacked

LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
_CODEC: Final = 0x07
_SMALLEST: Final = 7
"""The size in bytes of a record without key, value and headers."""
_FEW: Final = 24
"""Reading together is quicker while at least this number of batches has a next record."""


class Batches(NamedTuple):
    """The headers of the batches of a stretch. Each field of the header is a column."""

    data: Octets
    source: bytes
    position: Ints
    size: Ints
    base_offset: Ints
    attributes: Ints
    base_timestamp: Ints
    max_timestamp: Ints
    producer_id: Ints
    producer_epoch: Ints
    record_count: Ints

    @property
    def is_control(self) -> Mask:
        """Whether a batch is a control batch with a marker."""
        found: Mask = self.attributes & CONTROL != 0
        return found

    @property
    def is_transactional(self) -> Mask:
        """Whether a batch belongs to a transaction; markers do."""
        found: Mask = self.attributes & TRANSACTIONAL != 0
        return found

    def only(self, kept: Mask) -> Batches:
        """The batches for which `kept` is true."""
        data, source, *columns = self
        return Batches(data, source, *(column[kept] for column in columns))


class Rows(NamedTuple):
    """The records of some batches: the bounds of key and value in `data`, and the facts of the record's batch."""

    data: Octets
    batch: Ints
    offset: Ints
    timestamp: Ints
    key: tuple[Ints, Ints, Mask]
    value: tuple[Ints, Ints, Mask]


def headers_of(stretch: Stretch) -> Batches:
    """The headers of all batches of a stretch."""
    source = stretch.data
    data: Octets = np.frombuffer(source, np.uint8)
    at: Ints = np.array(stretch.batches, np.int64)
    if not len(at):
        data = np.zeros(HEADER_SIZE, np.uint8)
    return Batches(
        data,
        source,
        at,
        integers(data, at + 8, 4) + LENGTH_OVERHEAD,
        integers(data, at, 8),
        integers(data, at + 21, 2),
        integers(data, at + 27, 8),
        integers(data, at + 35, 8),
        integers(data, at + 43, 8),
        integers(data, at + 51, 2),
        integers(data, at + 57, 4),
    )


def rows_of(batches: Batches) -> tuple[Rows, list[Damage]]:
    """All records of these batches in their order, and the damaged batches, which are left out."""
    damages: list[Damage] = []
    source, data, starts, ends, good = _payloads(batches, damages)
    possible = good & (batches.record_count >= 0) & (batches.record_count <= (ends - starts) // _SMALLEST)
    counts = np.where(possible, batches.record_count, 0)
    first = np.cumsum(counts) - counts
    record, fits = _record_starts(source, data, starts, ends, counts, first)
    fits &= possible
    batch = np.repeat(np.arange(len(counts)), counts)
    rows, whole = _fields(data, record, batch, batches)
    fits[batch[~whole]] = False
    for index in np.flatnonzero(good & ~fits):
        offset = int(batches.base_offset[index])
        damages.append(Damage(offset, f"the records of the batch at offset {offset} do not hold together"))
    return rows if fits.all() else _without(rows, fits[batch]), damages


def arrow_of(rows: Rows, batches: Batches, topic: str, partition: int) -> pa.RecordBatch:
    """The rows as a batch of schema.RAW."""
    count = len(rows.batch)
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(topic), count),
            pa.repeat(pa.scalar(partition, pa.int32()), count),
            numbers(rows.offset, pa.int64()),
            numbers(rows.timestamp, pa.int64()),
            byte_slices(rows.data, *rows.key),
            byte_slices(rows.data, *rows.value),
            numbers(batches.producer_id[rows.batch], pa.int64()),
            numbers(batches.producer_epoch[rows.batch], pa.int16()),
            pa.array(batches.is_transactional[rows.batch]),
            pa.nulls(count, pa.string()),
        ],
        schema=RAW,
    )


def _payloads(batches: Batches, damages: list[Damage]) -> tuple[bytes, Octets, Ints, Ints, Mask]:
    """The uncompressed records of each batch: a buffer, the bounds in it, and which batches are readable.

    The buffer is returned as bytes and as an array.
    """
    good = np.ones(len(batches.position), np.bool_)
    starts, ends = batches.position + HEADER_SIZE, batches.position + batches.size
    if not (batches.attributes & _CODEC).any():
        return batches.source, batches.data, starts, ends, good
    parts: list[bytes] = []
    for index, (start, end, attributes) in enumerate(
        zip(starts.tolist(), ends.tolist(), batches.attributes.tolist(), strict=True)
    ):
        part = batches.source[start:end]
        codec = attributes & _CODEC
        if codec:
            try:
                part = unpacked(codec, part)
            except UNREADABLE as error:
                good[index] = False
                offset = int(batches.base_offset[index])
                text = f"the compressed records of the batch at offset {offset} cannot be read: {error}"
                damages.append(Damage(offset, text))
                part = b""
        parts.append(part)
    sizes: Ints = np.array([len(part) for part in parts], np.int64)
    ends = np.cumsum(sizes)
    source = b"".join((*parts, bytes(PAD)))
    return source, np.frombuffer(source, np.uint8), ends - sizes, ends, good


def _record_starts(
    source: bytes, data: Octets, starts: Ints, ends: Ints, counts: Ints, first: Ints
) -> tuple[Ints, Mask]:
    """The start of each record, batch after batch.

    Also which batches have exactly the number of records that they should have.
    """
    found = np.zeros(int(counts.sum()), np.int64)
    at = starts.copy()
    fits = np.ones(len(starts), np.bool_)
    done = 0
    active = np.flatnonzero(counts > 0)
    while len(active) > _FEW:
        here = at[active]
        found[first[active] + done] = here
        size, body = varints(data, here)
        possible = (size >= 0) & (size <= ends[active] - body)
        at[active] = np.where(possible, body + size, here)
        fits[active[~possible]] = False
        done += 1
        active = active[possible & (counts[active] > done)]
    for index in active.tolist():
        at[index], fits[index] = _walk(
            source, found, int(first[index]), done, int(counts[index]), at[index], ends[index]
        )
    return found, fits & (at == ends)


def _walk(source: bytes, found: Ints, first: int, done: int, count: int, start: int, end: int) -> tuple[int, bool]:
    """Find the remaining records of one batch. Returns where they end, and whether they fit into the batch."""
    at, stop = int(start), int(end)
    places: list[int] = []
    for _ in range(done, count):
        places.append(at)
        size = shift = 0
        while at < stop and source[at] >= 128 and shift <= 63:
            size |= (source[at] & 127) << shift
            shift += 7
            at += 1
        if at >= stop:
            return at, False
        size |= source[at] << shift
        at += 1 + (size >> 1)
        if size & 1 or at > stop:
            return at, False
    found[first + done : first + count] = places
    return at, True


def _fields(data: Octets, record: Ints, batch: Ints, batches: Batches) -> tuple[Rows, Mask]:
    """The fields of the records, and which records are complete."""
    size, body = varints(data, record)
    end = body + size
    timestamp_delta, at = varints(data, body + 1)
    offset_delta, at = varints(data, at)
    key_size, key_start = varints(data, at)
    whole = (key_start <= end) & (key_size >= -1) & (key_size <= end - key_start)
    key_end = key_start + np.where(whole, np.maximum(key_size, 0), 0)
    value_size, value_start = varints(data, key_end)
    whole &= (value_start <= end) & (value_size >= -1) & (value_size <= end - value_start)
    value_end = value_start + np.where(whole, np.maximum(value_size, 0), 0)
    appended = batches.attributes[batch] & LOG_APPEND_TIME != 0
    timestamp = np.where(appended, batches.max_timestamp[batch], batches.base_timestamp[batch] + timestamp_delta)
    return (
        Rows(
            data,
            batch,
            batches.base_offset[batch] + offset_delta,
            timestamp,
            (key_start, key_end, whole & (key_size >= 0)),
            (value_start, value_end, whole & (value_size >= 0)),
        ),
        whole,
    )


def _without(rows: Rows, kept: Mask) -> Rows:
    data, batch, offset, timestamp, key, value = rows
    (start, end, valid), (value_start, value_end, value_valid) = key, value
    kept_key = start[kept], end[kept], valid[kept]
    kept_value = value_start[kept], value_end[kept], value_valid[kept]
    return Rows(data, batch[kept], offset[kept], timestamp[kept], kept_key, kept_value)
