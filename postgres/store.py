"""What a database holds of one cluster, and what is asked of it. Protocols and plain values only.

`postgres.PostgresStore` asks PostgreSQL; the simulation has one in memory that fails, is slow, and lies by time-out.

**Seat, epoch and turn.** Each node holds a *seat*: that of its node id. Who takes one gets an *epoch* that nobody had
before. What a node writes, it writes in *turns* with numbers that rise, and a turn counts only if the database finds
the epoch and the turn before it. So a node that lost its seat cannot write, a turn that was sent twice counts once, and
whether one whose answer was lost has counted is read from the number.

**Visible is not durable.** Only what the database has answered lasts. A row that can be read may be one of a session
that has ended while it waited for a synchronous standby. The answer to a later turn proves a turn that is only seen.
What is read is proven by a `read_barrier.ReadBarrier`.

**The metadata log** is written by all nodes: a row counts only at the end of what there is, so that whoever decides has
seen all before. It says who leads which partition. A row that takes partitions from nodes makes their seats *need* it
in the same transaction: their turns count only once they know it. So whoever reads such a row finds all that the leader
before has ever written, and that leader writes no more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

LIVE: Final = 0
"""The state of a segment that is part of its log."""
STAGED: Final = 1
"""It is being written, to take the place of others."""
DEAD: Final = 2
"""It is not needed any more, and its batches go when there is time."""

MAIL_COUNTS_MS: Final = 2_000
"""Mail that was not taken for so long, by the clock of the database, is not given: who sent it does not wait much
longer."""

NUMBERS_OF_A_TERM: Final = 1 << 24
"""Logs and segments that are new in one term of a seat have numbers from `epoch * NUMBERS_OF_A_TERM` on."""


class StoreAway(Exception):
    """The database cannot be reached, or did not answer: what was asked may have been done, or may still be."""


class StoreRefused(Exception):
    """The database will not do what was asked, however often: one sentence that says why, and what to do."""


class NodeRegistration(NamedTuple):
    """One node, and how far it came."""

    node_id: int
    epoch: int
    """Of this term: no other one of the cluster has it."""
    turn: int
    needs: int
    """What the node must know of the metadata log, so that its turns count."""
    holder: str
    address: str
    remaining_ms: int
    """How long it is still held, by the clock of the database; negative: it is free."""
    barrier: int = 0
    """The last number of its `read_barrier.ReadBarrier`."""


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
    clean_offset: int = 0
    """Up to here the log cleaner came; not said of a new log."""


class SegmentRow(NamedTuple):
    """One segment of a log: what retention and compaction remove and replace as a whole."""

    segment_no: int
    log_no: int
    base_offset: int
    state: int = LIVE
    size: int = -1
    """Of its batches; -1: this, and what follows, is not known."""
    first_timestamp: int = -1
    max_timestamp: int = -1
    max_timestamp_offset: int = -1
    aborted_bytes: int = 0
    """What there is to be asked for by `Store.aborted`."""


class SegmentFacts(NamedTuple):
    """What is put beside a segment when nothing is appended to it any more."""

    segment_no: int
    size: int
    first_timestamp: int
    max_timestamp: int
    max_timestamp_offset: int
    aborted: bytes
    """The transactions that were aborted by its markers, as a transaction index has them."""


class Checkpoint(NamedTuple):
    """How a log stood at an offset where a segment begins. All that are live before have their facts then."""

    log_no: int
    offset: int
    epochs: bytes
    """The leader epochs up to there, in the format of their checkpoint file."""
    producers: bytes
    """The state of its producers there, as a file of a snapshot."""


class BatchRow(NamedTuple):
    """Whole batches as Kafka has them, which follow each other: what one turn has brought to one segment."""

    segment_no: int
    base_offset: int
    next_offset: int
    data: bytes


class MetadataRow(NamedTuple):
    """Whole batches of the metadata log. `writer`: a text that nobody else has written with."""

    base_offset: int
    next_offset: int
    writer: str
    data: bytes


class Snapshot(NamedTuple):
    """All that the metadata log says before an offset. The rows before may be there still."""

    number: int
    """Of this writing of it: greater than that of all that were begun before."""
    end_offset: int
    parts: int


NO_SNAPSHOT: Final = Snapshot(0, 0, 0)


class Mail(NamedTuple):
    """What one node asks or tells another. `mail_id`: of the question, also in the answer."""

    mail_id: str
    sender: int
    kind: int
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
    clean: dict[int, int] = field(default_factory=dict)
    """Up to where logs are compacted now."""
    facts: list[SegmentFacts] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)

    @property
    def only_appends(self) -> bool:
        """Whether there is nothing but batches, or nothing at all."""
        return not (
            self.new_logs
            or self.new_segments
            or self.starts
            or self.live
            or self.dead
            or self.dropped
            or self.clean
            or self.facts
            or self.checkpoints
        )

    def leave_out(self, log_no: int, segments: Collection[int]) -> None:
        """Nothing of this log, with these segments, goes along: another node leads it now."""
        self.new_logs = [row for row in self.new_logs if row.log_no != log_no]
        self.new_segments = [row for row in self.new_segments if row.log_no != log_no]
        self.batches = [row for row in self.batches if row.segment_no not in segments]
        self.starts.pop(log_no, None)
        self.clean.pop(log_no, None)
        self.live = [number for number in self.live if number not in segments]
        self.dead = [number for number in self.dead if number not in segments]
        self.facts = [row for row in self.facts if row.segment_no not in segments]
        self.checkpoints = [row for row in self.checkpoints if row.log_no != log_no]


class Store(Protocol):
    """The database. Each call ends within its time: with an answer, StoreAway or StoreRefused."""

    async def identity(self) -> Identity:
        """Of the cluster."""

    def when_hinted(self, node_id: int, wake: Callable[[], object]) -> None:
        """From the next question on call `wake` when there is mail for a node, or the metadata log has grown: perhaps,
        and not to be relied on.
        """

    @property
    def session(self) -> int:
        """Another number for each connection: what was asked under one number was asked of one server."""

    @property
    def hears(self) -> bool:
        """Whether hints come here: one was heard. What there is no hint at is written by who died just then."""

    # -- seats

    async def register_node(
        self, holder: str, address: str, node_id: int | None, lease_ms: int
    ) -> NodeRegistration | None:
        """Sit down: at the seat of that id; None: at the one that this holder had, the first that is free, or a new
        one. It gets a new epoch. None is returned while another holder has the one that was asked for, or was quicker.
        """

    async def unregister_node(self, node_id: int, epoch: int) -> None:
        """Stand up, if the seat is still held in that epoch."""

    async def seats(self) -> Sequence[NodeRegistration]:
        """All seats, by id."""

    async def commit(
        self,
        node_id: int,
        epoch: int,
        turn: int,
        known: int,
        changes: Changes,
        lease_ms: int,
        *,
        after: int | None = None,
        barrier: int = 0,
    ) -> bool:
        """Do what a turn brings, and hold the seat for `lease_ms` from now. False: nothing was done. Then the epoch is
        over, or the last turn was not `after` (None: the number before). Or the seat needs more of the metadata log
        than `known`, or it does not have the number `barrier`.
        """

    async def barrier(self, node_id: int, epoch: int, number: int, *, after: int, turn: int) -> bool:
        """Write a number of the seat's `ReadBarrier`, over the connection by which all else is read. False: nothing was
        done. Then the epoch is over, or the seat does not have the number `after` or the turn `turn` any more.
        """

    # -- the metadata log

    async def metadata(self, since: int) -> Sequence[MetadataRow]:
        """The rows from that offset on, in order; perhaps not all of them. If the first one begins later, what was
        before is only in the snapshot. The newest row is always there.
        """

    async def write_metadata(
        self, row: MetadataRow, needing: Sequence[int] = (), dead: Mapping[int, int] | None = None
    ) -> bool:
        """Add a row at the end. The seats `needing` need it from then on; the seats `dead` (by node id, the epoch), of
        which the lease is over, are free. False: nothing was done, for there is a row at its offset, or was (it is
        before the end of the snapshot), or one of these is not dead.
        """

    async def snapshot(self) -> Snapshot:
        """The newest one that is whole; `NO_SNAPSHOT`: there is none."""

    async def snapshot_part(self, number: int, part: int) -> bytes | None:
        """A part of a snapshot, from 0 on; None: it is not there, for a newer snapshot is."""

    async def begin_snapshot(self) -> int:
        """A number for a new snapshot."""

    async def put_snapshot_part(self, node_id: int, epoch: int, number: int, part: int, data: bytes) -> bool:
        """Add a part; False: the epoch of the seat is over."""

    async def commit_snapshot(self, node_id: int, epoch: int, snapshot: Snapshot) -> bool:
        """All parts were put: from now on it is the snapshot. False: it is not, for the epoch of the seat is over, a
        part is missing, or another snapshot is newer.
        """

    async def shorten_metadata(self, kept_ms: int) -> bool:
        """Remove some of what the snapshot stands for, if it is that for `kept_ms`: rows of the metadata log before its
        end, and parts of earlier ones. Whether nothing of that is left.
        """

    # -- mail

    async def send(self, to: Sequence[tuple[int, Mail]]) -> None:
        """Put these into the boxes of nodes."""

    async def mail(self, node_id: int) -> Sequence[Mail]:
        """Take what there is for a node, oldest first. What is older than `MAIL_COUNTS_MS` goes unread."""

    # -- logs

    async def purge(self, segment_no: int) -> bool:
        """Remove some batches of a dead segment, and the segment when none is left; whether nothing is left. It needs
        no turn: nobody asks for a dead segment again.
        """

    async def logs(self) -> Sequence[LogRow]:
        """All logs, by number."""

    async def log(self, topic_id: bytes, partition: int) -> LogRow | None:
        """That of a partition, if it has one."""

    async def segments(self, log_no: int) -> Sequence[SegmentRow]:
        """The segments of a log, of any state, by base offset and number."""

    async def checkpoint(self, log_no: int) -> Checkpoint | None:
        """The newest one of a log; None: it has none."""

    async def aborted(self, log_no: int, since: int) -> Sequence[tuple[int, bytes]]:
        """What was put beside some live segments of a log that have aborted transactions, from a base offset on, with
        their base offsets; none: there are no more.
        """

    async def batches(self, segment_no: int, since: int) -> Sequence[BatchRow]:
        """Some batches of a segment, from an offset on; none: that is its end."""

    async def close(self) -> None:
        """Hang up."""
