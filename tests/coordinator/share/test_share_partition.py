"""`SharePartition` beside a model that keeps one state for each offset, and the promises of share groups.

The promises: an acknowledged record is never delivered again, no record is lost, no two members hold one record, and
no record is delivered more often than allowed.
"""

from __future__ import annotations

import sys
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from muster.coordinator.share.acknowledge import Acknowledgement, Refusal, acknowledge
from muster.coordinator.share.acquire import Wish, acquire, take_out_aborted
from muster.coordinator.share.figures import rows_of
from muster.coordinator.share.in_flight import ACQUIRED, ARCHIVED, ARCHIVING, Row, Span
from muster.coordinator.share.packed import Packed
from muster.coordinator.share.partition import MANY_RUNS, Change, DeadLetter, Settings, SharePartition
from muster.coordinator.share.release import archive_letters, expire, release
from tests.coordinator.share.naive import Naive

LOCK_MS = 30
MEMBERS = ("a", "b", "c")


class Model(RuleBasedStateMachine):
    """Random requests of three members, with changes that become durable late or not at all."""

    @initialize(
        max_in_flight=st.integers(1, 40), max_deliveries=st.integers(1, 7), letters=st.booleans(),
        sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    )  # fmt: skip
    def begin(self, max_in_flight: int, max_deliveries: int, letters: bool, sizes: list[int]) -> None:
        self.partition = SharePartition(Settings(max_in_flight, max_deliveries, LOCK_MS, True, letters))
        self.partition.many_runs = 1
        self.naive = Naive(max_in_flight, max_deliveries, LOCK_MS, letters)
        self.max_deliveries = max_deliveries
        self.now_ms = 1_000
        self.spans: list[Span] = []
        for size in sizes:
            self._append(size)
        self.log_start = 0
        self.pending: list[tuple[Change, int]] = []
        self.letters: list[DeadLetter] = []
        self.deliveries: dict[int, int] = {}
        self.acknowledged: set[int] = set()
        self.held: list[tuple[str, int, int]] = []

    def _append(self, size: int) -> None:
        first = self.spans[-1].last + 1 if self.spans else 0
        self.spans.append(Span(first, first + size - 1))

    @rule(size=st.integers(1, 9))
    def append(self, size: int) -> None:
        self._append(size)

    @rule(ms=st.sampled_from((0, 1, 10, 31)))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        deadline_ms = self.partition.deadline_ms()
        if deadline_ms is not None and deadline_ms <= self.now_ms:
            self._expire()

    def _expire(self) -> None:
        change = expire(self.partition, self.now_ms)
        self.naive.expire(self.now_ms)
        assert change is not None
        self.pending.append((change, self.naive.changes))

    @rule(
        member=st.sampled_from(MEMBERS), most=st.integers(0, 20), batch_size=st.integers(1, 10), strict=st.booleans(),
        batches=st.integers(1, 4),
    )  # fmt: skip
    def fetch(self, member: str, most: int, batch_size: int, strict: bool, batches: int) -> None:
        offset = self.partition.next_offset()
        assert offset == self.naive.next_offset()
        fetched = [span for span in self.spans if span.last >= max(offset, self.log_start)][:batches]
        found, _ = acquire(self.partition, Wish(member, most, batch_size, strict), fetched, offset, self.now_ms)
        expected = self.naive.acquire(
            member, fetched, offset, self.now_ms, max_records=most, batch_size=batch_size, is_strict=strict
        )
        assert [*map(tuple, found)] == expected
        for row in found:
            for each in range(row.first, row.last + 1):
                assert each not in self.acknowledged, "an acknowledged record is never delivered again"
                self.deliveries[each] = self.deliveries.get(each, 0) + 1
                assert self.deliveries[each] <= self.max_deliveries
                assert self.deliveries[each] == row.deliveries
            self.held.append((member, row.first, row.last))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def acknowledge(self, data: Any) -> None:
        some = [self._acknowledgement(data) for _ in range(data.draw(st.integers(1, 2)))]
        member = some[0][0]
        if data.draw(st.integers(0, 9)) == 0:
            member = data.draw(st.sampled_from(MEMBERS))
        acknowledgements = [one for _, one in some]
        answer = acknowledge(self.partition, member, acknowledgements, self.now_ms)
        refusal = self.naive.acknowledge(member, acknowledgements, self.now_ms)
        if isinstance(answer, Refusal):
            assert answer.message == refusal
            return
        assert refusal is None
        if answer is not None:
            self.pending.append((answer, self.naive.changes))

    def _acknowledgement(self, data: Any) -> tuple[str, Acknowledgement]:
        """The member that has some records, and an acknowledgement of about these."""
        member, first, last = data.draw(st.sampled_from(self.held))
        first += data.draw(st.integers(-1, last - first))
        last -= data.draw(st.integers(-1, max(last - first, 0)))
        last = max(first, last)
        if data.draw(st.booleans()):
            types = [data.draw(st.integers(0, 4))]
        else:
            types = [data.draw(st.integers(0, 4)) for _ in range(first, last + 1)]
        return member, Acknowledgement(first, last, types)

    @rule(member=st.sampled_from(MEMBERS))
    def release(self, member: str) -> None:
        change = release(self.partition, member, self.now_ms + LOCK_MS)
        self.naive.release(member)
        if change is not None:
            self.pending.append((change, self.naive.changes))

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def complete(self, data: Any) -> None:
        change, number = self.pending.pop(data.draw(st.integers(0, len(self.pending) - 1)))
        is_durable = data.draw(st.integers(0, 4)) > 0
        _, letters = self.partition.complete(change, self.now_ms, is_durable=is_durable)
        offsets = self.naive.complete(number, self.now_ms, is_durable=is_durable, may_fail=change.may_fail)
        assert sorted(each for one in letters for each in range(one.row.first, one.row.last + 1)) == offsets
        self.letters += letters
        if is_durable:
            for row in change.rows:
                if row.state == 2:
                    self.acknowledged.update(range(row.first, row.last + 1))

    @precondition(lambda self: self.letters)
    @rule()
    def queue(self) -> None:
        letter = self.letters.pop(0)
        change = archive_letters(self.partition, [letter.row])
        self.naive.queued(letter.row.first, letter.row.last)
        self.pending.append((change, self.naive.changes))

    @rule(more=st.integers(0, 12))
    def log_is_cut(self, more: int) -> None:
        self.log_start = min(self.log_start + more, self.spans[-1].last + 1)
        self.partition.log_starts_at(self.log_start)
        self.naive.log_starts_at(self.log_start)

    @rule()
    def rest(self) -> None:
        for _ in range(2):
            self.partition.rest()

    @invariant()
    def both_are_equal(self) -> None:
        if not hasattr(self, "partition"):
            return
        one, other = self.partition, self.naive
        assert (one.start_offset, one.end_offset) == (other.start, other.end)
        assert one.done_count == other.done_count()
        assert [(batch.first, batch.last, batch.is_divided) for batch in one.batches] == [
            (batch.first, batch.last, batch.is_divided) for batch in other.batches
        ]
        states = {
            offset: (run.state, run.deliveries, run.member, bool(run.change))
            for batch in one.batches
            for run in batch.runs
            for offset in range(run.first, run.last + 1)
        }
        assert states == {
            offset: (record.state, record.deliveries, record.member, bool(record.change))
            for batch in other.batches
            for offset, record in batch.records.items()
        }


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)


