"""What compaction must know of producers: which of their transactions were aborted, and which batch is the last of
each, since its sequence number must not be forgotten (Kafka: CleanedTransactionMetadata, lastRecordsOfActiveProducers).

Made from the log itself when the first batch of a producer is met; a log without producers costs nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable

from muster.coordinator.log.records.headers import BatchHeader

Fact = tuple[BatchHeader, bool]
"""A batch of a producer, and whether it is a marker that commits."""


class Undecided(Exception):
    """A transaction in the part to be compacted has no end there: nothing from `offset` on may be touched yet."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"the transaction at offset {offset} is not decided")
        self.offset = offset


class ProducersInLog:
    """The producers of a part of a log."""

    __slots__ = ("_is_read", "_last_data", "_last_marker", "_markers", "_newest_before_ms", "_open_from", "_read")

    def __init__(self, read: Callable[[], Iterable[Fact]], *, newest_before_ms: int) -> None:
        """`read`: all batches with a producer id, in order. A producer that wrote nothing since `newest_before_ms`
        (wall) is forgotten (`producer.id.expiration.ms`).
        """
        self._read = read
        self._newest_before_ms = newest_before_ms
        self._is_read = False
        self._markers: dict[int, tuple[list[int], list[bool]]] = {}
        self._last_data: dict[int, int] = {}
        self._last_marker: dict[int, int] = {}
        self._open_from: dict[int, int] = {}

    def _read_once(self) -> None:
        if self._is_read:
            return
        self._is_read = True
        for header, commits in self._read():
            producer_id = header.producer_id
            if header.is_control:
                offsets, kinds = self._markers.setdefault(producer_id, ([], []))
                offsets.append(header.base_offset)
                kinds.append(commits)
                self._last_marker[producer_id] = header.last_offset
                self._open_from.pop(producer_id, None)
            else:
                self._last_data[producer_id] = header.last_offset
                if header.is_transactional:
                    self._open_from.setdefault(producer_id, header.base_offset)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of data belongs to a transaction that was aborted. Raises Undecided."""
        if header.producer_id < 0:
            return False
        self._read_once()
        if not header.is_transactional:
            return False
        offsets, kinds = self._markers.get(header.producer_id, ((), ()))
        index = bisect_right(offsets, header.base_offset)
        if index == len(kinds):
            raise Undecided(self._open_from[header.producer_id])
        return not kinds[index]

    def must_stay(self, header: BatchHeader) -> bool:
        """Whether the batch, if need be without records, must be kept for its producer's sake."""
        if header.producer_id < 0 or header.max_timestamp < self._newest_before_ms:
            return False
        self._read_once()
        last = self._last_data.get(header.producer_id)
        if last is None:
            return header.is_control and self._last_marker[header.producer_id] == header.last_offset
        return last == header.last_offset
