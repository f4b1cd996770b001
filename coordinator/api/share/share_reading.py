"""Reads and acquires the records of one ShareFetch (Kafka: SharePartitionManager.fetchMessages, DelayedShareFetch).

A fetch that finds too few bytes waits. It looks again when a log grows, or when records in flight become available.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import PLAIN_ROWS, Node
from muster.coordinator.api.records.offsets import led_here
from muster.coordinator.api.share.batches import aborted_batches, whole_batches
from muster.coordinator.api.unsent import Taken
from muster.coordinator.log import LogError, OffsetOutOfRange, SegmentAbsent
from muster.coordinator.log.segments.transaction_index import AbortedTransaction
from muster.coordinator.runtime.share_partitions.led_partition import LedSharePartition
from muster.coordinator.runtime.share_partitions.share_partitions import SharePartitions
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.share.acquire import Wish
from muster.coordinator.share.sessions import SessionContext, SessionRow
from muster.coordinator.share_state.persister import StateKey
from muster.coordinator.system.jobs import Job, PendingResult
from muster.coordinator.topics.errors import ApiError
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.share_fetch import AcquiredRecords, PartitionData

RECORD_LIMIT: Final = 1
"""The acquire mode that takes the limit of records strictly (KIP-1206)."""
ACQUIRE_MODES: Final = (0, RECORD_LIMIT)
_LEAST_READ: Final = 16 << 10
_MARGIN: Final = 1.25
NOTHING: Final[Sequence[AbortedTransaction]] = ()


class FetchTerms(NamedTuple):
    """The fields of a ShareFetch that count for all partitions."""

    group_id: str
    member_id: str
    session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    is_strict: bool
    """Whether the limit of records is strict."""
    is_committed: bool
    """Whether only records of committed transactions are delivered."""


Wanted = tuple[SessionRow, LedSharePartition]
Answered = tuple[SessionRow, PartitionData]


class _Read(NamedTuple):
    """What the log has for one share partition."""

    row: SessionRow
    share: LedSharePartition
    offset: int
    records: bytes
    aborted: Sequence[AbortedTransaction]
    error: LogError | ApiError | None


class ShareReading:
    """The records of one ShareFetch. `answered`: the partitions in the answer, with errors last."""

    def __init__(self, node: Node, context: RequestContext, terms: FetchTerms, taken: Taken) -> None:
        self._node = node
        self._context = context
        self._terms = terms
        self._taken = taken
        self.answered: list[Answered] = []
        self._failed: dict[SessionRow, int] = {}
        self._absent: list[Callable[[], object]] = []
        self._woken: PendingResult | None = None
        self._is_woken = False
        self._is_over = False
        """Whether the longest wait is over."""

    # ---- which partitions

    def running(self, shares: SharePartitions, session: SessionContext) -> Job[None]:
        """Read records, or wait for them, until `answered` is complete."""
        wanted: list[Wanted] = []
        terms = self._terms
        may_read = terms.max_records != 0 and terms.max_bytes > 0
        for number, row in enumerate(_rotated(session.rows, terms.session_epoch)):
            if number > PLAIN_ROWS:
                yield None
            try:
                share = self._find(shares, row, may_read=may_read)
            except ApiError as refusal:
                self._failed[row] = refusal.error_code
            else:
                if share is not None:
                    wanted.append((row, share))
        if wanted:
            yield from self._waiting_for(wanted, session)
        self.answered += [(row, _failed_row(row, error_code)) for row, error_code in self._failed.items()]

    def _find(self, shares: SharePartitions, row: SessionRow, *, may_read: bool) -> LedSharePartition | None:
        """The share partition of a row. None: the request asks for no records. Raises `ApiError`."""
        node = self._node
        if row.topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        if not node.authorizer.allows(self._context, Operation.READ, ResourceType.TOPIC, row.topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        topic = node.topics.by_id.get(row.place.topic_id)
        if topic is None or not 0 <= row.place.partition < len(topic.partitions):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self._terms.max_bytes < 0:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if not may_read:
            return None
        return shares.led(StateKey(self._terms.group_id, *row.place), led_here(node, topic, row.place.partition))

    # ---- waiting

    def _waiting_for(self, wanted: Sequence[Wanted], session: SessionContext) -> Job[None]:
        """Look for records, at once and each time that there may be more, until the longest wait is over.

        A request that a later one has overtaken acquires nothing: its client will not get the records.
        """
        clock = self._node.clock
        if (yield from self._looking(wanted)):
            return
        if self._terms.max_wait_ms <= 0:
            self._is_over = True
            yield from self._looking(wanted)
            return
        timer = clock.machine.call_at(clock.machine.now().mono_ms + self._terms.max_wait_ms, self._end_wait)
        forget = self._context.channel.on_close(self._end_wait)
        session.when_overtaken(self._end_wait)
        for number, (_, share) in enumerate(wanted):
            share.waiting[self] = self._look_again
            if number > PLAIN_ROWS:
                yield None
        try:
            while not session.is_over and not (yield from self._looking(wanted)):
                if not self._is_woken:
                    self._woken = PendingResult()
                    yield self._woken
                    self._woken = None
                self._is_woken = False
        finally:
            timer.cancel()
            forget()
            if not session.is_over:
                session.when_overtaken(None)
            for _, share in wanted:
                share.waiting.pop(self, None)
            for stop in self._absent:
                stop()

    def _end_wait(self) -> None:
        self._is_over = True
        self._look_again()

    def _look_again(self) -> None:
        self._is_woken = True
        if self._woken is not None and not self._woken.is_there:
            self._woken(None)

    def _looking(self, wanted: Sequence[Wanted]) -> Job[bool]:
        """Read and acquire records. Returns False if there are too few bytes, and the fetch may still wait."""
        is_last = self._is_over
        ready: list[Wanted] = []
        got: set[LedSharePartition] = set()
        try:
            for number, (row, share) in enumerate(wanted):
                if number > PLAIN_ROWS or share.core.has_many_runs:
                    yield None
                if share.failure is not None:
                    self._failed[row] = share.failure.error_code
                elif share.may_acquire:
                    share.is_read = True
                    ready.append((row, share))
            if not ready:
                return is_last
            reads, size = yield from self._reading(ready, is_last=is_last)
            if not is_last and size < self._terms.min_bytes and not any(read.error for read in reads):
                self._taken.set(0)
                return False
            yield from self._acquiring(reads, got)
        finally:
            for _, share in ready:
                share.stop_reading(self, has_acquired=share in got)
        return True

    # ---- reading

    def _reading(self, ready: Sequence[Wanted], *, is_last: bool) -> Job[tuple[list[_Read], int]]:
        """Read the log for each share partition. Each gets an equal part of the bytes; the first gets what is left.

        As on Kafka, these are two reads, each with at least one batch. The first is for partitions that no fetch has
        read at their offset before; their records are acquired last. When the wait is over, it is one read.
        """
        room = self._node.unsent.room()
        most = min(self._terms.max_bytes, room)
        part, more = divmod(most, len(ready))
        new: list[Wanted] = []
        known: list[Wanted] = []
        for number, one in enumerate(ready):
            if number > PLAIN_ROWS:
                yield None
            share = one[1]
            is_new = not is_last and share.read_offset != share.core.next_offset()
            (new if is_new else known).append(one)
        size = 0
        found: list[list[_Read]] = []
        for some in (new, known):
            reads: list[_Read] = []
            left = most
            for row, share in some:
                if size or len(reads) > PLAIN_ROWS:
                    yield None
                read = yield from self._read(row, share, min(part + more, left), at_least_one=room > 0 and left == most)
                if some is new and read.error is None:
                    share.read_offset = read.offset
                more = 0
                left = max(left - len(read.records), 0)
                size += len(read.records)
                self._taken.set(size)
                reads.append(read)
            found.append(reads)
        return [*found[1], *found[0]], size

    def _read(self, row: SessionRow, share: LedSharePartition, max_bytes: int, *, at_least_one: bool) -> Job[_Read]:
        partition, is_committed = share.partition, self._terms.is_committed
        offset = share.core.next_offset()
        aborted: Sequence[AbortedTransaction] = NOTHING
        try:
            if partition.closed:
                raise ApiError(partition.refusal)
            if is_committed and not partition.log.knows_producers:
                yield from partition.loading_producers()
            bound = partition.last_stable_offset() if is_committed else partition.log.durable_offset
            if offset == bound:
                return _Read(row, share, offset, b"", aborted, None)
            records = self._records(share, offset, max_bytes, bound, at_least_one=at_least_one)
            if is_committed and records:
                found = partition.aborted_in_memory(offset, records)
                aborted = (yield from partition.aborted(offset, records)) if found is None else found
        except SegmentAbsent as absent:
            self._absent.append(partition.log.fetch_segment(absent.base_offset, lambda _: self._look_again()))
            return _Read(row, share, offset, b"", NOTHING, None)
        except (ApiError, LogError) as error:
            return _Read(row, share, offset, b"", NOTHING, error)
        return _Read(row, share, offset, records, aborted, None)

    def _records(
        self, share: LedSharePartition, offset: int, max_bytes: int, bound: int, *, at_least_one: bool
    ) -> bytes:
        """Read what the member may acquire, and hardly more. Raises LogError.

        After records in flight, any number of records may be acquired already; then the read has all `max_bytes`.
        """
        read, wanted = share.partition.read, self._terms.max_records
        size = max_bytes
        if offset > share.core.end_offset or share.core.is_past_all:
            size = max(_LEAST_READ, self._terms.min_bytes, int(share.bytes_of_record * wanted * _MARGIN))
        while size < max_bytes:
            records = read(offset, size, at_least_one, bound)
            spans = whole_batches(records).spans
            if spans:
                count = spans[-1].last - offset + 1
                share.bytes_of_record = len(records) / max(count, 1)
                if count >= wanted or spans[-1].last + 1 >= bound:
                    return records
            size *= 2
        return read(offset, max_bytes, at_least_one, bound)

    # ---- acquiring

    def _acquiring(self, reads: Sequence[_Read], got: set[LedSharePartition]) -> Job[None]:
        """Acquire records of each partition, as long as the limit of records is not reached."""
        left = self._terms.max_records
        for number, read in enumerate(reads):
            if number > PLAIN_ROWS or read.share.core.has_many_runs:
                yield None
            data = PartitionData(read.row.place.partition)
            if isinstance(read.error, OffsetOutOfRange):
                read.share.log_starts_at(read.share.partition.log.start_offset)
            elif read.error is not None:
                data.error_code = read.error.error_code
            elif read.records:
                count = self._acquire(read, left, data)
                left -= count
                if count:
                    got.add(read.share)
            self.answered.append((read.row, data))

    def _acquire(self, read: _Read, left: int, data: PartitionData) -> int:
        terms, batches = self._terms, whole_batches(read.records)
        wish = Wish(terms.member_id, left, terms.batch_size, terms.is_strict)
        aborted = aborted_batches(read.records, read.aborted) if read.aborted else ()
        acquired, count = read.share.acquire(wish, batches.spans, read.offset, aborted)
        if acquired:
            data.records = batches.holding(acquired)
            data.acquired_records = [AcquiredRecords(*row) for row in acquired]
        return count


def _rotated(rows: Sequence[SessionRow], session_epoch: int) -> Sequence[SessionRow]:
    """The rows, beginning with another one in each request (Kafka: PartitionRotateStrategy)."""
    if len(rows) < 2 or session_epoch < 1:
        return rows
    at = session_epoch % len(rows)
    return [*rows[at:], *rows[:at]]


def _failed_row(row: SessionRow, error_code: int) -> PartitionData:
    return PartitionData(row.place.partition, error_code)
