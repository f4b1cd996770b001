"""The core's records <-> batches of __consumer_offsets. Knows formats only: appends nothing, decides nothing.

Records that no core replays (key types of a later Kafka, other kinds of groups, control batches) stay in the log as
they are and are told of once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import structlog

from muster.coordinator.groups.interface import Now, Record
from muster.coordinator.groups.records import to_bytes
from muster.coordinator.log import batches
from muster.protocol.message import MalformedMessage, Message
from muster.protocol.records import OFFSETS, UnknownRecord

log = structlog.get_logger("muster.shard")


Row = tuple[bytes, bytes | None]
"""Key and value of a record that is written; a value of None is a tombstone."""


class OffsetsLogCodec:
    """What a shard's `Codec` is in the running server; `partition` is for log lines."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._told: set[tuple[int, int | None]] = set()

    def encode(self, records: Sequence[Record]) -> tuple[list[Row], int]:
        """Key and value of each record as they stand in the log, and the bytes of them all."""
        if len(records) == 1:  # a commit, nearly always
            row = to_bytes(records[0])
            return [row], len(row[0]) + len(row[1] or b"")
        rows = [to_bytes(record) for record in records]
        return rows, sum(len(key) + len(value or b"") for key, value in rows)

    def build(self, rows: Sequence[Row], now: Now) -> bytearray:
        """One batch with these rows, stamped with the wall clock."""
        if _keys:
            _keys.clear()
        return batches.build(rows, timestamp_ms=now.wall_ms)

    def read(self, chunk: bytes) -> Iterator[tuple[Message, Message | None]]:
        """Key and value (None: a tombstone) of each record that a core knows how to replay."""
        for header, rows in batches.read(chunk):
            if header.is_control:
                continue
            for row in rows:
                if row.key is None:
                    continue
                try:
                    kind, key = OFFSETS.decode_key(row.key)
                    yield key, None if row.value is None else OFFSETS.decode_value(kind, row.value)[1]
                except UnknownRecord as error:
                    self._tell(error)
                except MalformedMessage as error:
                    log.error(
                        "skipped a record that cannot be read",
                        partition=self._partition,
                        offset=row.offset,
                        error=str(error),
                    )

    def _tell(self, unknown: UnknownRecord) -> None:
        what = (unknown.type, unknown.version)
        if what not in self._told:
            self._told.add(what)
            log.warning("records of an unknown kind are left alone", partition=self._partition, what=str(unknown))
