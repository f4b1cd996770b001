"""The database of a cluster, in memory: `Tables` do at once and wholly what the SQL of
`coordinator.database.postgres` does; a node reaches them through a `FaultyStore`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from random import Random
from typing import Final, TypeVar

from muster.coordinator.database.store import (
    DEAD,
    LIVE,
    BatchRow,
    Changes,
    Identity,
    LogRow,
    Office,
    SegmentRow,
    StoreAway,
)
from muster.simulation.world import Run, World

FETCHED_ROWS: Final = 5
PURGED_ROWS: Final = 2
LATEST_MS: Final = 30_000
"""A statement that nobody waits for any more is done within so long."""

T = TypeVar("T")


class Tables:
    """What the database has, and does. `writers`: who has written in which epoch."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.identity = Identity("cluster-of-the-simulation", "AAAAAAAAAAAAAAAAAAAAAQ")
        self.epoch = self.turn = 0
        self.holder = ""
        self.expires_ms = world.ms
        self.logs: dict[int, LogRow] = {}
        self.segments: dict[int, SegmentRow] = {}
        self.batches: dict[tuple[int, int], BatchRow] = {}
        self.is_down = False
        """It answers nobody."""

    def office(self) -> Office:
        return Office(self.epoch, self.turn, self.holder, self.holder, self.expires_ms - self._world.ms)

    def acquire(self, holder: str, lease_ms: int) -> Office:
        if self.expires_ms <= self._world.ms or self.holder == holder:
            self.epoch, self.turn, self.holder = self.epoch + 1, 0, holder
            self.expires_ms = self._world.ms + lease_ms
        return self.office()

    def release(self, holder: str, epoch: int) -> None:
        if (self.holder, self.epoch) == (holder, epoch):
            self.expires_ms = self._world.ms

    def commit(self, epoch: int, turn: int, changes: Changes, lease_ms: int) -> bool:
        if self.epoch != epoch or self.turn != turn - 1:
            return False
        self.turn, self.expires_ms = turn, self._world.ms + lease_ms
        for log in changes.new_logs:
            if log.log_no in self.logs:
                raise AssertionError(f"log {log.log_no} is there")
            self.logs[log.log_no] = log
        for segment in changes.new_segments:
            if segment.segment_no in self.segments:
                raise AssertionError(f"segment {segment.segment_no} is there")
            self.segments[segment.segment_no] = segment
        for row in changes.batches:
            key = row.segment_no, row.base_offset
            if key in self.batches:
                raise AssertionError(f"a row at {key} is there")
            self.batches[key] = row
        for log_no, start_offset in changes.starts.items():
            if log_no in self.logs:
                self.logs[log_no] = self.logs[log_no]._replace(start_offset=start_offset)
        for state, numbers in ((LIVE, changes.live), (DEAD, changes.dead)):
            for number in numbers:
                if number in self.segments:
                    self.segments[number] = self.segments[number]._replace(state=state)
        for log_no in changes.dropped:
            self.logs.pop(log_no, None)
        return True

    def purge(self, segment_no: int) -> bool:
        segment = self.segments.get(segment_no)
        if segment is None or segment.state != DEAD:
            return True
        keys = sorted(key for key in self.batches if key[0] == segment_no)
        for key in keys[:PURGED_ROWS]:
            del self.batches[key]
        if len(keys) <= PURGED_ROWS:
            del self.segments[segment_no]
        return len(keys) <= PURGED_ROWS

    def live_rows(self) -> list[BatchRow]:
        live = {number for number, segment in self.segments.items() if segment.state == LIVE}
        return [row for key, row in sorted(self.batches.items()) if key[0] in live]

    def all_segments(self) -> list[SegmentRow]:
        return sorted(self.segments.values(), key=lambda row: (row.log_no, row.base_offset, row.segment_no))


class FaultyStore:
    """The way of one node to the tables. `faults`: how many of a thousand questions go wrong; `is_cut`: nothing gets
    through from here.
    """

    def __init__(self, world: World, tables: Tables, run: Run, rng: Random, *, timeout_ms: int) -> None:
        self._world = world
        self._tables = tables
        self._run = run
        self._rng = rng
        self._timeout_ms = timeout_ms
        self.faults = 0
        self.slow_ms = 3
        self.is_cut = False

    async def _ask(self, act: Callable[[], T]) -> T:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        rng, world, tables = self._rng, self._world, self._tables
        takes_ms = 1 + rng.randrange(max(self.slow_ms, 1))
        is_late = takes_ms > self._timeout_ms

        def answer(value: T) -> None:
            if not future.done():
                future.set_result(value)

        def fail(why: str) -> None:
            if not future.done():
                future.set_exception(StoreAway(why))

        def do(is_told: bool) -> None:
            if tables.is_down or (self.is_cut and is_told):
                return  # whoever asked hears of it by the time-out
            value = act()
            if is_told and not self.is_cut:
                self._run(lambda: answer(value))

        if rng.randrange(1000) < self.faults:
            kind = rng.choice(("refused", "lost", "later"))
            if kind != "refused":
                # it is done although nobody hears of it, soon or very late
                late_ms = takes_ms if kind == "lost" else rng.randrange(LATEST_MS)
                world.later(late_ms, lambda _: do(is_told=False))
            world.later(rng.randrange(self._timeout_ms), lambda _: self._run(lambda: fail(kind)))
        else:
            world.later(takes_ms, lambda _: do(is_told=not is_late))
            world.later(self._timeout_ms, lambda _: self._run(lambda: fail("timeout")))
        return await future

    async def identity(self) -> Identity:
        return await self._ask(lambda: self._tables.identity)

    async def acquire(self, holder: str, address: str, lease_ms: int) -> Office:  # noqa: ARG002
        return await self._ask(lambda: self._tables.acquire(holder, lease_ms))

    async def release(self, holder: str, epoch: int) -> None:
        await self._ask(lambda: self._tables.release(holder, epoch))

    async def office(self) -> Office:
        return await self._ask(self._tables.office)

    async def commit(self, epoch: int, turn: int, changes: Changes, lease_ms: int) -> bool:
        return await self._ask(lambda: self._tables.commit(epoch, turn, changes, lease_ms))

    async def purge(self, segment_no: int) -> bool:
        return await self._ask(lambda: self._tables.purge(segment_no))

    async def logs(self) -> Sequence[LogRow]:
        return await self._ask(lambda: sorted(self._tables.logs.values()))

    async def segments(self) -> Sequence[SegmentRow]:
        return await self._ask(self._tables.all_segments)

    async def batches(self) -> AsyncIterator[Sequence[BatchRow]]:
        # as one statement sees them
        rows = await self._ask(self._tables.live_rows)
        for at in range(0, len(rows), FETCHED_ROWS):
            yield rows[at : at + FETCHED_ROWS]
            await self._ask(lambda: None)

    async def close(self) -> None:
        pass
