"""How the deliveries of a share group's records ended, from the group's state log (`__share_group_state`). Pure.

The log has no acquisitions. The first sign of a record is the end of its first delivery: it is accepted, archived, or
available again. Who held the record is not in the log. A record whose first delivery is accepted makes no `Fate`: a
busy queue has millions of them. The state itself is that of the share coordinator (`coordinator/share_state`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from muster.coordinator.share.in_flight import ACKNOWLEDGED, ARCHIVED, ARCHIVING, AVAILABLE, TERMINAL, Row
from muster.coordinator.share_state.persister import UNKNOWN, StateKey
from muster.coordinator.share_state.state import PartitionState, States
from muster.protocol.message import Message
from muster.protocol.messages.share_records.share_snapshot import ShareSnapshotValue
from muster.protocol.messages.share_records.share_update import ShareUpdateValue

ACCEPTED: Final = "accepted"
DISCARDED: Final = "archived"
"""A member rejected the records, or they were delivered as often as allowed. Or they are gaps: no client sees these."""
DEAD_LETTER: Final = "dead_letter"
WAITING: Final = "waiting"
"""The log ends before the records are done."""
PASSED: Final = "passed"
"""The start offset went past the records: retention deleted them, or the group's offset was reset."""
DELETED: Final = "deleted"
"""The state was deleted: with its group, by a request, or with its topic."""
OUTCOMES: Final = (ACCEPTED, DISCARDED, DEAD_LETTER, WAITING, PASSED, DELETED)
MAX_ENDS: Final = 16
"""A record keeps at most this many ends of deliveries: the first one, and the last ones."""
_OPEN: Final = frozenset((AVAILABLE, ARCHIVING))


class Fate(NamedTuple):
    """What became of neighbouring records."""

    first: int
    last: int
    outcome: str
    deliveries: int
    ended_ms: tuple[int, ...]
    """When deliveries ended without an acceptance, at most MAX_ENDS times. Empty: the log does not have these times."""
    at_ms: int
    """When the records were done. Of WAITING records: when their last delivery ended."""
    held_ms: int | None = None
    """At least this long a member held the records before their first delivery ended without an acceptance."""


class Counts(NamedTuple):
    """The number of records by what happened to them."""

    accepted: int = 0
    archived: int = 0
    ended: int = 0
    """Deliveries that ended without an acceptance, and not by the archive."""
    moved: int = 0
    """By how much the start offset rose."""

    def plus(self, other: Counts) -> Counts:
        """The sums of both."""
        return Counts(*(one + two for one, two in zip(self, other, strict=True)))


class _Run(NamedTuple):
    """Neighbouring records with the same state and history."""

    first: int
    last: int
    state: int
    deliveries: int
    ended_ms: tuple[int, ...] = ()
    held_ms: int | None = None


