"""What a database holds of one cluster, and what is asked of it. Protocols and plain values only.

`postgres.PostgresStore` asks PostgreSQL; the simulation has one in memory that fails, is slow, and lies by time-out.

**Office, epoch and turn.** One node at a time holds the office of a cluster. Each that takes it gets a greater *epoch*.
What it writes, it writes in *turns* with numbers that rise by one, and a turn counts only if the database finds the
epoch and the turn before it. So a node that lost the office cannot write, a turn that was sent twice counts once, and
whether one whose answer was lost has counted is read from the number.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

LIVE: Final = 0
"""The state of a segment that is part of its log."""
STAGED: Final = 1
"""It is being written, to take the place of others."""
DEAD: Final = 2
"""It is not needed any more, and its batches go when there is time."""


class StoreAway(Exception):
    """The database cannot be reached, or did not answer: what was asked may have been done, or may still be."""


class StoreRefused(Exception):
    """The database will not do what was asked, however often: one sentence that says why, and what to do."""


class Office(NamedTuple):
    """Who holds the office, and how far it came."""

    epoch: int
    turn: int
    holder: str
    address: str
    remaining_ms: int
    """How long it is still held, by the clock of the database; negative: it is free."""


class Identity(NamedTuple):
    """What a cluster is for its clients, whichever node serves."""

    cluster_id: str
    directory_id: str


class LogRow(NamedTuple):
    """The log of one partition."""

    log_no: int
    topic: str
    partition: int
    topic_id: bytes
    start_offset: int


class SegmentRow(NamedTuple):
    """One segment of a log: what retention and compaction remove and replace as a whole."""

    segment_no: int
    log_no: int
    base_offset: int
    state: int = LIVE


class BatchRow(NamedTuple):
    """Whole batches as Kafka has them, which follow each other: what one turn has brought to one segment."""

    segment_no: int
    base_offset: int
    next_offset: int
    data: bytes


@dataclass(slots=True)
class Changes:
    """All that one turn brings. Done in the order of the fields, wholly or not at all."""

    new_logs: list[LogRow] = field(default_factory=list)
    new_segments: list[SegmentRow] = field(default_factory=list)
    batches: list[BatchRow] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    """New start offsets, by log."""
    live: list[int] = field(default_factory=list)
    """Staged segments that count from now on."""
    dead: list[int] = field(default_factory=list)
    """Segments that cease to count."""
    dropped: list[int] = field(default_factory=list)
    """Logs of deleted topics."""

    @property
    def only_appends(self) -> bool:
        """Whether there is nothing but batches, or nothing at all."""
        return not (self.new_logs or self.new_segments or self.starts or self.live or self.dead or self.dropped)


class Store(Protocol):
    """The database. Each call ends within its time: with an answer, StoreAway or StoreRefused."""

    async def identity(self) -> Identity:
        """Of the cluster."""

    async def acquire(self, holder: str, address: str, lease_ms: int) -> Office:
        """Take the office if it is free, or was this holder's: the office as it is then, whoever has it. Whoever stands
        by is noted.
        """

    async def release(self, holder: str, epoch: int) -> None:
        """Give the office up, if it is still held in that epoch."""

    async def office(self) -> Office:
        """Who holds it."""

    async def commit(self, epoch: int, turn: int, changes: Changes, lease_ms: int) -> bool:
        """Do what a turn brings, and hold the office for `lease_ms` from now. False: nothing was done, for the epoch is
        over, or this turn was done before.
        """

    async def purge(self, segment_no: int) -> bool:
        """Remove some batches of a dead segment, and the segment when none is left; whether nothing is left. It needs
        no turn: nobody asks for a dead segment again.
        """

    async def logs(self) -> Sequence[LogRow]:
        """All logs, by number."""

    async def segments(self) -> Sequence[SegmentRow]:
        """All segments of any state, by log and base offset."""

    def batches(self) -> AsyncIterator[Sequence[BatchRow]]:
        """The batches of all live segments, some at a time, by segment and offset."""

    async def close(self) -> None:
        """Hang up."""
