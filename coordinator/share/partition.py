"""One share partition: the records of a topic partition that a share group has in flight (Kafka: SharePartition).

The modules `acquire`, `acknowledge` and `release` change states. A change that must become durable is a `Change`: the
caller persists its rows, and then calls `complete`. Until then nobody else gets these records. `deadline_ms` says when
the next acquisition lock ends. The caller passes the present time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from muster.coordinator.share.in_flight import (
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    DEAD_LETTER,
    DROP,
    NO_CHANGE,
    NO_MEMBER,
    REJECT,
    RELEASE,
    TERMINAL,
    Batch,
    Before,
    Row,
    Run,
)
from muster.coordinator.share.packed import Packed

MANY_RUNS: Final = 16
"""More runs of records are packed."""
_first: Final[Callable[[Any], int]] = attrgetter("first")


class Settings(NamedTuple):
    """The settings of a share group that its partitions need."""

    max_in_flight: int
    """The most records in flight (`share.partition.max.record.locks`)."""
    max_deliveries: int
    """How often a record is delivered before it is archived (`share.delivery.count.limit`)."""
    lock_ms: int
    """How long a member may keep records (`share.record.lock.duration.ms`)."""
    may_renew: bool
    """Whether a member may renew its locks (`share.renew.acknowledge.enable`)."""
    has_dead_letters: bool
    """Whether the group has a dead-letter queue (`errors.deadletterqueue.topic.name`)."""


class DeadLetter(NamedTuple):
    """Records that go to the dead-letter queue before they are archived."""

    row: Row
    is_rejected: bool
    """Whether the client rejected the records; otherwise they were delivered as often as allowed."""


class Change(NamedTuple):
    """Rows to persist, with the start offset and the count of done records at this time. `number`: see `complete`."""

    number: int
    rows: list[Row]
    start_offset: int
    done_count: int
    rejected: frozenset[int]
    """The first offsets of the rows that the client rejected."""
    may_fail: bool
    """Whether the records get their former states if the change cannot become durable."""


class SharePartition:
    """See the module. `start_offset`: the first offset in flight; `end_offset`: the last."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._batches: list[Batch] = []
        self._packed: Packed | None = None
        """The batches, while `_batches` is empty because nobody uses them. None means that they are not packed."""
        self.many_runs = MANY_RUNS
        """A partition with more runs is packed while nobody uses it."""
        self._is_used = False
        """Whether the batches were used since the last call of `rest`."""
        self.start_offset = 0
        self.end_offset = 0
        self.gap: Gap | None = None
        self.looks_back = False
        """Whether records in flight may be available (Kafka: findNextFetchOffset)."""
        self._changes = NO_CHANGE

    def load(self, start_offset: int, rows: Iterable[Row]) -> list[DeadLetter]:
        """Take over the persisted state. Returns the records that still have to go to the dead-letter queue.

        Raises ValueError when a row begins before `start_offset`.
        """
        self.start_offset, self._batches, self._packed, self.gap = start_offset, [], None, None
        gap_start, expected = None, start_offset
        for row in rows:
            if row.first < start_offset:
                raise ValueError(f"records from offset {row.first} on, before the start offset {start_offset}")
            if gap_start is None and row.first > expected:
                gap_start = expected
            expected = row.last + 1
            self.batches.append(Batch(Run(*row)))
        self.end_offset = self.batches[-1].last if self.batches else start_offset
        self.looks_back = bool(self.batches)
        if gap_start is not None:
            self.gap = Gap(gap_start, self.end_offset)
        self.move_start()
        limit = self.settings.max_deliveries
        return [DeadLetter(row_of(run), run.deliveries < limit) for run in self.runs() if run.state == ARCHIVING]

    # ---- the batches in memory

    @property
    def batches(self) -> list[Batch]:
        """The batches in flight, in the order of their offsets."""
        self._is_used = True
        if self._packed is not None:
            self._batches, self._packed = self._packed.batches(), None
        return self._batches

    @property
    def is_packed(self) -> bool:
        """Whether the batches are packed now."""
        return self._packed is not None

    @property
    def has_many_runs(self) -> bool:
        """Whether `rest` is to be called from time to time."""
        batches, many = self._batches, self.many_runs
        return self.is_packed or len(batches) > many or sum(len(one.runs) for one in batches) > many

    def rest(self) -> None:
        """Pack many batches, unless somebody has used them since the last call."""
        if not self.is_packed and not self._is_used and self.has_many_runs:
            self._batches, self._packed = [], Packed(self._batches)
        self._is_used = False

    # ---- what is where

    def runs(self) -> Iterator[Run]:
        """The runs of all batches, in the order of their offsets."""
        for batch in self.batches:
            yield from batch.runs

    def floor(self, offset: int) -> int:
        """The index of the last batch that begins at `offset` or before; -1 if no batch does."""
        return bisect_right(self.batches, offset, key=_first) - 1

    def between(self, first: int, last: int) -> list[Batch]:
        """The batches that begin from `first` to `last`."""
        return self.batches[bisect_left(self.batches, first, key=_first) : bisect_right(self.batches, last, key=_first)]

    def overlapping(self, first: int, last: int) -> list[Batch]:
        """The batches with a record from `first` to `last`."""
        at = max(self.floor(first), 0)
        if self.batches and self.batches[at].last < first:
            at += 1
        return self.batches[at : bisect_right(self.batches, last, key=_first)]

    def insert(self, batch: Batch) -> None:
        """Add a batch at its place."""
        batches = self.batches
        if not batches or batches[-1].first < batch.first:
            batches.append(batch)
        else:
            batches.insert(bisect_left(batches, batch.first, key=_first), batch)

    @property
    def gap_is_open(self) -> bool:
        """Whether records between the persisted batches may still be acquired for the first time."""
        return self.gap is not None and self.gap.end_offset == self.end_offset

    def move_gap(self, offset: int) -> None:
        """Note that all records before `offset` were acquired once."""
        if self.gap is not None:
            is_open = self.gap_is_open and offset <= self.gap.end_offset
            self.gap = Gap(offset, self.gap.end_offset) if is_open else None

    @property
    def is_past_all(self) -> bool:
        """Whether no record is in flight."""
        return not self.batches or self.start_offset > self.batches[-1].last

    @property
    def in_flight(self) -> int:
        """The number of records in flight, as Kafka counts them."""
        return self.end_offset - self.start_offset + 1 if self.batches else 0

    @property
    def done_count(self) -> int:
        """How many records in flight are acknowledged or archived (Kafka: deliveryCompleteCount, KIP-1226)."""
        return sum(
            run.last - max(run.first, self.start_offset) + 1
            for run in self.runs()
            if run.state in TERMINAL and run.last >= self.start_offset
        )

    def next_offset(self) -> int:
        """The offset of the next fetch: the first record that a member may acquire."""
        if self.is_past_all:
            self.looks_back = False
            return self.end_offset
        if self.looks_back:
            found = self._first_available()
            if found is not None:
                return found
            self.looks_back = False
        return self.end_offset + 1

    def _first_available(self) -> int | None:
        at = self.gap.start_offset if self.gap is not None and self.gap_is_open else None
        for batch in self.batches:
            if at is not None:
                if batch.first > at:
                    return at
                at = max(batch.last + 1, at)
            for run in batch.runs:
                if run.may_be_acquired:
                    return run.first
        return None

    def deadline_ms(self) -> int | None:
        """The time at which the next acquisition lock ends; None without a lock."""
        ends = [run.lock_until_ms for run in self.runs() if run.state == ACQUIRED and run.lock_until_ms is not None]
        return min(ends, default=None)

    # ---- changes that must become durable

    def begin(self) -> int:
        """The number of a new change."""
        self._changes += 1
        return self._changes

    def change(self, run: Run, event: str, number: int) -> None:
        """Change the state of records as a part of a change that is not durable yet."""
        run.before = Before(run.state, run.member, self.settings.max_deliveries)
        run.change = number
        run.after(event)
        run.member = NO_MEMBER

    def release_event(self, run: Run) -> str:
        """The event when a member gives records back: a record is not delivered more often than allowed."""
        if run.first < self.start_offset:
            return DROP
        if run.deliveries < self.settings.max_deliveries:
            return RELEASE
        return DEAD_LETTER if self.settings.has_dead_letters else REJECT

    def changed(
        self, number: int, runs: Sequence[Run], rejected: Iterable[int] = (), *, may_fail: bool = True
    ) -> Change:
        """The change that `number` means, with its rows."""
        rows = [*map(row_of, runs)]
        return Change(number, rows, self.start_offset, self.done_count, frozenset(rejected), may_fail)

    def complete(self, change: Change, now_ms: int, *, is_durable: bool) -> tuple[bool, list[DeadLetter]]:
        """End a change. Without durability, the records get their former states, unless their locks have ended.

        Returns whether the start offset moved, and the records that now go to the dead-letter queue.
        """
        letters: list[DeadLetter] = []
        number, rows = change.number, sorted(change.rows)
        # the runs are found by their number: a later part of a refused request may have cut them
        for batch in self.overlapping(rows[0].first, rows[-1].last) if rows else ():
            runs = [run for run in batch.runs if run.change == number]
            for run in runs:
                _settle(run, now_ms, is_durable=is_durable)
                if run.state == AVAILABLE:
                    self.looks_back = True
                if run.state == ARCHIVING and (is_durable or not change.may_fail):
                    row = rows[bisect_right(rows, run.first, key=_first) - 1]
                    letters.append(DeadLetter(row_of(run), row.first in change.rejected))
            if runs:
                batch.merge()
        return (is_durable or not change.may_fail) and self.move_start(), letters

    def divide_at_start(self, batch: Batch) -> None:
        """Divide a batch that has begun before the start offset."""
        if batch.first < self.start_offset <= batch.last:
            batch.is_divided = True
            batch.within(self.start_offset, batch.last)

    # ---- the start offset

    def move_start(self) -> bool:
        """Move the start offset past the records that are done. Returns whether it moved."""
        if not self._start_is_done():
            return False
        done = self._last_done()
        if done is None:
            return False
        if done == self.batches[-1].last:
            self.start_offset = self.end_offset = done + 1
            self.batches.clear()
            return True
        at = self.floor(done)
        batch = self.batches[at]
        if done == batch.last:
            self.start_offset = max(self.start_offset, self.batches[at + 1].first)
            if self.gap is not None and self.gap_is_open:
                self.start_offset = min(self.gap.start_offset, self.start_offset)
            del self.batches[: at + 1]
        else:
            self.start_offset = max(self.start_offset, done + 1)
            del self.batches[:at]
        return True

    def _start_is_done(self) -> bool:
        at = self.floor(self.start_offset)
        if at < 0:
            return False
        batch = self.batches[at]
        if not batch.is_divided:
            return batch.whole.is_done
        return self.start_offset <= batch.last and batch.state_at(self.start_offset).is_done

    def _last_done(self) -> int | None:
        done = None
        for batch in self.batches:
            if self.gap is not None and self.gap_is_open and batch.last >= self.gap.start_offset:
                return done
            for run in batch.runs:
                if not run.is_done:
                    return done
                done = run.last
        return done

    def log_starts_at(self, offset: int) -> None:
        """Note that the log has no records before `offset`. Available records before it are archived."""
        if offset <= self.start_offset:
            return
        if not self.batches:
            self.start_offset = self.end_offset = offset
            return
        if self.drop(self.batches, self.start_offset, offset - 1, AVAILABLE):
            self.looks_back = True
        self.start_offset = offset
        self.end_offset = max(self.end_offset, offset)

    def drop(self, batches: Iterable[Batch], first: int, last: int, state: int) -> bool:
        """Archive the records of one state from `first` to `last`. Returns whether there were any."""
        dropped = False
        for batch in batches:
            if batch.first > last:
                break
            if not (first <= batch.first and batch.last <= last):
                if not batch.is_divided and batch.whole.state != state:
                    continue
                batch.is_divided = True
            for run in batch.within(first, last):
                if run.state == state:
                    run.archive()
                    dropped = True
        return dropped


class Gap(NamedTuple):
    """Offsets between persisted batches: from `start_offset` on, not every offset to `end_offset` was acquired."""

    start_offset: int
    end_offset: int


def row_of(run: Run) -> Row:
    """The row to persist for some records."""
    return Row(run.first, run.last, run.state, run.deliveries)


def _settle(run: Run, now_ms: int, *, is_durable: bool) -> None:
    before, has_ended = run.before, run.lock_has_ended(now_ms)
    run.before, run.change = None, NO_CHANGE
    if is_durable or run.is_final or before is None:
        run.lock_until_ms, run.is_final = None, False
        return
    if has_ended:
        run.state = ARCHIVED if run.deliveries >= before.max_deliveries else AVAILABLE
        run.lock_until_ms = None
    else:
        run.state, run.member = before.state, before.member
