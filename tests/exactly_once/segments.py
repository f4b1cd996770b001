"""Reads the content of a broker's data directory: batches, markers, and records of the two internal topics.

The outside checker uses it, so it imports nothing of the product. It reads Kafka's directories as well.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TRANSACTIONAL, CONTROL, CODEC = 0x10, 0x20, 0x07
OVERHEAD = 61
"""Bytes of a batch before its records."""
ABORT, COMMIT = 0, 1
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
STATES = {
    0: "Empty",
    1: "Ongoing",
    2: "PrepareCommit",
    3: "PrepareAbort",
    4: "CompleteCommit",
    5: "CompleteAbort",
    6: "Dead",
    7: "PrepareEpochFence",
}


class Place(NamedTuple):
    """A partition."""

    topic: str
    partition: int


class Record(NamedTuple):
    """One record of a batch."""

    offset: int
    key: bytes | None
    value: bytes | None


class Batch(NamedTuple):
    """One batch, with its transaction fields."""

    base_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    attributes: int
    records: list[Record]

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether it is a marker."""
        return bool(self.attributes & CONTROL)

    @property
    def marker(self) -> tuple[int, int]:
        """ABORT or COMMIT, and the epoch of the coordinator that decided it."""
        record = self.records[0]
        assert record.key is not None
        assert record.value is not None
        kind: int = struct.unpack_from(">hh", record.key)[1]
        coordinator_epoch: int = struct.unpack_from(">hi", record.value)[1]
        return kind, coordinator_epoch


def partitions(data_dir: Path) -> Iterator[tuple[Place, Path]]:
    """The partitions of a data directory."""
    for folder in sorted(data_dir.iterdir()):
        topic, dash, number = folder.name.rpartition("-")
        if folder.is_dir() and dash and number.isdigit() and topic and topic != "__cluster_metadata":
            yield Place(topic, int(number)), folder


def batches(folder: Path) -> Iterator[Batch]:
    """The batches of a partition, oldest first. Raises ValueError if the bytes are no log."""
    following = -1
    for path in sorted(folder.glob("*.log")):
        data, at = path.read_bytes(), 0
        while at + 12 <= len(data):
            base, size = struct.unpack_from(">qi", data, at)
            if not size:
                if any(data[at:]):
                    raise ValueError(f"{path}: zeros at {at}, and more behind them")
                break  # space allocated in advance by a server that did not end in order
            if at + 12 + size > len(data):
                raise ValueError(f"{path}: the batch at {at} is cut off")
            batch = _batch(data[at : at + 12 + size])
            if base < following:
                raise ValueError(f"{path}: offset {base} comes after {following - 1}")
            following = batch.last_offset + 1
            yield batch
            at += 12 + size


def _batch(data: bytes) -> Batch:
    base, _, _, magic, _, attributes, last = struct.unpack_from(">qiibIhi", data)
    if magic != 2:
        raise ValueError(f"a batch of magic {magic}")
    if attributes & CODEC:
        raise ValueError("a batch that is compressed: the workers do not compress")
    producer_id, epoch, _, count = struct.unpack_from(">qhii", data, 43)
    at, records = OVERHEAD, []
    for _ in range(count):
        size, at = _varint(data, at)
        end = at + size
        _, at = _varint(data, at + 1)
        delta, at = _varint(data, at)
        key, at = _bytes(data, at)
        value, at = _bytes(data, at)
        records.append(Record(base + delta, key, value))
        at = end
    return Batch(base, base + last, producer_id, epoch, attributes, records)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    raw, at = _unsigned(data, at)
    return (raw >> 1) ^ -(raw & 1), at


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return raw, at


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)


class OffsetRecord(NamedTuple):
    """A committed offset; `offset` None: it was deleted."""

    group: str
    place: Place
    offset: int | None


def offset_record(record: Record) -> OffsetRecord | None:
    """A record of `__consumer_offsets`; None if it is no offset record."""
    assert record.key is not None
    if struct.unpack_from(">h", record.key)[0] not in (0, 1):
        return None
    group, at = _string(record.key, 2)
    topic, at = _string(record.key, at)
    (partition,) = struct.unpack_from(">i", record.key, at)
    offset = None if record.value is None else struct.unpack_from(">hq", record.value)[1]
    return OffsetRecord(group, Place(topic, partition), offset)


def _string(data: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">h", data, at)
    return data[at + 2 : at + 2 + size].decode(), at + 2 + size


class TransactionRecord(NamedTuple):
    """A record of `__transaction_state`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    places: tuple[Place, ...]


def transaction_record(record: Record) -> TransactionRecord | None:
    """A record of `__transaction_state`; None if it is a tombstone."""
    assert record.key is not None
    transactional_id, _ = _string(record.key, 2)
    if record.value is None:
        return None
    version, producer_id, epoch, _, state = struct.unpack_from(">hqhib", record.value)
    at, places = 17, list[Place]()
    if version:
        count, at = _unsigned(record.value, at)
        for _ in range(count - 1):
            size, at = _unsigned(record.value, at)
            topic, at = record.value[at : at + size - 1].decode(), at + size - 1
            numbers, at = _unsigned(record.value, at)
            places += [Place(topic, n) for n in struct.unpack_from(f">{numbers - 1}i", record.value, at)]
            at += 4 * (numbers - 1)
            _, at = _unsigned(record.value, at)  # no tagged fields are known here
    else:
        (count,) = struct.unpack_from(">i", record.value, at)
        at += 4
        for _ in range(count):
            topic, at = _string(record.value, at)
            (numbers,) = struct.unpack_from(">i", record.value, at)
            places += [Place(topic, n) for n in struct.unpack_from(f">{numbers}i", record.value, at + 4)]
            at += 4 + 4 * numbers
    return TransactionRecord(transactional_id, producer_id, epoch, STATES[state], tuple(sorted(places)))


class Aborted(NamedTuple):
    """An entry of a transaction index."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def aborted(folder: Path) -> list[Aborted]:
    """The entries of a partition's transaction indexes."""
    files = [path.read_bytes() for path in sorted(folder.glob("*.txnindex"))]
    return [Aborted(*row[1:]) for data in files for row in struct.iter_unpack(">hqqqq", data)]
