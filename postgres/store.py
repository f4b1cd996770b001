"""The contents of the database of one cluster, and the calls that read and write them. Protocols and plain values only.

`postgres.PostgresStore` uses PostgreSQL. The simulation has a store in memory that fails, is slow, and reports
time-outs of writes that were done.

**Node registration, epoch and database write.** Each node id has one node registration. A process that registers gets
an *epoch* that no process had before. A node changes the database in *database writes*, whose numbers rise. A write
counts only if the database finds the epoch and the number of the write before it. So a node that lost its registration
cannot write, and a write that was sent twice counts once. The number in the registration shows whether a write counted
whose answer was lost.

**Visible is not durable.** Only what the database has answered is durable. A visible row may belong to a database
session that ended while it waited for a synchronous standby. A write that was only seen is proven by the answer to a
later write. A `lease.ReadBarrier` proves what a node has read.

**The shared metadata log.** All nodes write this log. A row counts only at the end of the log, so a node that decides
has seen all rows before. The log records which node leads which partition. A row that takes partitions from nodes makes
their registrations *need* this row, in the same transaction. Later writes of such a node count only once the node knows
the row. So a node that reads such a row finds all records of the leader before, which writes no more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

LIVE: Final = 0
"""The state of a segment that is part of its log."""
STAGED: Final = 1
"""The state of a segment that is being written, and will replace other segments."""
DEAD: Final = 2
"""The state of a segment that is not needed any more. The batches of the segment are removed later."""

MAIL_COUNTS_MS: Final = 2_000
"""A message that no node took in this time, by the database's clock, is dropped. The sender waits little longer."""

NUMBERS_OF_A_SESSION: Final = 1 << 24
"""New logs and segments of one node session have numbers from `epoch * NUMBERS_OF_A_SESSION` on."""


class StoreAway(Exception):
    """The database cannot be reached, or did not answer. The request may have been done, or may still be done."""


class StoreRefused(Exception):
    """The database refuses the request, however often it is sent. One sentence says why, and what to do."""


class NodeRegistration(NamedTuple):
    """The registration of one node, and the state of its database writes."""

    node_id: int
    epoch: int
    """The epoch of this node session: no other session of the cluster has it."""
    write_no: int
    needs: int
    """The offset up to which the node must know the metadata log, so that its database writes count."""
    holder: str
    address: str
    remaining_ms: int
    """The rest of the lease, by the clock of the database. Negative: the registration is free."""
    barrier: int = 0
    """The last number of its `lease.ReadBarrier`."""


class Identity(NamedTuple):
    """The ids of a cluster that clients see, the same on each node."""

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
    """The log cleaner has compacted the log up to this offset. 0 for a new log."""


class SegmentRow(NamedTuple):
    """One segment of a log: the unit that retention and compaction remove and replace."""

    segment_no: int
    log_no: int
    base_offset: int
    state: int = LIVE
    size: int = -1
    """The bytes of the segment's batches. -1: this field and the fields after it are not known."""
    first_timestamp: int = -1
    max_timestamp: int = -1
    max_timestamp_offset: int = -1
    aborted_bytes: int = 0
    """How many bytes `Store.aborted` returns for this segment."""


class SegmentFacts(NamedTuple):
    """The facts of a segment. The facts are stored when nothing is appended to the segment any more."""

    segment_no: int
    size: int
    first_timestamp: int
    max_timestamp: int
    max_timestamp_offset: int
    aborted: bytes
    """The transactions that the segment's markers aborted, in the format of a transaction index."""


class Checkpoint(NamedTuple):
    """The state of a log at an offset where a segment begins. All live segments before it have facts then."""

    log_no: int
    offset: int
    epochs: bytes
    """The leader epochs up to the offset, in the format of their checkpoint file."""
    producers: bytes
    """The state of the producers at the offset, as a snapshot file."""


class BatchRow(NamedTuple):
    """Consecutive whole batches in Kafka's format: what one database write appended to one segment."""

    segment_no: int
    base_offset: int
    next_offset: int
    data: bytes


class MetadataRow(NamedTuple):
    """Whole batches of the metadata log. `writer` is a text that no other row has."""

    base_offset: int
    next_offset: int
    writer: str
    data: bytes


class Snapshot(NamedTuple):
    """The content of the metadata log before an offset. The rows before the snapshot may still exist."""

    number: int
    """The number of this snapshot: greater than the numbers of all snapshots that were begun before."""
    end_offset: int
    parts: int


NO_SNAPSHOT: Final = Snapshot(0, 0, 0)


class Mail(NamedTuple):
    """A question or an answer from a node to another node. `mail_id` is the id of the question, also in the answer."""

    mail_id: str
    sender: int
    kind: int
    data: bytes


