"""The producers' state of one log (Kafka: ProducerStateManager).

A caller that needs the state loads it, from the newest snapshot and the records after it. From then on each append
updates the state. A log without producers with an id costs nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Final

from muster.coordinator.log.errors import LogError, LogOffline
from muster.coordinator.log.producers.append_checks import (
    NOT_NEEDED,
    VerificationGuard,
    Verifications,
    check_end_marker,
    check_epoch,
    check_not_in_transaction,
    check_sequence,
    check_verified,
    earlier_append,
    is_in_transaction,
)
from muster.coordinator.log.producers.files import InBackground, ProducerFiles
from muster.coordinator.log.producers.state import MAX_SEQUENCE, NO_SEQUENCE, LastRecord, Producer, Producers, SeenBatch
from muster.coordinator.log.records.headers import (
    CONTROL,
    HEADER_SIZE,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    read_header,
    unpack_for_producers,
)
from muster.coordinator.log.records.markers import EndMarker, read_marker
from muster.coordinator.log.segments.log_segments import LogSegments
from muster.coordinator.log.segments.reading import segment_batches
from muster.coordinator.log.segments.segment import Segment
from muster.coordinator.log.segments.transaction_index import AbortedTransaction, TransactionIndex
from muster.coordinator.system.jobs import Job

STEP_BATCHES: Final = 500
FEW_ABORTED: Final = 100
"""A job does not pause for an index with fewer aborted transactions."""
MUCH_BYTES: Final = 64 * 1024 * 1024
"""After a read of this many bytes a snapshot is written at once, for the next start."""
MAX_ENDED: Final = 500
"""When more transactions have ended, those with durable markers are forgotten: maybe no one reads this log."""
_STABLE_OFFSET: Final = attrgetter("last_stable_offset")


class ProducerStateManager:
    """The producers of one log, up to its end."""

    __slots__ = (
        "_at", "_durable_offset", "_files", "_loading", "_max_ended", "_position", "_producers", "_seen", "_segments",
        "is_loaded", "verifications",
    )  # fmt: skip

    def __init__(
        self,
        segments: LogSegments,
        in_background: InBackground,
        durable_offset: Callable[[], int],
        *,
        keeps_batches: bool,
    ) -> None:
        """`durable_offset`: returns how far the log is durable now. `keeps_batches`: see `ProducerFiles`."""
        self._segments = segments
        self._durable_offset = durable_offset
        self._max_ended = MAX_ENDED
        self.is_loaded = False
        """Whether the state is loaded up to the end of the log. From then on each append updates the state."""
        self.verifications = Verifications()
        self._producers = Producers()
        self._files = ProducerFiles(segments, in_background, keeps_batches=keeps_batches)
        self._loading: Iterator[None] | None = None
        self._seen = 0
        self._at: Segment | None = None
        self._position = 0

    # -- loading

    def loading(self) -> Job[None]:
        """A job that loads the state: then the other methods take no time. Raises an error of the log."""
        while not self.is_loaded:
            self._load_on()
            yield None

    @property
    def producers(self) -> Producers:
        """The state at the log's end. A state that is not in memory is loaded at once; `loading` is a job for this."""
        while not self.is_loaded:
            self._load_on()
        return self._producers

    def _load_on(self) -> None:
        steps = self._loading
        if steps is None:
            steps = self._loading = self._load()
        try:
            next(steps)
        except StopIteration:
            self.is_loaded, self._loading = True, None
        except OSError as error:
            self._stop_loading()
            path = f"{self._segments.storage.root}/{error.filename or self._segments.directory}"
            raise LogOffline(path, error.strerror or str(error)) from error
        except LogError:
            self._stop_loading()
            raise

    def _load(self) -> Iterator[None]:
        segments, files = self._segments, self._files
        yield from files.find()
        start_offset, known = segments.start_offset, Producers()
        for offset, producers in files.load_snapshot():
            start_offset = offset
            known.restore(producers)
            yield
        known.restored()
        self._producers = known
        files.cut_indexes(start_offset)
        self._seen, self._at = start_offset, None
        read_bytes = 0
        while self._seen < segments.end_offset:
            read_bytes += self._read_on()
            yield
        self._at = None
        if read_bytes >= MUCH_BYTES:
            files.write_snapshot(self._producers, self._seen)

    def _read_on(self) -> int:
        segments = self._segments
        if self._seen < segments.start_offset:
            self._seen, self._at = segments.start_offset, None  # records were deleted meanwhile
        segment = self._at
        if segment is None or segment not in segments:
            segment = self._at = self._find()
            if segment is None:
                self._seen = segments.end_offset
                return 0
        began = self._position
        for count, (position, header) in enumerate(segment_batches(segment, began, segment.size)):
            if header.producer_id >= 0:
                data = segment.file.pread(header.size if header.is_control else HEADER_SIZE, position)
                self.appended(data, header.base_offset, header.last_offset, header.max_timestamp)
            self._seen = header.next_offset
            self._position = position + header.size
            if count >= STEP_BATCHES:
                return self._position - began
        if segment is not segments.active:
            self._seen = max(self._seen, segments[segments.index(segment) + 1].base_offset)
            self._at = None
            segment.release()
        return self._position - began

    def _find(self) -> Segment | None:
        for segment in self._segments.since(self._seen):
            where = segment.locate(self._seen) if segment.size else None
            if where is not None:
                self._position = where[0]
                return segment
        return None

    # -- changes of the log

    def appended(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Note that a producer's `batch` was appended at these offsets. The state must be loaded. Raises OSError."""
        attributes, producer_id, epoch, sequence = unpack_for_producers(batch)
        if attributes & CONTROL:
            header = read_header(batch)
            found = read_marker(batch, header)
            if found is not None:
                marker = EndMarker(producer_id, epoch, found.is_committed, found.coordinator_epoch, 0)
                self.marked(marker, base_offset, max_timestamp)
            return
        last_sequence = (sequence + last_offset - base_offset) & MAX_SEQUENCE if sequence >= 0 else NO_SEQUENCE
        seen = SeenBatch(sequence, last_sequence, base_offset, last_offset, max_timestamp)
        if attributes & TRANSACTIONAL:
            self._producers.appended(producer_id, epoch, seen, True)
            self.verifications.appended(producer_id)
        else:
            self._producers.appended(producer_id, epoch, seen, False)

    def marked(self, marker: EndMarker, offset: int, timestamp_ms: int) -> None:
        """Note that an end marker was appended at this offset. The state must be loaded. Raises OSError."""
        producers = self._producers
        aborted = producers.marked(marker, offset, timestamp_ms)
        if producers.ended_count > self._max_ended:
            producers.forget_ended(self._durable_offset())
            self._max_ended = max(MAX_ENDED, 2 * producers.ended_count)
        self.verifications.marked(marker.producer_id, marker.producer_epoch)
        if aborted is not None:
            self._files.aborted(aborted)

    def rolled(self, old: Segment) -> None:
        """Note that a new segment begins at the log's end. Raises OSError when the snapshot cannot be written."""
        self._files.rolled(old.base_offset)
        if self.is_loaded:
            self._files.write_snapshot(self._producers, self._segments.end_offset)

    def removed(self, segments: list[Segment]) -> None:
        """Note that these segments were removed with their files."""
        if self.is_loaded:
            self._files.removed([segment.base_offset for segment in segments])
        else:
            self._stop_loading()

    def compacted(self, old: list[Segment], index: TransactionIndex | None) -> None:
        """Note that a compacted segment has replaced these segments. `index`: its aborted transactions."""
        if self.is_loaded:
            self._files.replaced([segment.base_offset for segment in old], index)
        else:
            self._stop_loading()

    def swap_ended(self, segment: Segment) -> None:
        """Note that the files of a segment that replaced others have their own names now."""
        self._files.swap_ended(segment.base_offset)

    def cut(self) -> None:
        """Note that the log was cut: the state may have producers of removed records. Raises OSError."""
        self._files.forget()
        self.verifications = Verifications()
        self._stop_loading()

    def _stop_loading(self) -> None:
        self.is_loaded = False
        self._loading = self._at = None
        self._producers = Producers()

    def close(self) -> None:
        """Write a snapshot for the next start: the log is complete and on the disk. Raises OSError."""
        if self.is_loaded:
            self._files.write_snapshot(self._producers, self._segments.end_offset, wait=True)

    def abandon(self) -> None:
        """Write nothing more."""
        self._files.abandon()
        self._stop_loading()

    # -- what may be appended

    def check(self, header: BatchHeader, guard: VerificationGuard | None) -> SeenBatch | None:
        """Check whether a client may append this batch. Returns the earlier append that the batch duplicates, or None.

        Raises InvalidProducerEpoch (fenced) or OutOfOrderSequence; InvalidTxnState for a transaction that is neither
        open in this log nor verified, see `verification`.
        """
        producer = self.producers.get(header.producer_id)
        if (
            producer is not None
            and producer.epoch == header.producer_epoch
            and header.base_sequence == producer.next_sequence
            and producer.transaction_start is None
            and not header.attributes & TRANSACTIONAL
            and not self.verifications
        ):
            return None  # the usual case: the checks below give the same result in four times the time
        seen = earlier_append(producer, header)
        if seen is not None:
            return seen
        if header.is_transactional:
            self.check_transactional(header.producer_id, header.producer_epoch, guard)
        check_epoch(producer, header.producer_id, header.producer_epoch)
        check_sequence(producer, header, self.verifications.get(header.producer_id))
        check_not_in_transaction(producer, header)
        return None

    def check_transactional(self, producer_id: int, epoch: int, guard: VerificationGuard | None) -> None:
        """Check a coordinator's batch of a transaction. Raises InvalidProducerEpoch or InvalidTxnState."""
        producers = self._producers if self.is_loaded else self.producers
        producer = producers.get(producer_id)
        check_epoch(producer, producer_id, epoch)
        check_verified(producer, epoch, guard is NOT_NEEDED or self.verifications.opens(producer_id, guard))

    def verification(
        self, producer_id: int, epoch: int, sequence: int, *, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard | None:
        """Return the guard for a transaction's first batch; None when it is open. Raises InvalidProducerEpoch."""
        producers = self._producers if self.is_loaded else self.producers
        producer = producers.get(producer_id)
        check_epoch(producer, producer_id, epoch)
        if is_in_transaction(producer, epoch):
            return None
        return self.verifications.begin(producer_id, epoch, sequence, supports_epoch_bump, now_ms).guard

    def check_marker(self, marker: EndMarker) -> None:
        """Check whether this marker may be appended. Raises InvalidProducerEpoch or TransactionCoordinatorFenced."""
        producers = self._producers if self.is_loaded else self.producers
        check_end_marker(producers.get(marker.producer_id), marker)

    # -- queries

    def get(self, producer_id: int) -> Producer | None:
        """The state of one producer; None when the log does not know it."""
        return self.producers.get(producer_id)

    @property
    def last_record_of(self) -> Callable[[int], LastRecord | None] | None:
        """Return a function for the last record of a producer, in any thread; None when the state is not loaded."""
        return self._producers.last_record if self.is_loaded else None

    def last_stable_offset(self, durable_offset: int) -> int:
        """The offset up to which readers of committed records may read: no transaction is open below it."""
        producers = self._producers if self.is_loaded else self.producers
        if producers.is_stable:
            return durable_offset
        unstable = producers.first_unstable_offset(durable_offset)
        if unstable is None or unstable >= durable_offset:
            return durable_offset
        return max(unstable, self._segments.start_offset)

    @property
    def has_aborted(self) -> bool:
        """Whether any transaction in the log was aborted. The state must be loaded."""
        return bool(self._files.indexes)

    def aborted_in_memory(self, offset: int, size: int) -> list[AbortedTransaction] | None:
        """The result of `aborted_in` when it is small and in memory; else None. The state must be loaded."""
        found: list[AbortedTransaction] = []
        indexes = self._files.indexes
        if not indexes:
            return found
        first, end = self._upper_bound(offset, size)
        for base_offset, index in indexes.items():
            if base_offset < first:
                continue
            is_last = index.add_from_memory(found, offset, end)
            if is_last:
                break
            if is_last is None or len(found) > FEW_ABORTED:
                return None
        return found

    def aborted_in(self, offset: int, size: int) -> Job[list[AbortedTransaction]]:
        """A job that finds the aborted transactions for a reader, as Kafka's LocalLog.addAbortedTransactions."""
        found: list[AbortedTransaction] = []
        first, end = self._upper_bound(offset, size)
        for base_offset, index in list(self._files.indexes.items()):
            if base_offset < first or index.last_offset < offset:
                continue
            for part in index.since(offset):
                # last stable offsets rise: no entry matters after the first one at or above the end
                is_last = part[-1].last_stable_offset >= end
                if is_last:
                    at_end = bisect_left(part, end, key=_STABLE_OFFSET)
                    part = part[: at_end + 1]
                found += [aborted for aborted in part if aborted.first_offset < end]
                if is_last:
                    return found
                if len(part) >= FEW_ABORTED:
                    yield None
        return found

    def _upper_bound(self, offset: int, size: int) -> tuple[int, int]:
        """Return the base offset of the reader's segment, and the first offset that does not concern the reader."""
        segments = self._segments
        active = segments.active
        for segment in segments.since(offset):
            # the reader's offset was located just now: another search would take a third of this function's time
            where = segment.last_read if segment.last_read[0] == offset else self._located(segment, offset)
            if where is None:
                continue
            index = segment.index()
            positions = index.positions
            end = where[1] + size
            entry = bisect_left(positions, end)
            if entry == 0 and positions and positions[0] == end:
                entry = 1  # this is as in Kafka's search, which never reaches the first entry itself
            base_offset = segment.base_offset
            if entry < len(positions):
                return base_offset, base_offset + index.offsets[entry]
            if segment is active:
                break
            return base_offset, segments[segments.index_for(base_offset) + 1].base_offset
        return active.base_offset, segments.end_offset

    @staticmethod
    def _located(segment: Segment, offset: int) -> tuple[int, int] | None:
        where = segment.locate(offset) if segment.size else None
        return None if where is None else (offset, where[0])

    def expiring(self, now_ms: int, after_ms: int) -> Job[None]:
        """Forget producers that wrote nothing for `after_ms`, and verifications of that age."""
        if self.is_loaded:
            yield from self._producers.expiring(now_ms, after_ms)
        self.verifications.expire(now_ms, after_ms)
