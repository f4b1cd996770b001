"""Writes the records of this node's logs to the database, one database write after the other, during a node session.

One write is under way at a time. It takes what all logs have to write by then, in one round trip. Callers that wait for
these records are answered when the database has answered. If the answer is lost, the writer looks for its write. If the
database does not have the write, the writer sends it again. If the database has it, it may still not be durable
(`store`). Then the writer sends a later, empty write, and the answer to that one counts. If the registration is lost
meanwhile, nobody is answered, and the node gives up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

import structlog

from muster.coordinator.log import folders
from muster.coordinator.log.checkpoints import partition_of
from muster.coordinator.log.durability import Availability, DiskDurability, Durability
from muster.coordinator.log.file_names import read_other_name
from muster.coordinator.log.segments.log_segments import LogSegments
from muster.coordinator.log.storage.interfaces import Storage
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.topics.names import METADATA_TOPIC
from muster.postgres import local_replica
from muster.postgres.database_log import DatabaseLog, Upload
from muster.postgres.database_write import Turn
from muster.postgres.figures import ClusterFigures
from muster.postgres.lease import Lease, Outcome, outcome
from muster.postgres.read_barrier import ReadBarrier
from muster.postgres.segment_cache import SegmentCache
from muster.postgres.store import (
    LIVE,
    NUMBERS_OF_A_TERM,
    Changes,
    LogRow,
    NodeRegistration,
    SegmentRow,
    Store,
    StoreAway,
    StoreRefused,
)

TURN_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of one database write; one larger batch may be alone in a write."""
GATHER_MS: Final = 5
"""The longest time that a database write waits for more records."""
QUIET_TURNS: Final = 2
"""After so many iterations of the event loop without a new request to write, the writer expects no more."""
AGAIN_MS: Final = (20, 50, 100, 200, 500)
"""The waits before the database is asked again."""

_logger = structlog.get_logger("muster.cluster")