def test_a_partition_that_nobody_uses_is_packed() -> None:
    partition = SharePartition(Settings(10_000, 5, LOCK_MS, True, False))
    acquire(partition, Wish("a", 2_000, 1, False), [Span(at, at) for at in range(2_000)], 0, 0)
    change = acknowledge(partition, "a", [Acknowledgement(at, at, [1 + at % 2]) for at in range(1, 1_999)], 0)
    before = [*rows_of(partition)]
    partition.rest()
    assert not partition.is_packed, "it was used since the call before"
    partition.rest()
    assert partition.is_packed
    assert partition.has_many_runs
    assert [*rows_of(partition)] == before
    assert not partition.is_packed
    assert isinstance(change, Change)
    partition.complete(change, 0, is_durable=True)
    assert partition.start_offset == 0
    assert partition.done_count == 999
    expire(partition, LOCK_MS)
    assert not any(run.lock_until_ms for batch in partition.batches for run in batch.runs if run.state == ACQUIRED)


def test_a_partition_with_few_runs_is_not_packed() -> None:
    partition = SharePartition(Settings(10_000, 5, LOCK_MS, True, False))
    acquire(partition, Wish("a", 2_000, 1, False), [Span(at, at) for at in range(MANY_RUNS)], 0, 0)
    for _ in range(2):
        partition.rest()
    assert not partition.has_many_runs
    assert not partition.is_packed


