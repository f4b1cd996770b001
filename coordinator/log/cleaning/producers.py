"""What compaction must know of producers (Kafka: CleanedTransactionMetadata, lastRecordsOfActiveProducers).

It needs two facts: which transactions were aborted, and the last batch of each producer. The sequence number of that
batch must not be forgotten.

The facts are read from the log when the first batch of a producer is read. A log without producers costs nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable

from muster.coordinator.log.producers.state import LastRecord, Producers, SeenBatch
from muster.coordinator.log.records.headers import BatchHeader
from muster.coordinator.log.records.markers import EndMarker, Marker
from muster.coordinator.log.segments.transaction_index import AbortedTransaction

Fact = tuple[BatchHeader, Marker | None]
"""A batch of a producer, and its marker. The marker is None for data, and for a control batch that is empty now."""
LastRecordOf = Callable[[int], LastRecord | None]
"""Returns the last record of a producer in the whole log; None when the producer is forgotten."""


class Undecided(Exception):
    """A transaction in the part to compact has no end there: nothing from `offset` on may be changed yet."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"the transaction at offset {offset} is not decided")
        self.offset = offset


class ProducersInLog:
    """The producers of a part of a log."""

    __slots__ = ("_aborted", "_is_read", "_last_record_of", "_markers", "_newest_before_ms", "_open_from", "_read",
                 "_state")  # fmt: skip

    def __init__(
        self, read: Callable[[], Iterable[Fact]], *, newest_before_ms: int, last_record_of: LastRecordOf | None = None
    ) -> None:
        """`read`: yields all batches with a producer id, in order. `last_record_of`: what the log knows of a producer.

        Without `last_record_of` the end of the part counts. A producer without a batch since `newest_before_ms` (wall)
        is then forgotten (`producer.id.expiration.ms`).
        """
        self._read = read
        self._newest_before_ms = newest_before_ms
        self._last_record_of = last_record_of or self._last_in_part
        self._is_read = False
        self._markers: dict[int, tuple[list[int], list[bool]]] = {}
        self._open_from: dict[int, int] = {}
        self._aborted: dict[int, AbortedTransaction] = {}
        """By the offset of the marker."""
        self._state = Producers()

    def _read_once(self) -> None:
        if self._is_read:
            return
        self._is_read = True
        for header, marker in self._read():
            producer_id, epoch, offset = header.producer_id, header.producer_epoch, header.base_offset
            if header.is_control:
                offsets, kinds = self._markers.setdefault(producer_id, ([], []))
                offsets.append(offset)
                # an empty marker ended a transaction without remaining records
                kinds.append(marker is None or marker.is_committed)
                self._open_from.pop(producer_id, None)
                if marker is not None:
                    ended = EndMarker(producer_id, epoch, marker.is_committed, marker.coordinator_epoch, 0)
                    aborted = self._state.marked(ended, offset, header.max_timestamp)
                    if aborted is not None:
                        self._aborted[offset] = aborted
            else:
                batch = SeenBatch(-1, -1, offset, header.last_offset, header.max_timestamp)
                self._state.appended(producer_id, epoch, batch, header.is_transactional)
                if header.is_transactional:
                    self._open_from.setdefault(producer_id, offset)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of data belongs to an aborted transaction. Raises Undecided."""
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

    def aborted_at(self, offset: int) -> AbortedTransaction | None:
        """The transaction that the marker at `offset` aborted, as in the transaction index."""
        self._read_once()
        return self._aborted.get(offset)

    def must_stay(self, header: BatchHeader) -> bool:
        """Whether compaction must keep the batch for its producer's sequence or epoch, even without records.

        It must keep a producer's last batch of data. It must keep a marker if the producer has no data in its newest
        epoch yet.
        """
        if header.producer_id < 0:
            return False
        last = self._last_record_of(header.producer_id)
        if last is None:
            return False
        if last.data_offset is None:
            return header.is_control and header.producer_epoch == last.epoch
        return last.data_offset == header.last_offset

    def _last_in_part(self, producer_id: int) -> LastRecord | None:
        self._read_once()
        producer = self._state.get(producer_id)
        if producer is None:
            return None
        is_forgotten = producer.transaction_start is None and producer.last_timestamp_ms < self._newest_before_ms
        return None if is_forgotten else self._state.last_record(producer_id)
