"""The producers' state of one log, made from the log itself when it is first needed and kept up from then on.

Nothing is stored beside the log: a partition that no idempotent producer writes to and no reader of committed records
reads costs nothing, and records appended past the partition (the coordinator's own logs) are seen all the same.
"""

from __future__ import annotations

import struct

from muster.coordinator.log import Log, batches
from muster.coordinator.log.records.headers import BatchHeader
from muster.coordinator.topics.producers import Producers, SeenBatch

_MARKER_EPOCH = struct.Struct(">hi")
"""EndTxnMarker: version, coordinator epoch."""


class ProducerHistory:
    """What the log tells of its producers, up to the log's end each time one asks."""

    __slots__ = ("_log", "_producers", "_seen")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._producers: Producers | None = None
        self._seen = 0
        """The offset up to which `_producers` knows the log."""

    @property
    def loaded(self) -> bool:
        """Was the state needed yet?"""
        return self._producers is not None

    def current(self) -> Producers:
        """The state at the log's end."""
        log = self._log
        producers = self._producers
        if producers is None:
            producers = self._producers = Producers()
            self._seen = log.start_offset
        if self._seen < log.end_offset:
            self._catch_up(producers, max(self._seen, log.start_offset))
        return producers

    def appended(self, header: BatchHeader, base_offset: int) -> None:
        """The partition itself has just appended this data batch at `base_offset`."""
        producers = self._producers
        if producers is None or self._seen != base_offset:
            return
        if header.producer_id >= 0:
            _data(producers, header, base_offset)
        self._seen = base_offset + header.last_offset_delta + 1

    def forget_before(self, offset: int) -> None:
        """The log now starts at `offset`."""
        if self._producers is not None:
            self._producers.forget_before(offset)

    def _catch_up(self, producers: Producers, start: int) -> None:
        for header in self._log.headers(start):
            if header.producer_id >= 0:
                if header.is_control:
                    self._marker(producers, header)
                else:
                    _data(producers, header, header.base_offset)
            self._seen = header.next_offset

    def _marker(self, producers: Producers, header: BatchHeader) -> None:
        data = self._log.read(header.base_offset, header.size)
        for _, records in batches.read(data):
            for record in records:
                kind = batches.control_kind(record)
                if kind not in (batches.CONTROL_ABORT, batches.CONTROL_COMMIT):
                    continue
                _, epoch = _MARKER_EPOCH.unpack_from(record.value or b"\0\0\xff\xff\xff\xff")
                committed = kind == batches.CONTROL_COMMIT
                offset, timestamp_ms = header.base_offset, header.max_timestamp
                producers.marked(header.producer_id, header.producer_epoch, epoch, offset, committed, timestamp_ms)


def _data(producers: Producers, header: BatchHeader, base_offset: int) -> None:
    last_offset = base_offset + header.last_offset_delta
    batch = SeenBatch(header.base_sequence, header.last_sequence, base_offset, last_offset, header.max_timestamp)
    producers.appended(header.producer_id, header.producer_epoch, batch, header.is_transactional)