def test_every_second_record_is_released_and_delivered_again() -> None:
    partition = SharePartition(Settings(10_000, 5, LOCK_MS, True, False))
    acquire(partition, Wish("a", 2_000, 500, False), [Span(at, at + 99) for at in range(0, 2_000, 100)], 0, 0)
    types = [1, 2] * 1_000
    change = acknowledge(partition, "a", [Acknowledgement(0, 1_999, types)], 0)
    assert isinstance(change, Change)
    partition.complete(change, 0, is_durable=True)
    found, _ = acquire(partition, Wish("b", 2_000, 500, False), [Span(0, 1_999)], partition.next_offset(), 1)
    assert sum(row.last - row.first + 1 for row in found) == 1_000
    change = acknowledge(partition, "b", [Acknowledgement(row.first, row.last, [1]) for row in found], 2)
    assert isinstance(change, Change)
    partition.complete(change, 2, is_durable=True)
    assert not partition.batches
    assert partition.start_offset == 2_000


def test_a_refused_request_that_names_a_record_twice_changes_nothing() -> None:
    partition = SharePartition(Settings(2_000, 5, LOCK_MS, True, False))
    acquire(partition, Wish("a", 100, 100, False), [Span(0, 2)], 0, 0)
    answer = acknowledge(partition, "a", [Acknowledgement(0, 1, [1]), Acknowledgement(1, 2, [1])], 0)
    assert isinstance(answer, Refusal)
    change = release(partition, "a", LOCK_MS)
    assert change is not None
    assert change.rows == [Row(0, 2, 0, 1)]


def test_the_end_of_a_session_leaves_what_the_next_session_has_acquired() -> None:
    partition = SharePartition(Settings(2_000, 5, LOCK_MS, True, False))
    acquire(partition, Wish("a", 5, 1, False), [Span(0, 4)], 0, 10)
    acquire(partition, Wish("a", 5, 1, False), [Span(5, 9)], 5, 11)
    change = release(partition, "a", 10 + LOCK_MS)
    assert change is not None
    assert change.rows == [Row(0, 4, 0, 1)]
    assert release(partition, "a", 10 + LOCK_MS) is None


def test_a_persisted_partition_goes_on_with_its_gaps() -> None:
    partition = SharePartition(Settings(2_000, 5, LOCK_MS, True, True))
    rows = [Row(10, 14, 0, 1), Row(20, 24, 2, 1), Row(25, 29, ARCHIVING, 5), Row(30, 31, ARCHIVING, 2)]
    letters = partition.load(10, rows)
    assert letters == [DeadLetter(rows[2], False), DeadLetter(rows[3], True)]
    assert partition.next_offset() == 10
    fetched = [Span(10, 14), Span(15, 19), Span(20, 31), Span(32, 33)]
    found, count = acquire(partition, Wish("a", 100, 100, False), fetched, 10, 0)
    assert [*map(tuple, found)] == [(10, 14, 2), (15, 19, 1), (32, 33, 1)]
    assert count == 12
    assert all(run.state == ACQUIRED for batch in partition.batches[:2] for run in batch.runs)


def test_thousands_of_records_in_flight_take_a_few_runs() -> None:
    partition = SharePartition(Settings(10_000, 5, LOCK_MS, True, False))
    acquire(partition, Wish("a", 2_000, 500, False), [Span(at, at + 99) for at in range(0, 2_000, 100)], 0, 0)
    for kind in (2, 2, 1):
        change = acknowledge(partition, "a", [Acknowledgement(1, 1_999, [kind] * 1_999)], 0)
        assert isinstance(change, Change)
        partition.complete(change, 0, is_durable=True)
        assert sum(len(batch.runs) for batch in partition.batches) <= 5
        acquire(partition, Wish("a", 2_000, 500, False), [Span(0, 1_999)], partition.next_offset(), 1)


def test_records_of_aborted_transactions_are_archived_and_not_delivered() -> None:
    partition = SharePartition(Settings(2_000, 5, LOCK_MS, True, False))
    fetched = [Span(0, 4), Span(5, 9), Span(10, 14)]
    found, _ = acquire(partition, Wish("a", 100, 100, False), fetched, 0, 0)
    assert [*map(tuple, take_out_aborted(partition, found, [Span(0, 1), Span(5, 9)]))] == [(2, 4, 1), (10, 14, 1)]
    states = [(run.first, run.last, run.state) for batch in partition.batches for run in batch.runs]
    assert states == [
        (0, 1, ARCHIVED), (2, 4, ACQUIRED), (5, 9, ARCHIVED), (10, 14, ACQUIRED)
    ]  # fmt: skip


def test_a_packed_run_takes_some_thirty_bytes() -> None:
    partition = SharePartition(Settings(2_000, 5, LOCK_MS, True, False))
    acquire(partition, Wish("a", 2_000, 1, False), [Span(at, at) for at in range(2_000)], 0, 0)
    packed = Packed(partition.batches)
    assert len(packed) == 2_000
    assert sum(sys.getsizeof(getattr(packed, name)) for name in Packed.__slots__) < 2_000 * 35
