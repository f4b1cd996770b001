"""Syncs that run in threads, never on the event loop; each serves all waiting callers.

Logs make one of two promises. Page cache: bytes are durable once they are written. The bytes survive a killed process,
but no power cut. Disk: bytes are durable once they are synced. A log makes the second promise only with a `SharedSync`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final

from muster.coordinator.log.errors import LogOffline
from muster.coordinator.system.clock import Clock

FEW: Final = 2
"""Up to this many files are synced one by one: that is faster, and no other file delays the sync."""

Sync = tuple[Callable[[], object], Callable[["OSError | None"], object]]
"""A function that syncs some files, and the function that gets the result of the sync."""
GATHER_MS: Final = 5
QUIET_ITERATIONS: Final = 2
"""After this many iterations of the event loop without a request for a sync, no further request is expected."""
Waiter = Callable[[LogOffline | None], object]


class Waiters:
    """Callbacks by the position for which they wait. Calls come in the order of positions, then of arrival.

    Only this class changes `queue`. Other code may look whether `queue` is empty.
    """

    __slots__ = ("queue",)

    def __init__(self) -> None:
        self.queue: deque[tuple[int, Waiter]] = deque()

    def add(self, position: int, callback: Waiter) -> None:
        """Keep `callback` until `position` is durable."""
        queue = self.queue
        if not queue or queue[-1][0] <= position:  # nearly all callers wait for the newest position
            queue.append((position, callback))
            return
        at = len(queue)
        while at and queue[at - 1][0] > position:
            at -= 1
        queue.insert(at, (position, callback))

    def release(self, durable_offset: int) -> None:
        """Call all callbacks that wait for `durable_offset` or less."""
        queue = self.queue
        while queue and queue[0][0] <= durable_offset:
            queue.popleft()[1](None)

    def fail(self, error: LogOffline) -> None:
        """Call all callbacks with `error`: their positions will not become durable."""
        queue, self.queue = self.queue, deque()
        for _, callback in queue:
            callback(error)


class SharedSync:
    """Runs jobs that wait for the disk in a few threads, and passes their results to the event loop."""

    def __init__(
        self, post: Callable[[Callable[[], object]], object], *, threads: int = 4, executor: Executor | None = None
    ):
        """`post`: runs a callable on the event loop soon, from any thread (`loop.call_soon_threadsafe`).

        `executor`: where jobs run; by default `threads` threads, which start with the first job.
        """
        self._post = post
        self._threads = threads
        self._executor = executor
        self._outcomes: deque[tuple[Callable[[OSError | None], object], OSError | None]] = deque()
        self._posted = False
        self._sync_all: Callable[[], object] | None = None
        self._clock: Clock | None = None
        self.wanted = 0
        self._seen = self._quiet = self._until_ms = 0
        self._waiting: list[tuple[Callable[[], Sync], Callable[[], int]]] = []
        self._in_round = False
        self._closed = False
        self._timing: tuple[Clock, Callable[[int], object]] | None = None

    def time_syncs(self, clock: Clock, took_us: Callable[[int], object]) -> None:
        """From now on, give `took_us` the duration of each sync, on the event loop."""
        self._timing = clock, took_us

    def share(self, sync_all: Callable[[], object], clock: Clock) -> None:
        """From now on use `sync_all`, which syncs all files at once (`files.FilesystemSync`) and raises OSError."""
        self._sync_all, self._clock = sync_all, clock

    def sync(self, begin: Callable[[], Sync], files: Callable[[], int] = lambda: 1) -> None:
        """Sync files in a thread; one `sync_all` may serve many callers. `begin` returns the arguments for `run`.

        A request during a round belongs to the next round, which first waits for more requests.
        """
        if self._clock is None:
            self.run(*(begin() if self._timing is None else self._timed(begin())))
            return
        self.wanted += 1
        self._waiting.append((begin, files))
        if not self._in_round:
            self._in_round = True
            self._gather(self._clock)

    def _gather(self, clock: Clock) -> None:
        self._seen, self._quiet, self._until_ms = self.wanted, 0, clock.mono_ms() + GATHER_MS
        clock.call_soon(self._check_for_more)

    def _check_for_more(self) -> None:
        if self._clock is None or self._closed:
            return
        if self.wanted == self._seen:
            self._quiet += 1
        else:
            self._seen, self._quiet = self.wanted, 0
        if self._quiet < QUIET_ITERATIONS and self._clock.mono_ms() < self._until_ms:
            self._clock.call_soon(self._check_for_more)
        else:
            self._begin_round()

    def _begin_round(self) -> None:
        # each caller has a file
        are_many = len(self._waiting) > FEW or sum(files() for _, files in self._waiting) > FEW
        asked = [begin() for begin, _ in self._waiting]
        self._waiting = []
        outcomes: list[OSError | None] = []
        job: Sync = (
            lambda: outcomes.extend(self._sync_round(asked, are_many)),
            lambda _: self._end_round(asked, outcomes, are_many),
        )
        self.run(*(job if self._timing is None else self._timed(job)))

    def _timed(self, sync: Sync) -> Sync:
        assert self._timing is not None
        (job, done), (clock, took_us) = sync, self._timing
        began_us = ended_us = 0

        def timed() -> None:
            nonlocal began_us, ended_us
            began_us = clock.mono_us()
            try:
                job()
            finally:
                ended_us = clock.mono_us()

        def ended(failure: OSError | None) -> None:
            took_us(ended_us - began_us)
            done(failure)

        return timed, ended

    def _sync_round(self, asked: Sequence[Sync], are_many: bool) -> list[OSError | None]:
        if are_many and self._sync_all is not None:
            return [_outcome(self._sync_all)] * len(asked)
        return [_outcome(job) for job, _ in asked]

    def _end_round(self, asked: Sequence[Sync], outcomes: Sequence[OSError | None], are_many: bool) -> None:
        for (_, done), outcome in zip(asked, outcomes, strict=True):
            self._outcomes.append((done, outcome))
        failure = outcomes[0] if are_many else None
        if failure is not None:
            # the failure may concern bytes of later requests, and the system does not report it a second time
            self._outcomes.extend((begin()[1], failure) for begin, _ in self._waiting)
            self._waiting = []
        if self._waiting and self._clock is not None:
            self._gather(self._clock)
        else:
            self._in_round = False

    def run(self, job: Callable[[], object], done: Callable[[OSError | None], object]) -> None:
        """Run `job` in a thread, then `done` on the event loop, with the OSError that `job` raised or None."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="muster-sync")

        def work() -> None:
            failure = _outcome(job)
            self._outcomes.append((done, failure))
            if self._posted:
                return  # a call for an earlier result is pending, and passes this result too
            self._posted = True
            try:
                self._post(self._deliver)
            except RuntimeError:
                # the event loop was closed meanwhile: nobody waits for the result
                return

        self._executor.submit(work)

    def _deliver(self) -> None:
        # this assignment comes first: a result that arrives from now on needs another call
        self._posted = False
        outcomes = self._outcomes
        try:
            while outcomes:
                done, failure = outcomes.popleft()
                done(failure)
        finally:
            if outcomes:  # a callback raised: the other callbacks are still called
                self._posted = True
                self._post(self._deliver)

    def close(self) -> None:
        """Wait for the end of the running jobs, and accept no further jobs."""
        self._closed = True
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True)


def _outcome(job: Callable[[], object]) -> OSError | None:
    try:
        job()
    except OSError as error:
        return error
    return None
