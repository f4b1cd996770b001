"""Acquire records for a member (Kafka: SharePartition.acquire; KIP-932, and KIP-1206 for the limit of records).

Available records of batches in flight are acquired again, then records that nobody has acquired. Records that were
delivered often are delivered in smaller portions, and alone the last time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from muster.coordinator.share.in_flight import (
    ACQUIRE,
    ACQUIRED,
    AVAILABLE,
    Acquired,
    Batch,
    Run,
    Span,
    joined,
)
from muster.coordinator.share.partition import SharePartition

FEWEST_BEFORE_SMALLER: Final = 2
"""Records that were delivered at least this often may be delivered in smaller portions."""


class Wish(NamedTuple):
    """What a ShareFetch asks of one partition."""

    member: str
    max_records: int
    batch_size: int
    """New records are divided into batches of at least this many records, at the limits of record batches."""
    is_strict: bool
    """Whether `max_records` is a strict limit (acquire mode record_limit), or whole record batches are acquired."""


def acquire(
    partition: SharePartition, wish: Wish, fetched: Sequence[Span], fetch_offset: int, now_ms: int
) -> tuple[list[Acquired], int]:
    """Acquire records of the fetched batches. Returns the acquired records, and Kafka's count of them.

    `fetched`: the record batches that the log returned for `fetch_offset`.
    """
    if wish.max_records <= 0 or not fetched or fetched[-1].last < partition.start_offset:
        return [], 0
    room, last = _room(partition, wish.max_records, fetch_offset, fetched[-1].last)
    if room <= 0:
        return [], 0
    return _Acquiring(partition, wish, fetched, now_ms).run(fetch_offset, last, room)


def _room(partition: SharePartition, max_records: int, fetch_offset: int, last: int) -> tuple[int, int]:
    """The most records to acquire, and the last offset to acquire."""
    room = min(max_records, partition.settings.max_in_flight - partition.in_flight)
    if room <= 0 and fetch_offset <= partition.end_offset:
        # nothing new fits in, but records in flight may be available
        return min(max_records, partition.end_offset - fetch_offset + 1), min(last, partition.end_offset)
    return room, last


class _Acquiring:
    """One call of `acquire`."""

    def __init__(self, partition: SharePartition, wish: Wish, fetched: Sequence[Span], now_ms: int) -> None:
        self._partition = partition
        self._wish = wish
        self._fetched = fetched
        self._until_ms = now_ms + partition.settings.lock_ms
        limit = partition.settings.max_deliveries
        self._smaller_from = max(FEWEST_BEFORE_SMALLER, (limit + 1) // 2)

    def run(self, fetch_offset: int, last: int, room: int) -> tuple[list[Acquired], int]:
        partition, first = self._partition, self._fetched[0].first
        self._drop_stale(fetch_offset, first)
        base = first if partition.floor(first) >= 0 else max(first, partition.start_offset)
        batches = partition.overlapping(first, last)
        if not batches:
            return self._new(base, last, room)
        found: list[Acquired] = []
        count, at = 0, base
        for batch in batches:
            if count >= room:
                break
            if partition.gap_is_open:
                if at < batch.first:
                    more, added = self._new(at, batch.first - 1, room - count)
                    found, count = found + more, count + added
                at = batch.last + 1
                if count >= room:
                    break
            is_smaller = self._is_smaller(batch, first, last)
            if is_smaller and count:
                room = 0
                break
            more = self._again(batch, first, last, room - count, is_smaller=is_smaller)
            found += more
            added = sum(row.last - row.first + 1 for row in more)
            count += added
            if is_smaller and added:
                room = 0
                break
        if count < room and batches[-1].last < last:
            more, added = self._new(batches[-1].last + 1, last, room - count)
            found, count = found + more, count + added
        if found:
            partition.move_gap(found[-1].last + 1)
        return found, count

    def _drop_stale(self, fetch_offset: int, first: int) -> None:
        """Archive records that the log does not have any more, because it was compacted."""
        partition = self._partition
        if not partition.batches or fetch_offset >= first:
            return
        if partition.drop(partition.overlapping(fetch_offset, first - 1), fetch_offset, first - 1, AVAILABLE):
            partition.looks_back = True

    # ---- records in flight

    def _is_smaller(self, batch: Batch, first: int, last: int) -> bool:
        """Whether the available records of a batch were delivered so often that fewer are delivered now."""
        runs = [run for run in batch.runs if run.may_be_acquired]
        if batch.is_divided:
            runs = [run for run in runs if run.last >= first and run.first <= last]
        return max((run.deliveries for run in runs), default=0) >= self._smaller_from

    def _again(self, batch: Batch, first: int, last: int, room: int, *, is_smaller: bool) -> list[Acquired]:
        is_whole = first <= batch.first and batch.last <= last
        is_over = self._wish.is_strict and len(batch) > room
        if not batch.is_divided:
            if not batch.whole.may_be_acquired:
                return []
            if is_whole and not is_over and not is_smaller:
                self._take(batch.whole)
                return [Acquired(batch.first, batch.last, batch.whole.deliveries)]
            batch.is_divided = True
        return self._some(batch, first, last, room)

    def _some(self, batch: Batch, first: int, last: int, room: int) -> list[Acquired]:
        """Acquire available records of a divided batch, as many as Kafka, which looks at each record alone."""
        found: list[Acquired] = []
        count, portion = 0, 0
        limit = self._partition.settings.max_deliveries
        has_last_times = limit > FEWEST_BEFORE_SMALLER
        for run in batch.within(first, last):
            if not run.may_be_acquired:
                continue
            most = len(run)
            is_last_time = has_last_times and run.deliveries == limit - 1
            if is_last_time:
                if count:
                    break
                most = 1
            if run.deliveries >= self._smaller_from and not portion:
                portion = max(1, len(batch) >> (run.deliveries - self._smaller_from + 1))
            if self._wish.is_strict:
                most = min(most, room - count)
            if portion > count:
                most = min(most, portion - count)
            if most < len(run):
                batch.within(run.first, run.first + most - 1)
            self._take(run)
            found.append(Acquired(run.first, run.last, run.deliveries))
            count += most
            if is_last_time or count == portion or (self._wish.is_strict and count == room):
                break
        batch.merge()
        return joined(iter(found))

    def _take(self, run: Run) -> None:
        run.after(ACQUIRE)
        run.deliveries += 1
        run.member, run.lock_until_ms = self._wish.member, self._until_ms

    # ---- records that nobody has acquired

    def _new(self, first: int, last: int, room: int) -> tuple[list[Acquired], int]:
        partition = self._partition
        if not partition.batches:
            first = max(first, partition.end_offset)
        if room < last - first + 1:
            limit = last
            last = self._end_of_batch(first + room - 1)
            if partition.gap_is_open:
                last = min(last, limit)
        found = self._batches(first, last, room)
        if partition.batches[0].first == first:
            partition.start_offset = first
        partition.end_offset = max(partition.end_offset, last)
        end = found[0].last if self._wish.is_strict else last
        partition.move_gap(end + 1)
        return found, end - first + 1

    def _end_of_batch(self, offset: int) -> int:
        """The last offset of the record batch that has this offset; the offset itself if no batch has it."""
        return next((span.last for span in self._fetched if span.first <= offset <= span.last), offset)

    def _batches(self, first: int, last: int, room: int) -> list[Acquired]:
        """Add batches in flight for new records."""
        starts = [first]
        if not self._wish.is_strict and last - first + 1 > self._wish.batch_size:
            for span in self._fetched:
                if span.first > last:
                    break
                if span.first - starts[-1] >= self._wish.batch_size:
                    starts.append(span.first)
        ends = [*(start - 1 for start in starts[1:]), last]
        found = []
        for start, end in zip(starts, ends, strict=True):
            batch = Batch(Run(start, end, ACQUIRED, 1, self._wish.member, self._until_ms))
            self._partition.insert(batch)
            if self._wish.is_strict and len(batch) > room:
                self._give_back_rest(batch, start + room)
                end = start + room - 1
            found.append(Acquired(start, end, 1))
        return found

    def _give_back_rest(self, batch: Batch, offset: int) -> None:
        """Make the records from `offset` on available, as records that nobody has got yet."""
        batch.is_divided = True
        (rest,) = batch.within(offset, batch.last)
        batch.runs[-1] = Run(rest.first, rest.last, AVAILABLE, 0)
        self._partition.looks_back = True


def take_out_aborted(partition: SharePartition, found: Sequence[Acquired], aborted: Sequence[Span]) -> list[Acquired]:
    """Archive the acquired records of aborted transactions, and return the other acquired records.

    `aborted`: the record batches of aborted transactions, ascending (isolation level read_committed).
    """
    for span in aborted:
        partition.drop(partition.between(_begin(partition, span.first), span.last), span.first, span.last, ACQUIRED)
    left: list[Acquired] = []
    for row in found:
        first = row.first
        for span in aborted:
            if span.last < first or span.first > row.last:
                continue
            if span.first > first:
                left.append(Acquired(first, span.first - 1, row.deliveries))
            first = span.last + 1
        if first <= row.last:
            left.append(Acquired(first, row.last, row.deliveries))
    return left


def _begin(partition: SharePartition, offset: int) -> int:
    floor = partition.floor(offset)
    return offset if floor < 0 else partition.batches[floor].first
