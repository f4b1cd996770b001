"""Take records back from members: after a session, a lock, or the dead-letter queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.coordinator.share.in_flight import ACQUIRED, ARCHIVING, AVAILABLE, NO_CHANGE, NO_MEMBER, Row, Run
from muster.coordinator.share.partition import Change, SharePartition


def release(partition: SharePartition, member: str, until_ms: int) -> Change | None:
    """Give back the records of a member whose share session has ended. None means that the member has none.

    Records with a lock that ends after `until_ms` stay: the member has acquired them in a new session.
    """
    number, runs = partition.begin(), []
    for batch in partition.batches:
        if any(_is_held(run, member, until_ms) for run in batch.runs):
            partition.divide_at_start(batch)
        for run in batch.runs:
            if _is_held(run, member, until_ms):
                partition.change(run, partition.release_event(run), number)
                runs.append(run)
    return partition.changed(number, runs) if runs else None


def overdue(partition: SharePartition, now_ms: int) -> Iterator[tuple[int, int, str]]:
    """The records whose locks have ended: first offset, last offset and member."""
    for run in partition.runs():
        if run.state == ACQUIRED and run.lock_has_ended(now_ms):
            yield run.first, run.last, run.member


def expire(partition: SharePartition, now_ms: int) -> Change | None:
    """Give back the records whose locks have ended. None means that no lock has ended.

    The records are available at once, so `complete` has nothing to take back. As on Kafka, an acknowledgement that is
    not durable yet is decided by its own `complete`.
    """
    number = partition.begin()
    rows = []
    for batch in partition.batches:
        if any(run.state == ACQUIRED and run.lock_has_ended(now_ms) for run in batch.runs):
            partition.divide_at_start(batch)
        for run in batch.runs:
            if run.state != ACQUIRED or not run.lock_has_ended(now_ms):
                continue
            run.after(partition.release_event(run))
            run.member, run.lock_until_ms = NO_MEMBER, None
            run.change = number if run.state == ARCHIVING else NO_CHANGE
            partition.looks_back = partition.looks_back or run.state == AVAILABLE
            rows.append(run)
    return partition.changed(number, rows, may_fail=False) if rows else None


def archive_letters(partition: SharePartition, rows: Iterable[Row]) -> Change:
    """Archive records that the dead-letter queue has, or cannot take."""
    runs = []
    for row in rows:
        for batch in partition.overlapping(row.first, row.last):
            for run in batch.within(row.first, row.last):
                if run.state == ARCHIVING:
                    run.archive()
                    runs.append(run)
    return partition.changed(partition.begin(), runs, may_fail=False)


def _is_held(run: Run, member: str, until_ms: int) -> bool:
    return run.state == ACQUIRED and run.member == member and run.lock_has_ended(until_ms)
