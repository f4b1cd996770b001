"""A cluster in PostgreSQL, or in the simulation's tables: the same tests hold for both."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import AsyncIterator, Sequence

from muster.coordinator.database import administration
from muster.coordinator.database.postgres import PostgresStore
from muster.coordinator.database.store import BatchRow, Changes, Identity, LogRow, Office, SegmentRow
from muster.simulation.cluster.database import Tables
from muster.simulation.world import World

_names = itertools.count()


def new_name() -> str:
    """Of a cluster that no other test has."""
    return f"cluster-{secrets.token_hex(4)}-{next(_names)}"


async def new_cluster(url: str) -> str:
    """Make one; its name."""
    name = new_name()
    await administration.init(url, name, Identity(f"id-of-{name}", "AAAAAAAAAAAAAAAAAAAAAQ"))
    return name


async def postgres_store(url: str) -> PostgresStore:
    """A new cluster."""
    return PostgresStore(url, await new_cluster(url), timeout_ms=30_000)


class TableStore:
    """The simulation's tables, at once."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    async def identity(self) -> Identity:
        return self.tables.identity

    async def acquire(self, holder: str, address: str, lease_ms: int) -> Office:
        return self.tables.acquire(holder, lease_ms)

    async def release(self, holder: str, epoch: int) -> None:
        self.tables.release(holder, epoch)

    async def office(self) -> Office:
        return self.tables.office()

    async def commit(self, epoch: int, turn: int, changes: Changes, lease_ms: int) -> bool:
        return self.tables.commit(epoch, turn, changes, lease_ms)

    async def purge(self, segment_no: int) -> bool:
        return self.tables.purge(segment_no)

    async def logs(self) -> Sequence[LogRow]:
        return sorted(self.tables.logs.values())

    async def segments(self) -> Sequence[SegmentRow]:
        return self.tables.all_segments()

    async def batches(self) -> AsyncIterator[Sequence[BatchRow]]:
        yield self.tables.live_rows()

    async def close(self) -> None:
        pass


def table_store(world: World) -> TableStore:
    """An empty cluster."""
    return TableStore(Tables(world))