@dataclass(slots=True)
class Changes:
    """The changes of one database write. The database does the changes in the order of the fields, all or none."""

    new_logs: list[LogRow] = field(default_factory=list)
    new_segments: list[SegmentRow] = field(default_factory=list)
    batches: list[BatchRow] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    """New start offsets, by log."""
    live: list[int] = field(default_factory=list)
    """Staged segments that count from now on."""
    dead: list[int] = field(default_factory=list)
    """Segments that no longer count."""
    dropped: list[int] = field(default_factory=list)
    """Logs of deleted topics."""
    clean: dict[int, int] = field(default_factory=dict)
    """The offsets up to which logs are compacted now."""
    facts: list[SegmentFacts] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)

    @property
    def only_appends(self) -> bool:
        """Whether the changes are only batches, or empty."""
        return self == Changes(batches=self.batches)

    def leave_out(self, log_no: int, segments: Collection[int]) -> None:
        """Remove the changes of this log and of these segments: another node leads the log now."""
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
    """The database. Each call ends within its time-out: with an answer, StoreAway or StoreRefused."""

    async def identity(self) -> Identity:
        """The ids of the cluster."""

    def when_hinted(self, node_id: int, wake: Callable[[], object]) -> None:
        """Call `wake` when a node has messages, or when the metadata log has grown. Calls begin with the next request.
        A hint may be missing: callers must not rely on it.
        """

    @property
    def session(self) -> int:
        """The number of the connection. Requests under one number went to one server."""

    @property
    def hears(self) -> bool:
        """Whether this node has received a hint. A hint is missing only when the writer died just then."""

    # -- registrations

    async def register_node(
        self, holder: str, address: str, node_id: int | None, lease_ms: int
    ) -> NodeRegistration | None:
        """Register a process: under `node_id`, with a new epoch. Without `node_id`, the node gets the id that this
        holder had, else the first free id, else a new id. Returns None while another holder has the id, or was quicker.
        """

    async def unregister_node(self, node_id: int, epoch: int) -> None:
        """Free the registration, if the node still holds it in that epoch."""

    async def registrations(self) -> Sequence[NodeRegistration]:
        """All registrations, by node id."""

    async def commit(
        self,
        node_id: int,
        epoch: int,
        write_no: int,
        known: int,
        changes: Changes,
        lease_ms: int,
        *,
        after: int | None = None,
        barrier: int = 0,
    ) -> bool:
        """Do the changes of a database write, and extend the lease to `lease_ms` from now. False: the database did
        nothing. Then the epoch is over, or the last write was not `after` (None: the number before). Or the
        registration needs more of the metadata log than `known`, or it does not have the number `barrier`.
        """

    async def barrier(self, node_id: int, epoch: int, number: int, *, after: int, write_no: int) -> bool:
        """Write a number of the node's `ReadBarrier` to its registration, over the connection that all other reads use.
        False: the database did nothing. Then the epoch is over, or the registration no longer has the number `after` or
        the write `write_no`.
        """

    # -- the metadata log

    async def metadata(self, since: int) -> Sequence[MetadataRow]:
        """The rows from offset `since` on, in order; possibly not all of them. If the first row begins later, the rows
        before are only in the snapshot. The newest row always exists.
        """

    async def write_metadata(
        self, row: MetadataRow, needing: Sequence[int] = (), dead: Mapping[int, int] | None = None
    ) -> bool:
        """Add a row at the end of the log. From then on, the registrations of the nodes `needing` need this row. `dead`
        has epochs by node id: the leases of these nodes are over, and their registrations become free.

        False: the database did nothing. Then the offset has a row, or had one before the end of the snapshot. Or one of
        the nodes `dead` is alive.
        """

    async def snapshot(self) -> Snapshot:
        """The newest complete snapshot; `NO_SNAPSHOT` if the database has none."""

    async def snapshot_part(self, number: int, part: int) -> bytes | None:
        """A part of a snapshot, from 0 on. None: the part does not exist, because a newer snapshot does."""

    async def begin_snapshot(self) -> int:
        """A number for a new snapshot."""

    async def put_snapshot_part(self, node_id: int, epoch: int, number: int, part: int, data: bytes) -> bool:
        """Add a part. False: the epoch of the registration is over."""

    async def commit_snapshot(self, node_id: int, epoch: int, snapshot: Snapshot) -> bool:
        """Make this the current snapshot: all its parts were put. False: the epoch of the registration is over, a part
        is missing, or another snapshot is newer.
        """

    async def shorten_metadata(self, kept_ms: int) -> bool:
        """Remove some rows before the end of the snapshot, and some parts of earlier snapshots. The call needs a
        snapshot that is current since `kept_ms`. Returns whether no such row or part is left.
        """

    # -- messages between nodes

    async def send(self, to: Sequence[tuple[int, Mail]]) -> None:
        """Send messages to nodes."""

    async def mail(self, node_id: int) -> Sequence[Mail]:
        """Take the messages of a node, oldest first. Messages older than `MAIL_COUNTS_MS` are not delivered."""

    # -- logs

    async def purge(self, segment_no: int) -> bool:
        """Remove some batches of a dead segment, and the segment when it has no batches. Returns whether nothing is
        left. A purge needs no database write: no node reads a dead segment again.
        """

    async def logs(self) -> Sequence[LogRow]:
        """All logs, by number."""

    async def ends(self) -> Sequence[tuple[str, int, int, int]]:
        """Topic, partition, start and end of each log."""

    async def log(self, topic_id: bytes, partition: int) -> LogRow | None:
        """The log of a partition, if it has one."""

    async def segments(self, log_no: int) -> Sequence[SegmentRow]:
        """The segments of a log, of any state, by base offset and number."""

    async def checkpoint(self, log_no: int) -> Checkpoint | None:
        """The newest checkpoint of a log. None: the log has no checkpoint."""

    async def aborted(self, log_no: int, since: int) -> Sequence[tuple[int, bytes]]:
        """Transaction indexes of live segments of a log with aborted transactions, by base offset, from a base offset
        on. A call returns some transactions. Empty: the log has no more indexes.
        """

    async def batches(self, segment_no: int, since: int) -> Sequence[BatchRow]:
        """Some batches of a segment, from an offset on. Empty: the segment ends there."""

    async def close(self) -> None:
        """Close the connection."""
