"""The connection of a node to the `Tables`. It is slow, loses answers, and executes writes that it called failed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from random import Random
from typing import Final, TypeVar

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
    StoreAway,
)
from muster.simulation.cluster.tables import Tables
from muster.virtual.world import Run, World

LATEST_MS: Final = 30_000
"""A statement whose answer nobody waits for any more is executed within this time."""
SESSIONS: Final = 1_000_000
"""One node has fewer sessions than this with one server."""
ENDED: Final = 700
"""Of a thousand writes that wait for a standby, the number of those whose session ends."""

T = TypeVar("T")


class FaultyStore:
    """The connection of one node to the tables.

    `faults`: how many of a thousand requests fail. `hints`: how many of a thousand hints arrive. `is_cut`: whether the
    connection is cut, so that no request or answer arrives.
    """

    def __init__(self, world: World, tables: Tables, run: Run, rng: Random, *, timeout_ms: int) -> None:
        self._world = world
        self._tables = tables
        self._run = run
        self._rng = rng
        self._timeout_ms = timeout_ms
        self.faults = 0
        self.hints = 0
        self.slow_ms = 3
        self.is_cut = False
        self._failures = 0

    @property
    def session(self) -> int:
        """The number of the database session. It changes after each failure, and with another server."""
        return self._tables.servers * SESSIONS + self._failures

    async def _write(self, act: Callable[[], T], is_write: Callable[[], bool] = lambda: True) -> T:
        return await self._ask(act, is_write)

    async def _ask(self, act: Callable[[], T], is_write: Callable[[], bool] = lambda: False) -> T:
        server = self._tables.servers
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        rng, world, tables = self._rng, self._world, self._tables
        takes_ms = 1 + rng.randrange(max(self.slow_ms, 1))
        is_late = takes_ms > self._timeout_ms

        def answer(value: T) -> None:
            if not future.done():
                future.set_result(value)

        def fail(why: str) -> None:
            if not future.done():
                self._failures += 1
                future.set_exception(StoreAway(why))

        def do(is_answered: bool) -> None:
            if tables.is_down or (self.is_cut and is_answered) or server != tables.servers:
                return  # the caller will get a timeout
            if tables.waits_for_standby and is_write():
                if rng.randrange(1000) < ENDED:
                    act()
                    tables.saw()
                    self._run(lambda: fail("the session has ended"))
                else:
                    tables.wait(lambda: do(is_answered))
                return
            value = act()
            if is_answered and not self.is_cut:
                self._run(lambda: answer(value))

        if rng.randrange(1000) < self.faults:
            kind = rng.choice(("refused", "lost", "later"))
            if kind != "refused":
                # the statement is executed although nobody gets an answer: soon, or much later
                late_ms = takes_ms if kind == "lost" else rng.randrange(LATEST_MS)
                world.later(late_ms, lambda _: do(is_answered=False))
            world.later(rng.randrange(self._timeout_ms), lambda _: self._run(lambda: fail(kind)))
        else:
            world.later(takes_ms, lambda _: do(is_answered=not is_late))
            world.later(self._timeout_ms, lambda _: self._run(lambda: fail("timeout")))
        return await future

    async def identity(self) -> Identity:
        return await self._ask(lambda: self._tables.identity)

    def when_hinted(self, node_id: int, wake: Callable[[], object]) -> None:
        def hint() -> None:
            if self.hints and self._rng.randrange(1000) < self.hints and not (self.is_cut or self._tables.is_down):
                self._world.later(1 + self._rng.randrange(self.slow_ms), lambda _: self._run(wake))

        self._tables.hinted[node_id] = hint

    @property
    def hears(self) -> bool:
        """Whether some hints arrive. The node does not know how many are lost."""
        return self.hints > 0

    async def register_node(
        self, holder: str, address: str, node_id: int | None, lease_ms: int
    ) -> NodeRegistration | None:
        return await self._write(lambda: self._tables.register_node(holder, address, node_id, lease_ms))

    async def unregister_node(self, node_id: int, epoch: int) -> None:
        await self._write(lambda: self._tables.unregister_node(node_id, epoch))

    async def registrations(self) -> Sequence[NodeRegistration]:
        return await self._ask(self._tables.registrations)

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
        # this is a copy, because the changes are already sent: later the caller may leave some of them out
        sent = deepcopy(changes)
        hold = node_id, epoch, write_no, known
        return await self._write(lambda: self._tables.commit(*hold, sent, lease_ms, after, barrier))

    async def barrier(self, node_id: int, epoch: int, number: int, *, after: int, write_no: int) -> bool:
        return await self._write(lambda: self._tables.barrier(node_id, epoch, number, after, write_no))

    async def metadata(self, since: int) -> Sequence[MetadataRow]:
        return await self._ask(lambda: self._tables.metadata(since))

    async def write_metadata(
        self, row: MetadataRow, needing: Sequence[int] = (), dead: Mapping[int, int] | None = None
    ) -> bool:
        return await self._write(lambda: self._tables.write_metadata(row, needing, dead or {}))

    async def snapshot(self) -> Snapshot:
        return await self._ask(lambda: self._tables.snapshot)

    async def snapshot_part(self, number: int, part: int) -> bytes | None:
        return await self._ask(lambda: self._tables.snapshot_parts.get((number, part)))

    async def begin_snapshot(self) -> int:
        return await self._write(self._tables.begin_snapshot)

    async def put_snapshot_part(self, node_id: int, epoch: int, number: int, part: int, data: bytes) -> bool:
        return await self._write(lambda: self._tables.put_snapshot_part(node_id, epoch, number, part, data))

    async def commit_snapshot(self, node_id: int, epoch: int, snapshot: Snapshot) -> bool:
        return await self._write(lambda: self._tables.commit_snapshot(node_id, epoch, snapshot))

    async def shorten_metadata(self, kept_ms: int) -> bool:
        return await self._write(lambda: self._tables.shorten_metadata(kept_ms))

    async def send(self, to: Sequence[tuple[int, Mail]]) -> None:
        await self._write(lambda: self._tables.send(to))

    async def mail(self, node_id: int) -> Sequence[Mail]:
        return await self._write(lambda: self._tables.mail(node_id), lambda: bool(self._tables.boxes.get(node_id)))

    async def purge(self, segment_no: int) -> bool:
        return await self._write(lambda: self._tables.purge(segment_no))

    async def logs(self) -> Sequence[LogRow]:
        return await self._ask(lambda: sorted(self._tables.logs.values()))

    async def log(self, topic_id: bytes, partition: int) -> LogRow | None:
        return await self._ask(lambda: self._tables.log_of(topic_id, partition))

    async def ends(self) -> Sequence[tuple[str, int, int, int]]:
        return await self._ask(self._tables.ends)

    async def segments(self, log_no: int) -> Sequence[SegmentRow]:
        return await self._ask(lambda: self._tables.segments(log_no))

    async def checkpoint(self, log_no: int) -> Checkpoint | None:
        return await self._ask(lambda: self._tables.checkpoints.get(log_no))

    async def aborted(self, log_no: int, since: int) -> Sequence[tuple[int, bytes]]:
        return await self._ask(lambda: self._tables.aborted_of(log_no, since))

    async def batches(self, segment_no: int, since: int) -> Sequence[BatchRow]:
        return await self._ask(lambda: self._tables.batches(segment_no, since))

    async def close(self) -> None:
        pass
