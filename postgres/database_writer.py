"""Writes the records of this node's logs to the database, one database write after the other, during a node session.

One write is under way at a time. The write takes what all logs have to write by then, in one round trip. Callers that
wait for these records are answered when the database has answered. If the answer is lost, the writer looks for its
write. If the database does not have the write, the writer sends it again. If the database has the write, it may still
not be durable (`store`). Then the writer sends a later, empty write, and the answer to the later write counts. If the
registration is lost meanwhile, no caller is answered, and the node gives up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from typing import Final

import structlog

from muster.coordinator.log.storage.interfaces import Storage
from muster.coordinator.system.clock import Clock, Timer
from muster.postgres.figures import ClusterFigures
from muster.postgres.lease import Lease, Outcome, ReadBarrier, outcome
from muster.postgres.pending_writes import PendingWrites
from muster.postgres.segment_cache import SegmentCache
from muster.postgres.store import Changes, NodeRegistration, Store, StoreAway, StoreRefused
from muster.postgres.tasks import pause

GATHER_MS: Final = 5
"""The longest time that a database write waits for more records."""
QUIET_ITERATIONS: Final = 2
"""After this many iterations of the event loop without a request to write, the writer expects no further request."""
AGAIN_MS: Final = (20, 50, 100, 200, 500)
"""The waits before the database is asked again."""

_logger = structlog.get_logger("muster.cluster")


class DatabaseWriter:
    """The writer of a registered node. The owner awaits `run`. `pending`: what the node's logs have to write."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        storage: Storage,
        registration: NodeRegistration,
        lease: Lease,
        run_job: Callable[[Callable[[], object], Callable[[object], object]], object],
        *,
        known: Callable[[], int],
        follow: Callable[[int], Awaitable[object]],
        lost: Callable[[str], object],
        figures: ClusterFigures | None = None,
        cache: SegmentCache | None,
        barrier: ReadBarrier | None = None,
    ) -> None:
        """`storage`: the place of the local replica. `run_job(job, done)`: runs a job that works on files, in a thread.
        `known`: the end of the metadata log that this node has applied. `follow(needs)` returns when that end is
        `needs`, or the node stops. Before, `leave` is called for logs that others lead. `follow` raises StoreAway.

        `lost` is called once, with the reason, when the node must give up. `cache`: fetches older segments of topics;
        None: the replica has all segments. `barrier`: the read barrier of this node; None: the node reads nothing.
        """
        self._store = store
        self._clock = clock
        self.node_id = registration.node_id
        self.epoch = registration.epoch
        self.write_no = self._newest_write_no = registration.write_no
        """The last database write that was answered. `_newest_write_no` is the last number that a write got."""
        self._bases = {registration.write_no}
        """Writes that may be the last writes in the registration, with all answered records."""
        self.barrier = barrier or ReadBarrier(store, registration)
        self.barrier.lost = self.failed
        self.lease = lease
        self._known_metadata = known
        self._follow = follow
        self._lost = lost
        self._figures = figures or ClusterFigures()
        self.failure = ""
        """Why the registration is lost; "" while it is held."""
        self.was_away = False
        """Whether the database was unavailable when the registration was lost."""
        self._purge: deque[int] = deque()
        self._requests = 0
        self.pending = PendingWrites(storage, registration, run_job, cache, changed=self._wake_up, failed=self.failed)
        self._wake: asyncio.Future[None] | None = None
        self._timer: Timer | None = None
        self._away_since_ms = -1
        self.has_ended = False
        """Whether nothing more is written, except by `drain`."""
        self._is_idle = False

    def failed(self, what: str) -> None:
        """Give up: the local replica cannot be relied on, or the node may not serve."""
        if not self.failure and not self.has_ended:
            self.failure = what
            self._figures.registrations_lost += 1
            self._figures.away_ms += self.away_for_ms
            self.was_away = self._away_since_ms >= 0
            self._away_since_ms = -1
            _logger.error("the registration is lost", node=self.node_id, epoch=self.epoch, reason=what,
                          what="this node answers nobody any more, and begins anew")  # fmt: skip
            self.stop()
            self._lost(what)

    # -- database writes

    async def run(self) -> None:
        """Write until `stop`, or until the registration is lost. Raises only errors that are a fault of the program."""
        self._watch()
        while not self.has_ended:
            await self._work()
            if not self.has_ended:
                await self._gather()
            if not self.has_ended:
                await self._write_once()
            if self._purge and not self.has_ended:
                await self._purge_some()

    def stop(self) -> None:
        """Begin no further write. `run` returns when the present write has ended."""
        self.has_ended = True
        if self._timer is not None:
            self._timer.cancel()
        self._wake_up()

    async def drain(self) -> bool:
        """Write all remaining records after `run`, while the registration is held. False: some records remain."""
        while not self.failure and not self.pending.is_empty:
            if not await self._write_once():
                return False
        return not self.failure

    def _watch(self) -> None:
        """Give up when the lease is over, even while an answer of the database is pending."""

        def check() -> None:
            if self.lease.is_over(self._clock.mono_ms()):
                self.failed("the database could not be reached before the lease was over")
            elif not self.has_ended:
                self._watch()

        self._timer = self._clock.call_at(self.lease.ends_ms, check)

    async def _work(self) -> None:
        if self.pending.has_work or self._purge:
            return
        self._wake = asyncio.get_running_loop().create_future()
        self._is_idle = True
        timer = self._clock.call_at(self.lease.renew_ms, self._wake_up)
        await self._wake
        timer.cancel()
        self._is_idle, self._wake = False, None

    async def _gather(self) -> None:
        """Wait for more records, above all from clients that were answered just now."""
        until_ms, quiet, seen = self._clock.mono_ms() + GATHER_MS, 0, self._requests
        while quiet < QUIET_ITERATIONS and self._clock.mono_ms() < until_ms:
            await pause(self._clock)
            quiet, seen = (quiet + 1, seen) if seen == self._requests else (0, self._requests)

    def _wake_up(self) -> None:
        self._requests += 1
        wake = self._wake
        if wake is not None and not wake.done():
            wake.set_result(None)

    async def _write_once(self) -> bool:
        try:
            write = self.pending.collect()
        except OSError as error:
            self.failed(f"the local replica cannot be read: {error}")
            return False
        is_done = await self._send(write.changes)
        self.pending.write_ended()
        if is_done:
            self._purge.extend(write.changes.dead)
            write.confirm()
        return is_done

    async def _purge_some(self) -> None:
        """Remove some dead segments. If that fails, a later call tries again."""
        try:
            if await self._store.purge(self._purge[0]):
                self._purge.popleft()
        except (StoreAway, StoreRefused):
            self._purge.rotate(-1)

    async def _send(self, changes: Changes) -> bool:
        """Send a write, or an empty write after it, until the database answers. False: the node gives up."""
        first_ms, attempt = self._clock.mono_ms(), 0
        content = number = self._next_number()
        after, sent, written = self.write_no, {number}, changes
        while not self.failure:
            if self.lease.is_over(self._clock.mono_ms()):
                self.failed("the lease is over")
                return False
            try:
                if attempt:
                    found = await self._find_write(sent)
                    if found is None:
                        return False
                    after, is_seen = found
                    number, written = (self._next_number(), Changes()) if is_seen else (content, changes)
                    sent.add(number)
                sent_ms = self._clock.mono_ms()
                hold = self.node_id, self.epoch, number, self._known_metadata()
                length_ms, barrier = self.lease.length_ms, self.barrier.number
                if await self._store.commit(*hold, written, length_ms, after=after, barrier=barrier):
                    break
            except (StoreAway, StoreRefused) as error:
                await self._wait(attempt, error)
            attempt += 1
        if self.failure:
            return False
        self.write_no = self.barrier.write_no = number
        # An empty write that was to prove this write may still be executed behind it, which changes nothing.
        self._bases = {number} if number != content else sent
        self.lease.extended(sent_ms)
        self._answers_again()
        figures = self._figures
        figures.writes += 1
        figures.writes_retried += attempt > 0
        figures.writes_ms += self._clock.mono_ms() - first_ms
        figures.bytes += sum(len(row.data) for row in changes.batches)
        return True

    def _next_number(self) -> int:
        """The number of a new database write, which no other write of the node session has."""
        self._newest_write_no += 1
        return self._newest_write_no

    async def _find_write(self, sent: Collection[int]) -> tuple[int, bool] | None:
        """Look for a database write that was refused, or whose answer was lost. `sent`: the numbers with which the
        write was sent. Returns the last write in the registration, and whether that is one of `sent`. None: the
        registration is lost. Raises StoreAway and StoreRefused.
        """
        barrier = self.barrier.number  # read before the request, because the number may rise meanwhile
        registration = next((one for one in await self._store.registrations() if one.node_id == self.node_id), None)
        found = outcome(registration, self.epoch, self._bases, sent, barrier)
        if registration is None or found is Outcome.LOST:
            self.failed("other nodes have declared this node dead, or another node has its id, or the database has "
                        "lost what this node has read or written")  # fmt: skip
            return None
        if registration.needs > self._known_metadata():
            await self._follow(registration.needs)
            if self._known_metadata() < registration.needs:
                self.failed("it stops before it has read which partitions others lead")
                return None
        return registration.write_no, found is Outcome.SEEN

    async def _wait(self, attempt: int, error: Exception) -> None:
        if self._away_since_ms < 0:
            self._away_since_ms = self._clock.mono_ms()
            _logger.warning("the database is away", reason=str(error),
                            what="records wait for the database, until the lease is over",
                            lease_ms=max(self.lease.ends_ms - self._clock.mono_ms(), 0))  # fmt: skip
        await pause(self._clock, AGAIN_MS[min(attempt, len(AGAIN_MS) - 1)])

    def _answers_again(self) -> None:
        if self._away_since_ms >= 0:
            _logger.info("the database answers again", after_ms=self.away_for_ms)
            self._figures.away_ms += self.away_for_ms
            self._away_since_ms = -1

    @property
    def away_for_ms(self) -> int:
        """How long the database has been unavailable; 0 while it is available."""
        return 0 if self._away_since_ms < 0 else max(self._clock.mono_ms() - self._away_since_ms, 1)
