"""Ended transactions are reported to their groups once a second."""

from __future__ import annotations

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event
from muster.coordinator.history.counts import MAX_TRANSACTION_COUNTS, TransactionCounts
from tests.coordinator.history.test_journal import JournalHarness


def end(kind: str = events.TRANSACTION_COMMITTED, *, group: str = "g", epoch: int = 0, producer_id: int = 7) -> Event:
    offsets = {"orders": {0: 5, 1: 6}, "more": {0: 1}}
    facts = {"producer_id": producer_id, "producer_epoch": epoch, "offsets": offsets, "since_ms": 1}
    return Event(kind, group, facts)


def test_ended_transactions_are_one_event_for_each_group_producer_and_outcome() -> None:
    counts = TransactionCounts()
    ends = end(), end(epoch=1), end(events.TRANSACTION_ABORTED), end(epoch=2), end(group="h", producer_id=8)
    for at, event in enumerate(ends, 5):
        counts.add(event, at)
    assert counts.began_ms == 5
    several = {"producer_id": 7, "first_epoch": 0, "last_epoch": 2, "transactions": 3, "offsets": 9}
    one = {"producer_id": 7, "first_epoch": 0, "last_epoch": 0, "transactions": 1, "offsets": 3}
    assert list(counts.take()) == [
        ("transactions_committed", "g", 5, several),
        ("transactions_aborted", "g", 7, one),
        ("transactions_committed", "h", 9, one | {"producer_id": 8}),
    ]
    assert (counts.began_ms, list(counts.take())) == (None, [])


def test_counts_of_ended_transactions_are_written_after_a_second() -> None:
    harness = JournalHarness()
    harness.report(end(), end(epoch=1))
    harness.advance(999)
    harness.report(end(group="h"))
    assert harness.written() == []
    harness.advance(1)
    assert harness.written() == [(b"g", "transactions_committed"), (b"h", "transactions_committed")]
    assert harness.log.rows[0][1]["transactions"] == 2
    assert [row[1]["time"] - harness.clock.now().wall_ms for row in harness.log.rows] == [-1_000, -1]
    harness.report(end())
    harness.journal.close()
    harness.advance(1_000)
    assert len(harness.written()) == 3


def test_counts_of_very_many_groups_are_written_at_once() -> None:
    harness = JournalHarness()
    harness.log.most_bytes = 1_000_000
    harness.report(*(end(group=str(number)) for number in range(MAX_TRANSACTION_COUNTS)))
    assert len(harness.written()) == MAX_TRANSACTION_COUNTS