class Partition:
    """One share partition while its log is read. `state`: the state after the last entry; None: it was deleted."""

    def __init__(self, first_ms: int) -> None:
        self.first_ms = first_ms
        self.changed_ms: int | None = None
        """When a delivery ended for the last time."""
        self.done_ms: int | None = None
        """When a record was accepted or archived for the last time."""
        self.idle: tuple[int, int] | None = None
        """The longest time in which no record was accepted or archived, up to `done_ms`."""
        self.deleted_ms: int | None = None
        self.sums = Counts()
        self.redelivered = 0
        """The records that were accepted after their first delivery."""
        self.state: PartitionState | None = None
        self._state_epoch: int | None = None
        self._start = UNKNOWN
        self._runs: list[_Run] = []
        self._reached: list[tuple[int, int]] = []
        """The highest offset with an ended delivery, and since when, each time that it rose."""
        self._fates: list[Fate] = []
        self._counts = Counts()

    def take(self, at_ms: int, value: Message | None, state: PartitionState | None) -> tuple[list[Fate], Counts]:
        """Read an entry of the log; `state` is the state after it. Returns what became of records, and how many."""
        self._fates, self._counts = [], Counts()
        self.state = state
        if state is None:
            self._end_all(DELETED, at_ms)
            self.deleted_ms = at_ms
        else:
            self.deleted_ms = None
            if type(value) is ShareSnapshotValue and self._state_epoch not in (None, value.state_epoch):
                self._end_all(PASSED, at_ms)  # an administrator has set the group's offset
            self._state_epoch = state.state_epoch
            for row in _changed_rows(value, state):
                self._apply(row, at_ms)
            self._to_start(state.start_offset, at_ms)
        self.sums = self.sums.plus(self._counts)
        self.redelivered += sum(
            one.last - one.first + 1 for one in self._fates if one.outcome == ACCEPTED and one.deliveries > 1
        )
        return self._fates, self._counts

    def waiting(self) -> list[Fate]:
        """The records that are not done, in the order in which their last deliveries ended."""
        found = [
            Fate(one.first, one.last, WAITING, one.deliveries, one.ended_ms, one.ended_ms[-1], one.held_ms)
            for one in self._runs if one.state in _OPEN
        ]  # fmt: skip
        return sorted(found, key=lambda one: one.at_ms)

    def _end_all(self, outcome: str, at_ms: int) -> None:
        for run in self._runs:
            self._done(run, outcome, at_ms)
        self._runs, self._reached, self._start, self._state_epoch = [], [], UNKNOWN, None

    def _done(self, run: _Run, outcome: str, at_ms: int) -> None:
        if run.state in _OPEN:
            self._fates.append(Fate(run.first, run.last, outcome, run.deliveries, run.ended_ms, at_ms, run.held_ms))

    def _to_start(self, start: int, at_ms: int) -> None:
        if start == UNKNOWN:
            return
        if self._start != UNKNOWN and start > self._start:
            self._counts = self._counts._replace(moved=start - self._start)
        self._start = start
        behind = bisect_left(self._runs, start, key=_last)
        for run in self._runs[:behind]:
            self._done(run, PASSED, at_ms)
        del self._runs[:behind]
        del self._reached[: max(bisect_right(self._reached, start, key=_offset) - 1, 0)]
        if self._runs and self._runs[0].first < start:
            run = self._runs[0]
            self._done(run._replace(last=start - 1), PASSED, at_ms)
            self._runs[0] = run._replace(first=start)

    def _apply(self, row: Row, at_ms: int) -> None:
        begin = bisect_left(self._runs, row.first, key=_last)
        end = bisect_right(self._runs, row.last, key=_first)
        pieces: list[_Run] = []
        at = row.first
        for run in self._runs[begin:end]:
            if run.first < row.first:
                _append(pieces, run._replace(last=row.first - 1))
            first, last = max(run.first, row.first), min(run.last, row.last)
            if at < first:
                _append(pieces, self._changed(None, row._replace(first=at, last=first - 1), at_ms))
            _append(pieces, self._changed(run, row._replace(first=first, last=last), at_ms))
            at = last + 1
            if run.last > row.last:
                _append(pieces, run._replace(first=row.last + 1))
        if at <= row.last:
            _append(pieces, self._changed(None, row._replace(first=at), at_ms))
        self._runs[begin:end] = pieces

    def _changed(self, run: _Run | None, row: Row, at_ms: int) -> _Run:
        """The records of `row`, which had one history so far (None means that no delivery had ended)."""
        if run is not None and (run.state in TERMINAL or (run.state, run.deliveries) == (row.state, row.deliveries)):
            return run._replace(first=row.first, last=row.last)
        count = row.last - row.first + 1
        ended_ms, held_ms = ((), self._held_ms(row, at_ms)) if run is None else (run.ended_ms, run.held_ms)
        if not self._reached or row.last > self._reached[-1][0]:
            self._reached.append((row.last, at_ms))
        # a new leader may only repeat what the delivery before had left
        is_new_end = run is None or row.deliveries > run.deliveries
        if row.state != ACKNOWLEDGED and is_new_end:
            ended_ms = (*ended_ms[: MAX_ENDS - 1], at_ms) if len(ended_ms) < MAX_ENDS else (
                ended_ms[0], *ended_ms[2:], at_ms
            )  # fmt: skip
        self.changed_ms = at_ms
        if row.state in TERMINAL:
            since_ms = self.first_ms if self.done_ms is None else self.done_ms
            if self.idle is None or at_ms - since_ms > self.idle[1] - self.idle[0]:
                self.idle = since_ms, at_ms
            self.done_ms = at_ms
        counts = self._counts
        if row.state == ACKNOWLEDGED:
            self._counts = counts._replace(accepted=counts.accepted + count)
            if row.deliveries > 1 or ended_ms:
                self._fates.append(Fate(row.first, row.last, ACCEPTED, row.deliveries, ended_ms, at_ms, held_ms))
        elif row.state == ARCHIVED:
            self._counts = counts._replace(archived=counts.archived + count)
            outcome = DISCARDED if is_new_end else PASSED
            if run is not None and run.state == ARCHIVING:
                outcome = DEAD_LETTER
            self._fates.append(Fate(row.first, row.last, outcome, row.deliveries, ended_ms, at_ms, held_ms))
        elif is_new_end:
            self._counts = counts._replace(ended=counts.ended + count)
        if row.state in TERMINAL:
            return _Run(*row)
        return _Run(*row, ended_ms, held_ms)

    def _held_ms(self, row: Row, at_ms: int) -> int | None:
        """How long a member held these records at least, now that their first delivery has ended.

        Records are acquired in the order of their offsets. So these records were acquired before a later record, whose
        delivery had ended before.
        """
        place = bisect_right(self._reached, row.last, key=_offset)
        return at_ms - self._reached[place][1] if place < len(self._reached) else None


def _changed_rows(value: Message | None, state: PartitionState) -> Iterator[Row]:
    """The rows of the state that an entry may have changed, in the order of their offsets."""
    if type(value) is not ShareUpdateValue:
        yield from state.rows
        return
    for batch in value.state_batches:
        for row in state.rows.part(*state.rows.between(batch.first_offset, batch.last_offset)):
            yield row._replace(first=max(row.first, batch.first_offset), last=min(row.last, batch.last_offset))


def _append(runs: list[_Run], run: _Run) -> None:
    if runs and runs[-1].last + 1 == run.first and runs[-1][2:] == run[2:]:
        runs[-1] = runs[-1]._replace(last=run.last)
    else:
        runs.append(run)


def _first(one: _Run) -> int:
    return one.first


def _last(one: _Run) -> int:
    return one.last


def _offset(one: tuple[int, int]) -> int:
    return one[0]


class Group:
    """The share partitions of one group while its log is read."""

    def __init__(self) -> None:
        # the number of updates between two snapshots only matters to the writer
        self._states = States(updates_per_snapshot=1 << 31)
        self.partitions: dict[StateKey, Partition] = {}

    def take(self, at_ms: int, key: Message, value: Message | None) -> tuple[StateKey, list[Fate], Counts]:
        """Read an entry of the log: the share partition, and what `Partition.take` returns."""
        partition = StateKey(*(getattr(key, name) for name in ("group_id", "topic_id", "partition")))
        self._states.evolve(key, value)
        known = self.partitions.get(partition)
        if known is None:
            known = self.partitions[partition] = Partition(at_ms)
        return partition, *known.take(at_ms, value, self._states.partitions.get(partition))
