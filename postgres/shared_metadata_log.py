"""The shared metadata log in the database, which all nodes write and follow: the `SharedMetadataLogWriter` of one node.

A decision of this node is written at the end of the log that this node knows. If another node has written there, the
database does nothing. This node then reads the new rows and decides again. All nodes apply the rows in the order of the
log, so a node also reads its own records back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import structlog

from muster.coordinator.log import batches
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job, JobQueue, PendingResult, to_its_end
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.leader_balancer import losing_nodes
from muster.coordinator.topics.metadata_log import LEADER_EPOCH, encode
from muster.coordinator.topics.topics import Topics
from muster.postgres.lease import ReadBarrier
from muster.postgres.store import MetadataRow, Store, StoreAway, StoreRefused
from muster.postgres.tasks import cancel_all, pause
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message

TRIES: Final = 20
"""How often a node asks the database about a row whose answer was lost."""
AGAIN_MS: Final = 250
"""The time between two questions about a row."""
ENCODED_AT_ONCE: Final = 100
"""The most records that are encoded in one step."""

log = structlog.get_logger("muster.cluster")


class SharedMetadataLog:
    """See the module."""

    topics: Topics
    job_queue: JobQueue

    def __init__(self, store: Store, clock: Clock, draw_text: Callable[[], str], barrier: ReadBarrier) -> None:
        """`store`: another connection than that of the database writes, because this log must not wait. `draw_text`:
        returns a text that no other row has. `barrier`: rows are applied only after they have passed the barrier.
        """
        self._store = store
        self._barrier = barrier
        self._clock = clock
        self._draw_text = draw_text
        self.began_at = self.began = 0
        """`began_at`: the offset where this node began to read. `began`: the end of the log before `topics` exists."""
        self.snapshot: Sequence[bytes] = ()
        """The parts of the snapshot before `began_at`."""
        self.bytes_read = 0
        """The bytes of the metadata log that were read since `began_at`."""
        self.lost: Callable[[str], object] = lambda _: None
        """Called when the log cannot be followed any more."""
        self._following = asyncio.Lock()
        self.followed_ms = clock.mono_ms()
        """The monotonic time of the last answer that gave this node new rows, or confirmed that none exist."""
        self._stopped = False
        self._writers: set[str] = set()
        """The writers of the rows that are being written."""
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def known(self) -> int:
        """The end of the rows that this node has applied."""
        return self.topics.state.version if hasattr(self, "topics") else self.began

    # -- writing

    @property
    def is_writing(self) -> bool:
        """Whether a caller waits for a row to be written."""
        return bool(self._tasks)

    def writing(self, records: Sequence[Message], dead: Mapping[int, int] | None = None) -> Job[bool]:
        """See `SharedMetadataLogWriter`. `dead`: nodes by id, with their epochs. The records count only if the leases
        of all these nodes are over.
        """
        state = self.topics.state
        base, needing = state.version, losing_nodes(state, records)
        encoded: list[tuple[None, bytes]] = []
        for record in records:
            encoded.append((None, encode(record)))
            if len(encoded) % ENCODED_AT_ONCE == 0:
                yield None
        if not records:
            return True
        if self._stopped:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "this node stops")
        if self.known != base:
            return False
        wall_ms = self._clock.now().wall_ms
        batch = batches.build(encoded, timestamp_ms=wall_ms, base_offset=base, leader_epoch=LEADER_EPOCH)
        row = MetadataRow(base, base + len(records), self._draw_text(), bytes(batch))
        fault = "the metadata log could not be written, because of a bug in the server"
        found: Any = yield self._begin(partial(self._write, row, needing, dead or {}), fault)
        if isinstance(found, Exception):
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, str(found))
        return bool(found)

    def _begin(self, work: Callable[[], Awaitable[object]], fault: str) -> PendingResult:
        """Begin to read or write. The result is that of `work`, or its error. `fault`: the log line for a fault."""
        later = PendingResult()

        async def do() -> None:
            try:
                result = await work()
            except (StoreAway, StoreRefused) as error:
                result = error
            except Exception as error:  # a bug: without a result, the caller would wait for ever
                log.error(fault, exc_info=error)
                result = error
            later(result)

        task = self._loop.create_task(do())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return later

    async def _write(self, row: MetadataRow, needing: Sequence[int], dead: Mapping[int, int]) -> bool:
        """Write a row; return whether it counts. This node has then read the row back, and applied all rows up to it.
        Raises StoreAway or StoreRefused.
        """
        self._writers.add(row.writer)
        try:
            for attempt in range(TRIES):
                try:
                    if row.writer in self._writers:
                        # False: the offset has another writer's row, or this row, which was sent before; or one of
                        # `dead` is alive.
                        await self._store.write_metadata(row, needing, dead)
                    await self.follow()
                    break
                except StoreAway:
                    if attempt == TRIES - 1:
                        raise
                    await pause(self._clock, AGAIN_MS)
            return row.writer not in self._writers
        finally:
            self._writers.discard(row.writer)

    # -- following

    def catching_up(self) -> Job[None]:
        """Apply all rows that the database has now, unless it is unavailable."""
        if not self._stopped:
            # an error is not reported here: the next write reports it
            yield self._begin(self.follow, "the metadata log could not be read, because of a bug in the server")

    async def follow(self) -> None:
        """Apply all rows that the database has. Raises StoreAway or StoreRefused."""
        async with self._following:
            while not self._stopped:
                session = self._barrier.session
                rows = await self._store.metadata(self.known)
                if (rows or self._barrier.is_new) and not await self._barrier.passed(session):
                    continue
                for row in rows:
                    if not self._stopped and row.base_offset != self.known:
                        self._give_up_behind_gap()
                    if not self._stopped:
                        await self._apply(row)
                        self.followed_ms = self._clock.mono_ms()
                self.followed_ms = self._clock.mono_ms()
                if not rows:
                    return

    async def follow_to(self, offset: int) -> None:
        """Apply all rows before an offset, unless this node stops. Raises StoreRefused, or StoreAway (also if the
        database no longer has these rows).
        """
        await self.follow()
        if self.known < offset and not self._stopped:
            raise StoreAway(f"the metadata log cannot be read up to offset {offset}")

    def _give_up_behind_gap(self) -> None:
        """Give up: this node did not follow for longer than a lease lasts, and rows were removed. The snapshot has the
        content of the rows, or `read` finds that it is lost.
        """
        self._stopped = True
        self.lost(f"the metadata log was shortened behind offset {self.known}, up to which this node knows it")

    async def _apply(self, row: MetadataRow) -> None:
        await to_its_end(self.job_queue, self.topics.applying_batches(row.data))
        self._writers.discard(row.writer)
        self.bytes_read += len(row.data)

    async def read(self) -> Sequence[MetadataRow]:
        """The whole log as it is now, for a node that begins. Sets `snapshot` and `began_at`, and returns the rows
        after the snapshot. Raises StoreAway or StoreRefused.
        """
        numbers = set[int]()
        for _ in range(TRIES):
            session = self._barrier.session
            snapshot, parts = await self._store.snapshot(), []
            for number in range(snapshot.parts):
                part = await self._store.snapshot_part(snapshot.number, number)
                if part is None:
                    break
                parts.append(part)
            rows: list[MetadataRow] = []
            while found := await self._store.metadata(rows[-1].next_offset if rows else snapshot.end_offset):
                rows += found
            # Rows may be removed between two questions, but not the rows after the newest snapshot.
            ends = [snapshot.end_offset, *(row.next_offset for row in rows)]
            gap = next((end for end, row in zip(ends, rows, strict=False) if row.base_offset != end), None)
            if gap is not None and snapshot.number in numbers:
                raise StoreRefused(
                    f"the metadata log has a gap at offset {gap}, and no snapshot has what was there: rows of "
                    "muster_metadata are missing, restore the database from a backup"
                )
            numbers.add(snapshot.number)
            if len(parts) == snapshot.parts and gap is None and await self._barrier.passed(session):
                self.snapshot, self.began_at = parts, snapshot.end_offset
                self.began = rows[-1].next_offset if rows else snapshot.end_offset
                self.bytes_read = sum(len(row.data) for row in rows)
                return rows
        raise StoreAway("the metadata log got another snapshot during each attempt to read it")

    async def stop(self) -> None:
        """Apply no more rows, and fail no caller's wait: nobody waits any more."""
        self._stopped = True
        await cancel_all(self._tasks)