class DatabaseWriter:
    """The `log.durability.Engine` of a registered node. `run` it until it returns."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        storage: Storage,
        seat: NodeRegistration,
        lease: Lease,
        run_job: Callable[[Callable[[], object], Callable[[object], object]], object],
        *,
        known: Callable[[], int],
        follow: Callable[[int], Awaitable[object]],
        lost: Callable[[str], object] = lambda _: None,
        figures: ClusterFigures | None = None,
        cache: SegmentCache | None = None,
        barrier: ReadBarrier | None = None,
    ) -> None:
        """`storage`: the place of the local replica. `run_job(job, done)`: runs a job that works on files, in a thread.
        `known`: the end of the metadata log that this node has applied. `follow(needs)` returns when that end is
        `needs`, or the node stops. By then `leave` was called for the logs that others lead. `follow` raises StoreAway.

        `lost` is called once, with the reason, when the node must give up. `cache`: fetches older segments of topics;
        None: the replica has all segments. `barrier`: the read barrier of this node; None: the node reads nothing.
        """
        self._store = store
        self._clock = clock
        self._storage = storage
        self._run_job = run_job
        self.node_id = seat.node_id
        self.epoch = seat.epoch
        self.turn = self._last_turn = seat.turn
        """The last database write that was answered. `_last_turn` is the last number that a write got."""
        self._bases = {seat.turn}
        """Writes that may be the last ones in the registration, with all answered records."""
        self.barrier = barrier or ReadBarrier(store, seat)
        self.barrier.lost = self.failed
        self.lease = lease
        self._known_metadata = known
        self._follow = follow
        self._lost = lost
        self._figures = figures or ClusterFigures()
        self._cache = cache
        self.failure = ""
        """Why the registration is lost."""
        self.was_away = False
        """Whether the database was unavailable when the registration was lost."""
        self._logs: dict[tuple[bytes, int], LogRow] = {}
        self._known: dict[int, dict[int, SegmentRow]] = {}
        self._numbers = seat.epoch * NUMBERS_OF_A_TERM
        self._last_number = self._numbers + NUMBERS_OF_A_TERM
        self._purge: deque[int] = deque()
        self._new_logs: list[LogRow] = []
        self._dropped: list[int] = []
        self._dead: list[int] = []
        self._turn: Turn | None = None
        """The database write that is under way."""
        self._opened: dict[int, DatabaseLog] = {}
        self._wanted: dict[DatabaseLog, None] = {}
        self._uploads: deque[Upload] = deque()
        self._wishes = 0
        self._wake: asyncio.Future[None] | None = None
        self._timer: Timer | None = None
        self._away_since_ms = -1
        self._ended = False
        self._is_idle = False

    # -- which logs are led here

    def lead(self, row: LogRow, segments: Sequence[SegmentRow]) -> None:
        """A log was copied from these segments of the database, and is about to be opened."""
        self._logs[row.topic_id, row.partition] = row
        self._known[row.log_no] = {one.base_offset: one for one in segments if one.state == LIVE}
        # A staged segment belongs to a leader that did not finish it.
        others = [one.segment_no for one in segments if one.state != LIVE]
        if others:
            self._dead += others
            self._wish()

    def leave(self, topic_id: bytes, partition: int) -> None:
        """Another node leads this log: nothing more of it is written. It was closed before."""
        row = self._logs.pop((topic_id, partition), None)
        if row is None:
            return
        self._known.pop(row.log_no, None)
        self._new_logs = [one for one in self._new_logs if one.log_no != row.log_no]
        log = self._opened.pop(row.log_no, None)
        if log is None:
            return
        self._wanted.pop(log, None)
        if self._turn is not None:
            self._turn.leave_out(log)

    def drop(self, row: LogRow, segments: Sequence[SegmentRow]) -> None:
        """Remove the log of a topic that was deleted while no node led the partition."""
        self._dropped.append(row.log_no)
        self._dead += [one.segment_no for one in segments]
        self._wish()

    # -- calls of the logs

    def durability(self, segments: LogSegments, availability: Availability) -> Durability:
        """See `Engine`. The metadata log is read from the database, and never written by this engine."""
        place = partition_of(segments.directory)
        if place == (METADATA_TOPIC, 0):
            return DiskDurability(segments, availability, segments.end_offset, None, wait_for_sync=False)
        topic_id = folders.read_topic_id(self._storage, segments.directory)
        assert place is not None  # the log manager has made it
        assert topic_id is not None  # and has written the topic id there
        row, is_new = self._logs.get((topic_id, place[1])), False
        if row is None:
            is_new = True
            row = LogRow(self.number(), *place, topic_id, segments.start_offset)
            self._logs[topic_id, place[1]] = row
            self._new_logs.append(row)
        known = self._known.pop(row.log_no, {})
        cache = self._cache if local_replica.is_read_in_parts(place[0]) else None
        log = DatabaseLog(
            self, row.log_no, segments, availability, known, is_new=is_new, clean_offset=row.clean_offset, cache=cache
        )
        if row.log_no in self._opened:
            # the new object does not know what the old one has sent
            self.failed(f"the copy of {segments.directory} has failed")
        self._opened[row.log_no] = log
        return log

    def dropped(self, folder: str) -> None:
        """See `Engine`."""
        other, topic_id = read_other_name(folder), None
        if other is not None and self._storage.is_directory(folder):
            topic_id = folders.read_topic_id(self._storage, folder) or other.uuid
        row = None if other is None or topic_id is None else self._logs.pop((topic_id, other.partition[1]), None)
        if row is None:
            return
        log = self._opened.pop(row.log_no, None)
        if log is None:
            self._dead += [one.segment_no for one in self._known.pop(row.log_no, {}).values()]
        else:
            self._wanted.pop(log, None)
            self._dead += log.numbers()
        self._dropped.append(row.log_no)
        self._wish()

    def want(self, log: DatabaseLog) -> None:
        """The log has something to write."""
        self._wanted[log] = None
        self._wishes += 1
        if self._is_idle:
            self._wish()

    def _wish(self) -> None:
        self._wishes += 1
        wake = self._wake
        if wake is not None and not wake.done():
            wake.set_result(None)

    def number(self) -> int:
        """A number that no segment and no log has."""
        self._numbers += 1
        if self._numbers >= self._last_number:
            self.failed("it has no numbers left")
        return self._numbers

    def stage(self, upload: Upload) -> None:
        """A compacted segment is to be written when other records leave time for it."""
        self._uploads.append(upload)
        self._wish()

    def in_background(self, job: Callable[[], object], done: Callable[[], object]) -> None:
        """Do a job that nobody waits for, then call `done`."""
        self._run_job(job, lambda _: done())

    def failed(self, what: str) -> None:
        """The node must give up: its local replica cannot be relied on, or it may not serve."""
        if not self.failure and not self._ended:
            self.failure = what
            self._figures.seats_lost += 1
            self._figures.away_ms += self.away_for_ms
            self.was_away = self._away_since_ms >= 0
            self._away_since_ms = -1
            _logger.error("the seat is lost", node=self.node_id, epoch=self.epoch, reason=what,
                          what="this node answers nobody any more, and begins anew")  # fmt: skip
            self._end()
            self._lost(what)

    # -- database writes

    async def run(self) -> None:
        """Write until `stop`, or until the registration is lost. Raises only errors that are a fault of the program."""
        self._watch()
        while not self._ended:
            await self._work()
            if not self._ended:
                await self._gather()
            if not self._ended:
                await self._do_turn()
            if self._purge and not self._ended:
                await self._purge_some()

    def stop(self) -> None:
        """Begin no further write. `run` returns when the present write has ended."""
        self._end()

    async def drain(self) -> bool:
        """Write the rest, after `stop` and the end of `run`, while the registration is held. Returns whether the
        database has all.
        """
        while not self.failure and (self._wanted or self._new_logs or self._dropped):
            if not await self._do_turn():
                return False
        return not self.failure

    @property
    def has_ended(self) -> bool:
        """Whether nothing more is written, except by `drain`."""
        return self._ended

    def _end(self) -> None:
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        self._wish()

    def _watch(self) -> None:
        """Give up when the lease is over, even while an answer of the database is pending."""

        def look() -> None:
            if self.lease.is_over(self._clock.mono_ms()):
                self.failed("the database could not be reached before the lease was over")
            elif not self._ended:
                self._watch()

        self._timer = self._clock.call_at(self.lease.ends_ms, look)

    def _has_work(self) -> bool:
        return bool(self._wanted or self._new_logs or self._dropped or self._dead or self._uploads or self._purge)

    async def _work(self) -> None:
        """Wait until there is something to write, or the lease has to be extended."""
        if self._has_work():
            return
        self._wake = asyncio.get_running_loop().create_future()
        self._is_idle = True
        timer = self._clock.call_at(self.lease.renew_ms, self._wish)
        await self._wake
        timer.cancel()
        self._is_idle, self._wake = False, None

    async def _gather(self) -> None:
        """Wait for more records, above all from clients that were answered just now."""
        until_ms, quiet, seen = self._clock.mono_ms() + GATHER_MS, 0, self._wishes
        while quiet < QUIET_TURNS and self._clock.mono_ms() < until_ms:
            await self._turn_of_loop()
            quiet, seen = (quiet + 1, seen) if seen == self._wishes else (0, self._wishes)

    async def _turn_of_loop(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._clock.call_soon(lambda: future.set_result(None))
        await future

    def _collect(self) -> Turn:
        """The content of the next database write. Raises OSError."""
        turn = Turn()
        changes = turn.changes
        changes.new_logs, self._new_logs = self._new_logs, []
        changes.dropped, self._dropped = self._dropped, []
        changes.dead, self._dead = self._dead, []
        left = TURN_BYTES

        def bring() -> int:
            nonlocal left
            next_offset, left = log.take(changes, left)
            return next_offset

        while self._wanted and left > 0:
            log = next(iter(self._wanted))
            turn.take(log, bring)
            del self._wanted[log]
            if left <= 0:
                self._wanted[log] = None  # behind the others: the log may have more to write
        if self._uploads and left > TURN_BYTES // 2:
            self._bring_upload(turn)
        return turn

    def _bring_upload(self, turn: Turn) -> None:
        upload = self._uploads[0]

        def bring() -> int:
            if not upload.bring(turn.changes):
                self._uploads.popleft()
            return -1

        turn.take(upload.log, bring)

    async def _do_turn(self) -> bool:
        """Do one database write. False: the database did not answer it."""
        try:
            turn = self._turn = self._collect()
        except OSError as error:
            self.failed(f"the copy cannot be read: {error}")
            return False
        is_done = await self._bring(turn.changes)
        self._turn = None
        if is_done:
            self._purge.extend(turn.changes.dead)
            turn.confirm()
        return is_done

    async def _purge_some(self) -> None:
        """Remove some dead segments. If that fails, a later call tries again."""
        try:
            if await self._store.purge(self._purge[0]):
                self._purge.popleft()
        except (StoreAway, StoreRefused):
            self._purge.rotate(-1)

    async def _bring(self, changes: Changes) -> bool:
        """Send a database write, or one behind it, until the database has answered. False: the node has given up."""
        first_ms, attempt = self._clock.mono_ms(), 0
        content = number = self._next_number()
        after, sent, brings = self.turn, {number}, changes
        while not self.failure:
            if self.lease.is_over(self._clock.mono_ms()):
                self.failed("the lease is over")
                return False
            try:
                if attempt:
                    found = await self._look_for(sent)
                    if found is None:
                        return False
                    after, is_seen = found
                    number, brings = (self._next_number(), Changes()) if is_seen else (content, changes)
                    sent.add(number)
                sent_ms = self._clock.mono_ms()
                hold = self.node_id, self.epoch, number, self._known_metadata()
                length_ms, barrier = self.lease.length_ms, self.barrier.number
                if await self._store.commit(*hold, brings, length_ms, after=after, barrier=barrier):
                    break
            except (StoreAway, StoreRefused) as error:
                await self._wait(attempt, error)
            attempt += 1
        if self.failure:
            return False
        self.turn = self.barrier.turn = number
        # An empty write that was to prove this one may still be executed behind it. That changes nothing.
        self._bases = {number} if number != content else sent
        self.lease.extended(sent_ms)
        self._is_back()
        figures = self._figures
        figures.turns += 1
        figures.turns_retried += attempt > 0
        figures.turns_ms += self._clock.mono_ms() - first_ms
        figures.bytes += sum(len(row.data) for row in changes.batches)
        return True

    def _next_number(self) -> int:
        """The number of a new database write. Within the node session no other write has it, so writes are never
        confused.
        """
        self._last_turn += 1
        return self._last_turn

    async def _look_for(self, sent: Collection[int]) -> tuple[int, bool] | None:
        """Look for a database write that was refused, or whose answer was lost. `sent`: its numbers. Returns the last
        write in the registration, and whether that is one of `sent`. None: the registration is lost. Raises StoreAway
        and StoreRefused.
        """
        barrier = self.barrier.number  # before the request, because it may rise meanwhile
        seat = next((one for one in await self._store.seats() if one.node_id == self.node_id), None)
        found = outcome(seat, self.epoch, self._bases, sent, barrier)
        if seat is None or found is Outcome.LOST:
            self.failed("others have taken this node for dead, or another one has its id, or the database has lost "
                        "what this node has read or written")  # fmt: skip
            return None
        if seat.needs > self._known_metadata():
            await self._follow(seat.needs)
            if self._known_metadata() < seat.needs:
                self.failed("it stops, and does not know what others lead")
                return None
        return seat.turn, found is Outcome.SEEN

    async def _wait(self, attempt: int, error: Exception) -> None:
        if self._away_since_ms < 0:
            self._away_since_ms = self._clock.mono_ms()
            _logger.warning("the database is away", reason=str(error),
                            what="what is to be written waits, as long as the lease lasts",
                            lease_ms=max(self.lease.ends_ms - self._clock.mono_ms(), 0))  # fmt: skip
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        after_ms = AGAIN_MS[min(attempt, len(AGAIN_MS) - 1)]
        self._clock.call_at(self._clock.mono_ms() + after_ms, lambda: future.set_result(None))
        await future

    def _is_back(self) -> None:
        if self._away_since_ms >= 0:
            _logger.info("the database answers again", after_ms=self.away_for_ms)
            self._figures.away_ms += self.away_for_ms
            self._away_since_ms = -1

    # -- figures

    @property
    def away_for_ms(self) -> int:
        """How long the database has been unavailable; 0: it is available."""
        return 0 if self._away_since_ms < 0 else max(self._clock.mono_ms() - self._away_since_ms, 1)

    @property
    def waiting_bytes(self) -> int:
        """The bytes that no database write has taken yet."""
        return sum(log.waiting_bytes for log in self._wanted)
