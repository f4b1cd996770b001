"""A cluster in PostgreSQL, or in the simulation's tables: both pass the same tests."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Mapping, Sequence
from random import Random

from muster.postgres import administration
from muster.postgres.lease import ReadBarrier
from muster.postgres.postgres import PostgresStore
from muster.postgres.store import (
    BatchRow,
    Changes,
    Checkpoint,
    Identity,
    LogRow,
    Mail,
    MetadataRow,
    NodeRegistration,
    SegmentRow,
    Snapshot,
)
from muster.simulation.cluster.tables import Tables
from muster.virtual.world import World

_names = itertools.count()


def new_name() -> str:
    """The name of a cluster that no other test has."""
    return f"cluster-{secrets.token_hex(4)}-{next(_names)}"


async def new_cluster(url: str) -> str:
    """Make a cluster; its name."""
    name = new_name()
    await administration.init(url, name, Identity(f"id-of-{name}", "AAAAAAAAAAAAAAAAAAAAAQ"))
    return name


async def postgres_store(url: str) -> PostgresStore:
    """A new cluster in PostgreSQL."""
    return PostgresStore(url, await new_cluster(url), timeout_ms=30_000)


class TableStore:
    """The simulation's tables, which answer at once."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    async def identity(self) -> Identity:
        return self.tables.identity

    def when_hinted(self, node_id: int, wake: Callable[[], object]) -> None:
        pass

    @property
    def session(self) -> int:
        return 1

    @property
    def hears(self) -> bool:
        return False

    async def register_node(
        self, holder: str, address: str, node_id: int | None, lease_ms: int
    ) -> NodeRegistration | None:
        return self.tables.register_node(holder, address, node_id, lease_ms)

    async def unregister_node(self, node_id: int, epoch: int) -> None:
        self.tables.unregister_node(node_id, epoch)

    async def registrations(self) -> Sequence[NodeRegistration]:
        return self.tables.registrations()

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
        return self.tables.commit(node_id, epoch, write_no, known, changes, lease_ms, after, barrier)

    async def barrier(self, node_id: int, epoch: int, number: int, *, after: int, write_no: int) -> bool:
        return self.tables.barrier(node_id, epoch, number, after, write_no)

    async def metadata(self, since: int) -> Sequence[MetadataRow]:
        return self.tables.metadata(since)

    async def write_metadata(
        self, row: MetadataRow, needing: Sequence[int] = (), dead: Mapping[int, int] | None = None
    ) -> bool:
        return self.tables.write_metadata(row, needing, dead or {})

    async def snapshot(self) -> Snapshot:
        return self.tables.snapshot

    async def snapshot_part(self, number: int, part: int) -> bytes | None:
        return self.tables.snapshot_parts.get((number, part))

    async def begin_snapshot(self) -> int:
        return self.tables.begin_snapshot()

    async def put_snapshot_part(self, node_id: int, epoch: int, number: int, part: int, data: bytes) -> bool:
        return self.tables.put_snapshot_part(node_id, epoch, number, part, data)

    async def commit_snapshot(self, node_id: int, epoch: int, snapshot: Snapshot) -> bool:
        return self.tables.commit_snapshot(node_id, epoch, snapshot)

    async def shorten_metadata(self, kept_ms: int) -> bool:
        return self.tables.shorten_metadata(kept_ms)

    async def send(self, to: Sequence[tuple[int, Mail]]) -> None:
        self.tables.send(to)

    async def mail(self, node_id: int) -> Sequence[Mail]:
        return self.tables.mail(node_id)

    async def purge(self, segment_no: int) -> bool:
        return self.tables.purge(segment_no)

    async def logs(self) -> Sequence[LogRow]:
        return sorted(self.tables.logs.values())

    async def log(self, topic_id: bytes, partition: int) -> LogRow | None:
        return self.tables.log_of(topic_id, partition)

    async def ends(self) -> Sequence[tuple[str, int, int, int]]:
        return self.tables.ends()

    async def segments(self, log_no: int) -> Sequence[SegmentRow]:
        return self.tables.segments(log_no)

    async def checkpoint(self, log_no: int) -> Checkpoint | None:
        return self.tables.checkpoints.get(log_no)

    async def aborted(self, log_no: int, since: int) -> Sequence[tuple[int, bytes]]:
        return self.tables.aborted_of(log_no, since)

    async def batches(self, segment_no: int, since: int) -> Sequence[BatchRow]:
        return self.tables.batches(segment_no, since)

    async def close(self) -> None:
        pass


def table_store(world: World) -> TableStore:
    """An empty cluster in the simulation's tables."""
    return TableStore(Tables(world))


class Passing(ReadBarrier):
    """A barrier that treats everything that was read as durable."""

    def __init__(self) -> None:
        world = World(Random(1))
        super().__init__(table_store(world), NodeRegistration(1, 1, 0, 0, "somebody", "somewhere", 1))

    async def passed(self, _: int) -> bool:
        return True


def passing() -> Passing:
    """A barrier for readers of data that does not change."""
    return Passing()
