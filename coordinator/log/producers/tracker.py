"""The producers' state of one log (Kafka: ProducerStateManager): made from the log when it is first needed, and kept up
with each append from then on.

A log that no producer with an id writes to and that no reader of committed records reads costs nothing.
"""

from __future__ import annotations

import struct

from muster.coordinator.log.producers import checks
from muster.coordinator.log.producers.state import EndMarker, Producer, Producers, SeenBatch
from muster.coordinator.log.producers.verification import NOT_NEEDED, Guard, Verifications
from muster.coordinator.log.records import batches
from muster.coordinator.log.records.headers import BatchHeader, Buffer
from muster.coordinator.log.segments import walk
from muster.coordinator.log.segments.log_segments import LogSegments
from muster.coordinator.log.segments.segment import Segment
from muster.coordinator.log.segments.transaction_index import AbortedTransaction
from muster.coordinator.slices import Job

_STEP_BYTES = 256 * 1024
_STEP_BATCHES = 500
"""What one step of reading the log looks at."""
_MARKER_EPOCH = struct.Struct(">hi")
"""EndTxnMarker: version, coordinator epoch."""


class ProducerTracker:
    """What one log knows of its producers, up to its end."""

    __slots__ = ("_aborted", "_at", "_position", "_producers", "_seen", "_segments", "is_loaded", "verifications")

    def __init__(self, segments: LogSegments) -> None:
        self._segments = segments
        self.is_loaded = False
        """The state reaches to the end of the log; each append keeps it so."""
        self._producers = Producers()
        self._aborted: list[AbortedTransaction] = []
        self.verifications = Verifications()
        self._seen = -1
        """How far the log was read; -1: not at all."""
        self._at: Segment | None = None
        self._position = 0

    # -- coming to know the log

    def loading(self) -> Job[None]:
        """A job after which the state is at hand: the other methods take no time then. DamagedLog or OSError."""
        while not self.is_loaded:
            self._read_on()
            yield None

    @property
    def producers(self) -> Producers:
        """The state at the log's end; read at once when it is not at hand (`loading` does it in slices)."""
        while not self.is_loaded:
            self._read_on()
        return self._producers

    def forget(self) -> None:
        """The log was cut: what is known of its producers may be too much."""
        self.is_loaded = False
        self._producers = Producers()
        self._aborted = []
        self._seen = -1
        self._at = None

    def _read_on(self) -> None:
        """Look at some more batches."""
        segments = self._segments
        if self._seen < segments.start_offset:
            self._seen, self._at = segments.start_offset, None
        if self._seen >= segments.end_offset:
            self.is_loaded, self._at = True, None
            return
        segment = self._at
        if segment is None or segment.is_replaced or segment not in segments:
            segment = self._find()
            if segment is None:
                return
        last = segment is segments.active
        for count, (position, header) in enumerate(walk.batches(segment, self._position, segment.size)):
            if header.producer_id >= 0:
                data = segment.file.pread(header.size, position) if header.is_control else b""
                self.take(header, header.base_offset, data)
            self._seen = header.next_offset
            self._position = position + header.size
            if count >= _STEP_BATCHES:
                return
        if not last:
            self._seen = max(self._seen, segments[segments.index(segment) + 1].base_offset)
            self._at = None

    def _find(self) -> Segment | None:
        """The segment in which to read on, with the position; None: none of it is left."""
        for segment in self._segments.since(self._seen):
            where = segment.locate(self._seen) if segment.size else None
            if where is not None:
                self._at, self._position = segment, where[0]
                return segment
        self._seen = self._segments.end_offset
        return None

    # -- what is appended

    def take(self, header: BatchHeader, base_offset: int, data: Buffer) -> None:
        """A batch of a producer stands in the log at `base_offset`. `data`: its bytes, if it is a control batch."""
        if not header.is_control:
            last_offset = base_offset + header.last_offset_delta
            batch = SeenBatch(
                header.base_sequence, header.last_sequence, base_offset, last_offset, header.max_timestamp
            )
            self._producers.appended(header.producer_id, header.producer_epoch, batch, header.is_transactional)
            if header.is_transactional:
                self.verifications.appended(header.producer_id)
            return
        marker = _marker_of(data, header)
        if marker is not None:
            aborted = self._producers.marked(marker, base_offset, header.max_timestamp)
            self.verifications.marked(header.producer_id, header.producer_epoch)
            if aborted is not None:
                self._aborted.append(aborted)

    def check(self, header: BatchHeader, guard: Guard | None) -> SeenBatch | None:
        """May this batch of a client be appended? Returns the earlier append when it is a duplicate of that.

        Raises InvalidProducerEpoch (fenced), InvalidTxnState (part of a transaction that is neither open here nor
        verified, see `verification`), OutOfOrderSequence.
        """
        producer = self.producers.get(header.producer_id)
        seen = checks.earlier_append(producer, header)
        if seen is not None:
            return seen
        if header.is_transactional:
            self.check_transactional(header.producer_id, header.producer_epoch, guard)
        checks.check_epoch(producer, header.producer_id, header.producer_epoch)
        checks.check_sequence(producer, header, self.verifications.get(header.producer_id))
        checks.check_not_in_transaction(producer, header)
        return None

    def check_transactional(self, producer_id: int, epoch: int, guard: Guard | None) -> None:
        """May a batch of a transaction be appended, whatever its sequence? So batches of a coordinator are checked.

        Raises InvalidProducerEpoch or InvalidTxnState.
        """
        producer = self.producers.get(producer_id)
        checks.check_epoch(producer, producer_id, epoch)
        checks.check_verified(producer, epoch, guard is NOT_NEEDED or self.verifications.opens(producer_id, guard))

    def verification(
        self, producer_id: int, epoch: int, sequence: int, *, supports_epoch_bump: bool, now_ms: int
    ) -> Guard | None:
        """The guard with which the first batch of a transaction may be appended, once its coordinator knows that this
        log is part of it. None: the transaction is open here already. Raises InvalidProducerEpoch.
        """
        producer = self.producers.get(producer_id)
        checks.check_epoch(producer, producer_id, epoch)
        if checks.is_in_transaction(producer, epoch):
            return None
        return self.verifications.begin(producer_id, epoch, sequence, supports_epoch_bump, now_ms).guard

    def check_marker(self, marker: EndMarker) -> None:
        """May this marker be appended? Raises InvalidProducerEpoch or TransactionCoordinatorFenced."""
        checks.check_marker(self.producers.get(marker.producer_id), marker)

    # -- what is asked

    def get(self, producer_id: int) -> Producer | None:
        """The state of one producer, if it has any here."""
        return self.producers.get(producer_id)

    def last_stable_offset(self, durable_offset: int) -> int:
        """The offset that readers of committed records may read up to: no transaction is open below it."""
        unstable = self.producers.first_unstable_offset(durable_offset)
        return durable_offset if unstable is None or unstable > durable_offset else unstable

    def aborted_between(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with records in [start, end) (TransactionIndex.collectAbortedTxns)."""
        found = []
        for transaction in self._aborted:
            if transaction.last_offset >= start and transaction.first_offset < end:
                found.append(transaction)
            if transaction.last_stable_offset >= end:
                break
        return found

    def expire(self, now_ms: int, after_ms: int) -> None:
        """Forget producers silent for `after_ms`, and what was asked for so long ago."""
        if self.is_loaded:
            self._producers.expire(now_ms, after_ms)
        self.verifications.expire(now_ms, after_ms)

    def forget_before(self, offset: int) -> None:
        """The log now starts at `offset`: aborted transactions that ended before it can no longer be read."""
        self._aborted = [transaction for transaction in self._aborted if transaction.last_offset >= offset]


def _marker_of(data: Buffer, header: BatchHeader) -> EndMarker | None:
    """The marker in a control batch; None: it has none, compaction has taken it away."""
    for _, records in batches.read(data):
        for record in records:
            kind = batches.control_kind(record)
            if kind in (batches.CONTROL_ABORT, batches.CONTROL_COMMIT):
                value = record.value or b""
                epoch = _MARKER_EPOCH.unpack_from(value)[1] if len(value) >= _MARKER_EPOCH.size else -1
                committed = kind == batches.CONTROL_COMMIT
                return EndMarker(header.producer_id, header.producer_epoch, committed, epoch, 0)
    return None
