"""Converts the core's records to batches of __share_group_state and back. This module decides nothing.

The core has to know the offsets of its records. So a `LogPosition` stands at the beginning of a batch, and wherever
records are left out. Left out are records of a later Kafka, and records that cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from muster.coordinator.log.records.building import build_packed
from muster.coordinator.log.records.compression import UNPACKED_LIMIT, unpack
from muster.coordinator.log.records.headers import BatchHeader, demand_crc, read_header
from muster.coordinator.log.records.reader import LogRecord, records_of
from muster.coordinator.runtime.loader import Unreadable
from muster.coordinator.share_state.state import LogPosition
from muster.coordinator.state_machine.interface import Decoded, Now, Producer, Record
from muster.protocol.message import MalformedMessage
from muster.protocol.records import SHARE_STATE, UnknownRecord, pack_record


class RecordCodec:
    """The `interfaces.RecordCodec` of a shard in the running server. `partition` is for log lines."""

    __slots__ = ("_partition",)

    def __init__(self, partition: int) -> None:
        self._partition = partition

    def encode(self, records: Sequence[Record]) -> tuple[list[bytes], int]:
        """Each record as its bytes in a batch, and the total number of bytes."""
        rows = [pack_record(SHARE_STATE, record) for record in records]
        return rows, sum(map(len, rows))

    def build(self, rows: Sequence[bytes], now: Now, producer: Producer | None) -> bytearray:
        """One batch with these rows and the wall clock's timestamp."""
        return build_packed(rows, timestamp_ms=now.wall_ms, producer=producer)

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
        """The records of a chunk. Raises CorruptBatch when a batch is damaged."""
        at = 0
        while at < len(chunk):
            header = read_header(chunk, at)
            self.offset = header.base_offset
            batch = chunk[at : at + header.size]
            demand_crc(batch, header)
            yield self._decoded(_records(batch, header), header.next_offset)
            at += header.size

    def rest(self) -> Iterator[Decoded]:
        """Return nothing: `read` keeps no records back."""
        return iter(())

    def _decoded(self, records: Sequence[LogRecord], next_offset: int) -> Iterator[Decoded]:
        at = -1
        for record in records:
            if record.key is None:
                continue
            try:
                kind, key = SHARE_STATE.decode_key(record.key)
                value = None if record.value is None else SHARE_STATE.decode_value(kind, record.value)[1]
            except (UnknownRecord, MalformedMessage) as error:
                self._unreadable.report(error)
                continue
            if record.offset != at:
                yield LogPosition(record.offset), None
            at = record.offset + 1
            yield key, value
        if at != next_offset:
            yield LogPosition(next_offset), None


def _records(batch: bytes, header: BatchHeader) -> list[LogRecord]:
    """The records of a batch. A control batch has no records of share partitions."""
    if header.is_control:
        return []
    if header.compression:
        batch = bytes(unpack(batch, header, UNPACKED_LIMIT))
    return records_of(batch, header.base_offset)
