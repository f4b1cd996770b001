"""Brings what the logs of this node have to the database, turn by turn, while it holds the office.

One turn is under way at a time. What all logs have by then goes along, in one round trip, and those that wait for it
are told when the database has it. A turn whose answer is lost is asked after and sent again, until it is known to
count, or the office is lost: then nobody is told anything, and the node gives up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import structlog

from muster.coordinator.clock import Clock, Timer
from muster.coordinator.database.lease import Lease, Outcome, outcome
from muster.coordinator.database.shipped_log import ShippedLog, Upload
from muster.coordinator.database.store import (
    DEAD,
    STAGED,
    Changes,
    LogRow,
    SegmentRow,
    Store,
    StoreAway,
    StoreRefused,
)
from muster.coordinator.log.checkpoints import partition_of
from muster.coordinator.log.directory import topic_ids
from muster.coordinator.log.directory.folder_names import read_other_name
from muster.coordinator.log.durability import Availability
from muster.coordinator.log.segments.log_segments import LogSegments
from muster.coordinator.log.storage.interfaces import Storage

TURN_BYTES: Final = 4 * 1024 * 1024
"""What one turn brings, or one batch."""
GATHER_MS: Final = 5
"""The longest that a turn waits for more to come along."""
QUIET_TURNS: Final = 2
"""After so many turns of the event loop without another wish no other is expected."""
AGAIN_MS: Final = (20, 50, 100, 200, 500)
"""How long it is waited before the database is asked again."""

_logger = structlog.get_logger("muster.cluster")


class Shipper:
    """The `log.durability.Engine` of a node in office. `run` it until it returns."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        storage: Storage,
        epoch: int,
        lease: Lease,
        run_job: Callable[[Callable[[], object], Callable[[object], object]], object],
        *,
        turn: int = 0,
        logs: Iterable[LogRow] = (),
        segments: Sequence[SegmentRow] = (),
        lost: Callable[[str], object] = lambda _: None,
    ) -> None:
        """`storage`: where the copies are; `run_job(job, done)`: does what works on files, in a thread; `turn`: the
        last one that counts; `logs`, `segments`: what the database has; `lost` is called once, with the reason, when
        the node must give up.
        """
        self._store = store
        self._clock = clock
        self._storage = storage
        self._run_job = run_job
        self.epoch = epoch
        self.turn = turn
        self.lease = lease
        self._lost = lost
        self.failure = ""
        """Why the office is lost."""
        self._logs = {(row.topic_id, row.partition): row for row in logs}
        self._known: dict[int, dict[int, int]] = {}
        for row in segments:
            if row.state not in (STAGED, DEAD):
                self._known.setdefault(row.log_no, {})[row.base_offset] = row.segment_no
        self._next_log = max((row.log_no for row in self._logs.values()), default=0) + 1
        self._next_segment = max((row.segment_no for row in segments), default=0) + 1
        self._purge = deque(row.segment_no for row in segments if row.state == DEAD)
        self._new_logs: list[LogRow] = []
        self._dropped: list[int] = []
        self._dead = [row.segment_no for row in segments if row.state == STAGED]  # of one who did not come to its end
        self._opened: dict[int, ShippedLog] = {}
        self._wanted: dict[ShippedLog, None] = {}
        self._uploads: deque[Upload] = deque()
        self._wishes = 0
        self._wake: asyncio.Future[None] | None = None
        self._timer: Timer | None = None
        self._away_since_ms = -1
        self._ended = False
        self._is_idle = False

    # -- what logs ask

    def durability(self, segments: LogSegments, availability: Availability) -> ShippedLog:
        """See `Engine`."""
        place = partition_of(segments.directory)
        topic_id = topic_ids.read(self._storage, segments.directory)
        assert place is not None  # the log manager has made it
        assert topic_id is not None  # and noted it there
        row, is_new = self._logs.get((topic_id, place[1])), False
        if row is None:
            is_new = True
            row = LogRow(self._next_log, *place, topic_id, segments.start_offset)
            self._next_log += 1
            self._logs[topic_id, place[1]] = row
            self._new_logs.append(row)
        known = self._known.pop(row.log_no, {})
        log = ShippedLog(self, row.log_no, segments, availability, known, is_new=is_new)
        if row.log_no in self._opened:
            # what the old one has sent is not known to this one
            self.failed(f"the copy of {segments.directory} has failed")
        self._opened[row.log_no] = log
        return log

    def dropped(self, folder: str) -> None:
        """See `Engine`."""
        other, topic_id = read_other_name(folder), None
        if other is not None and self._storage.is_directory(folder):
            topic_id = topic_ids.read(self._storage, folder) or other.uuid
        row = None if other is None or topic_id is None else self._logs.pop((topic_id, other.partition[1]), None)
        if row is None:
            return
        log = self._opened.pop(row.log_no, None)
        if log is None:
            self._dead += self._known.pop(row.log_no, {}).values()
        else:
            self._wanted.pop(log, None)
            self._dead += log.numbers()
        self._dropped.append(row.log_no)
        self._wish()

    def want(self, log: ShippedLog) -> None:
        """There is something to bring."""
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
        """A number that no segment has."""
        self._next_segment += 1
        return self._next_segment - 1

    def stage(self, upload: Upload) -> None:
        """A compacted segment is to be brought, when there is time."""
        self._uploads.append(upload)
        self._wish()

    def in_background(self, job: Callable[[], object], done: Callable[[], object]) -> None:
        """Do what need not be waited for, then call `done`."""
        self._run_job(job, lambda _: done())

    def failed(self, what: str) -> None:
        """The node must give up: what it has cannot be relied on, or it may not serve."""
        if not self.failure and not self._ended:
            self.failure = what
            _logger.error("the office is lost", epoch=self.epoch, reason=what,
                          what="this node answers nobody any more, and stands by")  # fmt: skip
            self._end()
            self._lost(what)

    # -- turns

    async def run(self) -> None:
        """Until `stop`, or the office is lost. Raises only what is a fault of the program."""
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
        """No further turn begins by itself; one that is under way comes to its end, and `run` to its own."""
        self._end()

    async def drain(self) -> bool:
        """After `stop` and the end of `run`: bring what is left while the office is held; whether all is there."""
        while not self.failure and (self._wanted or self._new_logs or self._dropped):
            await self._do_turn()
        return not self.failure

    def _end(self) -> None:
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        self._wish()

    def _watch(self) -> None:
        """Look when the lease is over, also while an answer of the database is waited for."""

        def look() -> None:
            if self.lease.is_over(self._clock.mono_ms()):
                self.failed("the database could not be reached before the lease was over")
            elif not self._ended:
                self._watch()

        self._timer = self._clock.call_at(self.lease.ends_ms, look)

    def _has_work(self) -> bool:
        return bool(self._wanted or self._new_logs or self._dropped or self._dead or self._uploads or self._purge)

    async def _work(self) -> None:
        """Wait until there is something to bring, or the lease is to be extended."""
        if self._has_work():
            return
        self._wake = asyncio.get_running_loop().create_future()
        self._is_idle = True
        timer = self._clock.call_at(self.lease.renew_ms, self._wish)
        await self._wake
        timer.cancel()
        self._is_idle, self._wake = False, None

    async def _gather(self) -> None:
        """Let more come along, above all what those bring who were answered just now."""
        until_ms, quiet, seen = self._clock.mono_ms() + GATHER_MS, 0, self._wishes
        while quiet < QUIET_TURNS and self._clock.mono_ms() < until_ms:
            await self._turn_of_loop()
            quiet, seen = (quiet + 1, seen) if seen == self._wishes else (0, self._wishes)

    async def _turn_of_loop(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._clock.call_soon(lambda: future.set_result(None))
        await future

    def _collect(self) -> tuple[Changes, list[tuple[ShippedLog, int]]]:
        """What goes along in the next turn, and up to which offset of which logs that is. Raises OSError."""
        changes, taken = Changes(), []
        changes.new_logs, self._new_logs = self._new_logs, []
        changes.dropped, self._dropped = self._dropped, []
        changes.dead, self._dead = self._dead, []
        left = TURN_BYTES
        while self._wanted and left > 0:
            log = next(iter(self._wanted))
            next_offset, left = log.take(changes, left)
            del self._wanted[log]
            if left <= 0:
                self._wanted[log] = None  # behind the others: there may be more of it
            if next_offset >= 0:
                taken.append((log, next_offset))
        if self._uploads and left > TURN_BYTES // 2 and not self._uploads[0].bring(changes):
            self._uploads.popleft()
        return changes, taken

    async def _do_turn(self) -> None:
        try:
            changes, taken = self._collect()
        except OSError as error:
            self.failed(f"the copy cannot be read: {error}")
            return
        if not await self._bring(changes):
            return
        self._purge.extend(changes.dead)
        for log, next_offset in taken:
            log.confirm(next_offset)

    async def _purge_some(self) -> None:
        """Remove some of what is dead. What fails is tried again: the next turn finds out what there is to find."""
        try:
            if await self._store.purge(self._purge[0]):
                self._purge.popleft()
        except (StoreAway, StoreRefused):
            self._purge.rotate(-1)

    async def _bring(self, changes: Changes) -> bool:
        """Have the database do a turn, however often it must be asked; False: the office is lost."""
        turn, first_ms = self.turn + 1, self._clock.mono_ms()
        sent_ms, attempt = first_ms, 0
        while not self.failure:
            if self.lease.is_over(self._clock.mono_ms()):
                self.failed("the lease is over")
                break
            try:
                if attempt and not await self._is_open(turn):
                    sent_ms = first_ms  # nobody knows which of them it was that counts
                    break
                sent_ms = self._clock.mono_ms()
                if await self._store.commit(self.epoch, turn, changes, self.lease.length_ms):
                    break
            except (StoreAway, StoreRefused) as error:
                await self._wait(attempt, error)
            attempt += 1
        if self.failure:
            return False
        self.turn = turn
        self.lease.extended(sent_ms)
        self._is_back()
        return True

    async def _is_open(self, turn: int) -> bool:
        """Whether a turn whose answer was lost does not count yet; False: it does, or the office is lost."""
        office = await self._store.office()
        found = outcome(office, self.epoch, turn)
        if found is Outcome.LOST:
            self.failed(f"another node took it: {office.address or office.holder}, in epoch {office.epoch}")
        return found is Outcome.AGAIN

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
            _logger.info("the database answers again", after_ms=self._clock.mono_ms() - self._away_since_ms)
            self._away_since_ms = -1
