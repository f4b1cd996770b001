"""The records in flight of a share partition: batches, and in each batch runs of records with the same state.

Kafka's names are InFlightBatch, InFlightState and RecordState (KIP-932). Kafka has one state for a whole batch, or one
for each offset after a batch was divided. Here a divided batch has one run for all neighbours with the same state. So
thousands of records in flight take a few kilobytes. The batches are those of Kafka, because clients see their limits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Final, NamedTuple

from muster.coordinator.state_machine.interface import IllegalTransition

AVAILABLE: Final = 0
ACQUIRED: Final = 1
ACKNOWLEDGED: Final = 2
ARCHIVING: Final = 3
ARCHIVED: Final = 4
STATES: Final = ("AVAILABLE", "ACQUIRED", "ACKNOWLEDGED", "ARCHIVING", "ARCHIVED")
"""The index of a state is its number in records (RecordState.id)."""

ACQUIRE: Final = "a member acquires the record"
ACCEPT: Final = "the member accepts the record"
RELEASE: Final = "the member releases the record, or its lock ends"
REJECT: Final = "the record is rejected, has no content, or was delivered as often as allowed"
DEAD_LETTER: Final = "the record is rejected, and goes to the dead-letter queue first"
DROP: Final = "the log does not have the record any more"
QUEUED: Final = "the dead-letter queue has the record, or cannot take it"

TRANSITIONS: Final[Mapping[tuple[int, str], int]] = MappingProxyType(
    {
        (AVAILABLE, ACQUIRE): ACQUIRED,
        (AVAILABLE, DROP): ARCHIVED,
        (ACQUIRED, ACCEPT): ACKNOWLEDGED,
        (ACQUIRED, RELEASE): AVAILABLE,
        (ACQUIRED, REJECT): ARCHIVED,
        (ACQUIRED, DEAD_LETTER): ARCHIVING,
        (ACQUIRED, DROP): ARCHIVED,
        (ARCHIVING, QUEUED): ARCHIVED,
    }
)
TERMINAL: Final = frozenset((ACKNOWLEDGED, ARCHIVED))
"""The states that a record does not leave."""
NO_MEMBER: Final = ""
NO_CHANGE: Final = 0


class Before(NamedTuple):
    """What a record was before a change that is not durable yet."""

    state: int
    member: str
    max_deliveries: int
    """The limit of deliveries when the change began."""


class Run:
    """Neighbouring records of one batch that have the same state.

    `lock_until_ms`: the end of the acquisition lock (monotonic). None means that nobody has acquired the records.
    `change`: the number of the change that is not durable yet, or NO_CHANGE. `is_final`: whether the records were
    archived during that change, which therefore cannot be taken back.
    """

    __slots__ = ("before", "change", "deliveries", "first", "is_final", "last", "lock_until_ms", "member", "state")

    def __init__(
        self, first: int, last: int, state: int, deliveries: int, member: str = NO_MEMBER, until_ms: int | None = None
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.deliveries = deliveries
        self.member = member
        self.lock_until_ms = until_ms
        self.change = NO_CHANGE
        self.before: Before | None = None
        self.is_final = False

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def may_be_acquired(self) -> bool:
        """Whether a member may acquire the records now."""
        return self.state == AVAILABLE and not self.change

    @property
    def is_done(self) -> bool:
        """Whether the records have a terminal state that is durable."""
        return self.state in TERMINAL and not self.change

    def lock_has_ended(self, now_ms: int) -> bool:
        """Whether the records had an acquisition lock that has ended by now."""
        return self.lock_until_ms is not None and self.lock_until_ms <= now_ms

    def after(self, event: str) -> None:
        """Change the state; raises IllegalTransition."""
        try:
            self.state = TRANSITIONS[self.state, event]
        except KeyError:
            name = f"records {self.first} to {self.last}"
            raise IllegalTransition(name, STATES[self.state], event) from None

    def archive(self) -> None:
        """Archive the records without a change that must become durable."""
        self.after(QUEUED if self.state == ARCHIVING else DROP)
        self.member, self.lock_until_ms = NO_MEMBER, None
        self.is_final = self.change != NO_CHANGE

    def cut(self, offset: int) -> Run:
        """Shorten the run so that it ends before `offset`, and return the rest."""
        rest = Run(offset, self.last, self.state, self.deliveries, self.member, self.lock_until_ms)
        rest.change, rest.before, rest.is_final = self.change, self.before, self.is_final
        self.last = offset - 1
        for run in (self, rest):
            if run.first == run.last:
                run.last = run.first  # one number for both, since there may be a million of such runs
        return rest

    def continues(self, earlier: Run) -> bool:
        """Whether this run and the run directly before it can be one run."""
        return (
            self.state == earlier.state
            and self.deliveries == earlier.deliveries
            and self.member == earlier.member
            and self.lock_until_ms == earlier.lock_until_ms
            and self.change == earlier.change
            and self.before == earlier.before
            and self.is_final == earlier.is_final
        )


_first: Final[Callable[[Run], int]] = attrgetter("first")


class Batch:
    """Records that one member acquired at once. `runs` cover the batch without gaps.

    `is_divided`: whether the records had different states at some time. Kafka then looks at each record alone.
    """

    __slots__ = ("first", "is_divided", "last", "runs")

    def __init__(self, run: Run) -> None:
        self.first = run.first
        self.last = run.last
        self.runs = [run]
        self.is_divided = False

    @classmethod
    def of(cls, runs: list[Run], *, is_divided: bool) -> Batch:
        """A batch of these runs."""
        batch = cls(runs[0])
        batch.last, batch.runs, batch.is_divided = runs[-1].last, runs, is_divided
        return batch

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def whole(self) -> Run:
        """The only run of a batch that is not divided."""
        return self.runs[0]

    def within(self, first: int, last: int) -> list[Run]:
        """The runs of the records from `first` to `last`. Runs are cut at these two limits."""
        found = []
        at = self._place(first)
        while at < len(self.runs):
            run = self.runs[at]
            if run.first > last:
                break
            if run.first < first <= run.last:
                self.runs.insert(at + 1, run.cut(first))
            elif run.last >= first:
                if run.last > last:
                    self.runs.insert(at + 1, run.cut(last + 1))
                found.append(run)
            at += 1
        return found

    def _place(self, offset: int) -> int:
        """The place of the last run that begins at `offset` or before; 0 if no run does."""
        return max(bisect_right(self.runs, offset, key=_first) - 1, 0)

    def state_at(self, offset: int) -> Run:
        """The run that has a record."""
        return self.runs[self._place(offset)]

    def merge(self) -> None:
        """Make one run of neighbours that have become equal."""
        merged = self.runs[:1]
        for run in self.runs[1:]:
            if run.continues(merged[-1]):
                merged[-1].last = run.last
            else:
                merged.append(run)
        self.runs = merged


class Row(NamedTuple):
    """The state of some records as it is persisted (StateBatch of ShareSnapshot and ShareUpdate)."""

    first: int
    last: int
    state: int
    deliveries: int


class Acquired(NamedTuple):
    """Records that a member has acquired, as in the answer to ShareFetch (AcquiredRecords)."""

    first: int
    last: int
    deliveries: int


class Span(NamedTuple):
    """The offsets of one record batch of the log."""

    first: int
    last: int


def joined(rows: Iterator[Acquired]) -> list[Acquired]:
    """Neighbours with the same number of deliveries as one."""
    found: list[Acquired] = []
    for row in rows:
        if found and row.first == found[-1].last + 1 and row.deliveries == found[-1].deliveries:
            found[-1] = Acquired(found[-1].first, row.last, row.deliveries)
        else:
            found.append(row)
    return found
